import DaemonAPI
import Foundation
import HostSystem
import Ledger
import MerchantKeys
import Refusals
import Synchronization
import WorkerProtocol
import WorkerSupervision

/// Whether a payment token would be decrypted now, and if not, why. A certificate's expiry is no reason: Apple stops
/// encrypting to it, that is all.
final class Readiness: Sendable {
    /// What was found at one look.
    struct Findings: Sendable {
        /// Why payments are refused; none when the daemon is ready.
        var reasons: [ReadinessAnswer.Reason] = []
        /// What is out of order and stops nothing, a sentence each.
        var warnings: [String] = []
    }

    private let hsmTokens: HSMTokenPool
    private let gate: LedgerGate
    private let catalogue: KeyCatalogue
    private let clock: WallClock
    private let ledgerProbe: LedgerProbe
    private let clockProbe: ClockProbe
    private let keptFindings = KeptFindings()
    private let lastVerdict = Mutex(false)

    init(
        hsmTokens: HSMTokenPool, ledger: any Ledger, gate: LedgerGate, catalogue: KeyCatalogue, clock: WallClock,
        ledgerClock: LedgerClock, faults: FaultLog
    ) {
        self.hsmTokens = hsmTokens
        self.gate = gate
        self.catalogue = catalogue
        self.clock = clock
        ledgerProbe = LedgerProbe(faults: faults) { () throws(LedgerFailure) in
            try await ledger.probe()
            if catalogue.isBehind { try await catalogue.refresh() }
        }
        clockProbe = ClockProbe(faults: faults) { () throws(LedgerFailure) in try await ledgerClock.compare().reasons }
    }

    /// The answer to `GET /readyz`.
    ///
    /// A peer that no access rule matches gets the last verdict without reasons, a few seconds old at most (``ServiceStatus``): it
    /// cannot cause a commit. Before the first check the daemon is not ready.
    ///
    /// - Parameter caller: nil where no rule matches.
    func answer(for caller: Caller?) async -> ReadinessAnswer {
        guard caller != nil else { return ReadinessAnswer(ready: lastVerdict.withLock { $0 }) }
        let reasons = await reasons()
        return ReadinessAnswer(ready: reasons.isEmpty, reasons: reasons.isEmpty ? nil : reasons)
    }

    func reasons() async -> [ReadinessAnswer.Reason] { await findings().reasons }

    func findings() async -> Findings {
        let findings = await check()
        lastVerdict.withLock { $0 = findings.reasons.isEmpty }
        return findings
    }

    private func check() async -> Findings {
        // First, since it takes up what an HSM token showed while the ledger was away.
        let ledgerFault = await ledgerProbe.fault()
        var findings = keptFindings.findings(
            hsmTokens.snapshots, generation: catalogue.index.generation, keys: { catalogue.index.entries },
            now: clock.now()
        )
        if let ledgerFault {
            findings.reasons.append(.init("ledger", .ledgerUnavailable, ledgerFault))
        }
        switch gate.position {
        case .open: break
        case .waiting:
            findings.reasons.append(.init("ledger", .ledgerUnavailable, gate.waitingReason))
        case .held(let disagreement):
            findings.reasons.append(.init("ledger", .ledgerUnavailable, disagreement.description))
        }
        // While the ledger cannot be read it says nothing about the clock.
        if ledgerFault == nil { findings.reasons += await clockProbe.reasons() }
        return findings
    }
}

extension Readiness {
    /// One HSM token at one look.
    struct HSMTokenSnapshot: Sendable, Equatable {
        let name: String
        let condition: HSMTokenCondition

        /// Whether it would open a payment for this key now.
        func opens(_ key: KeyEntry) -> Bool {
            key.hsmTokens.contains(name) && condition.tier(for: key.algorithm.scheme) != nil
        }

        /// Whether it shows this key and, though it is open, can open no payment for it. Its worker cannot test such a key
        /// and lists it as out of order, so ``KeyEntry/hsmTokens`` lacks this one.
        func lacksTier(for key: KeyEntry) -> Bool {
            guard case .ready = condition else { return false }
            return key.shownBy.contains(name) && condition.tier(for: key.algorithm.scheme) == nil
        }

        /// Whether it is on this token that payments for this key wait, given that no token opens them now.
        func isMissed(for key: KeyEntry) -> Bool {
            if case .ready = condition { return lacksTier(for: key) }
            guard key.condition == .served || key.condition == .missing else { return false }
            // A key that no token shows may be in any that is away.
            return key.hsmTokens.isEmpty || key.hsmTokens.contains(name)
        }

        var opensNothing: Bool { condition.tier(for: .ecV1) == nil && condition.tier(for: .rsaV1) == nil }

        /// Why it opens nothing, or only payments of one version; nil when it opens both.
        var fault: String? {
            switch condition {
            case .ready(let description):
                description.tierECv1 == nil || description.tierRSAv1 == nil
                    ? Self.advice(on: description) + description.shortcomings.joined(separator: " ") : nil
            case .starting: "The worker is starting."
            case .unavailable(let failure): failure.message
            }
        }

        /// The change of the configuration that would help, if there is one; precedes the reason.
        private static func advice(on description: HSMTokenDescription) -> String {
            description.needsExtractableSecret
                ? "Set allow_extractable_secret: true for this token, or use another token: " : ""
        }
    }

    /// An HSM token that is away makes the daemon unready only when it may hold a key that no other serves now. Where two
    /// tokens hold the same keys and one dies, a load balancer that took the host out would turn half an outage into a
    /// whole one, and on every host at once when the tokens are shared. A token that opens payments of one version only is
    /// away for its keys of the other type: the daemon is unready when it holds such a key and no other token opens it.
    static func findings(_ hsmTokens: [HSMTokenSnapshot], keys: () -> [KeyEntry], now: Date) -> Findings {
        // Most of the time no token has a fault. Then no key is looked at, however many there are.
        guard hsmTokens.contains(where: { $0.fault != nil }) else { return Findings() }
        let unserved = keys().filter { key in
            key.decrypts(at: now) && !hsmTokens.contains { $0.opens(key) }
        }
        let anyServes = hsmTokens.contains { !$0.opensNothing }
        var findings = Findings()
        for hsmToken in hsmTokens {
            guard let fault = hsmToken.fault else { continue }
            if !anyServes || unserved.contains(where: { hsmToken.isMissed(for: $0) }) {
                findings.reasons.append(.init("token \(hsmToken.name)", .hsmUnavailable, fault))
            } else if hsmToken.opensNothing {
                findings.warnings.append("token \(hsmToken.name) serves nothing, the others hold every key: \(fault)")
            }
        }
        return findings
    }

    /// The findings about the HSM tokens, until the key index, an HSM token's condition or a cut-off changes them: any peer may
    /// ask, and there may be thousands of keys.
    final class KeptFindings: Sendable {
        private struct Kept {
            let generation: Int
            let hsmTokens: [HSMTokenSnapshot]
            /// From the look to the next cut-off.
            let times: Range<Date>
            let findings: Findings
        }

        private let kept = Mutex<Kept?>(nil)

        /// - Parameter generation: of `keys`, or an earlier one.
        func findings(
            _ hsmTokens: [HSMTokenSnapshot], generation: Int, keys: () -> [KeyEntry], now: Date
        ) -> Findings {
            let kept = kept.withLock { $0 }
            if let kept, kept.generation == generation, kept.hsmTokens == hsmTokens, kept.times.contains(now) {
                return kept.findings
            }
            var cutOff = Date.distantFuture
            let findings = Readiness.findings(
                hsmTokens,
                keys: {
                    let keys = keys()
                    cutOff = keys.lazy.compactMap(\.cutOff).filter { $0 > now }.min() ?? cutOff
                    return keys
                }, now: now)
            self.kept.withLock {
                $0 = Kept(generation: generation, hsmTokens: hsmTokens, times: now..<cutOff, findings: findings)
            }
            return findings
        }
    }

    /// What the HSM tokens that show a key lack for its type, each by its name, and what can be done where that is known.
    /// nil where one of them has a tier for it, so that it is the key that is out of order, and where none that is open
    /// shows it.
    static func missingTier(_ hsmTokens: [HSMTokenSnapshot], for key: KeyEntry) -> String? {
        let holders = hsmTokens.filter { key.shownBy.contains($0.name) }
        guard !holders.contains(where: { $0.condition.tier(for: key.algorithm.scheme) != nil }) else { return nil }
        let lacks = holders.filter { $0.lacksTier(for: key) }
            .compactMap { holder in holder.fault.map { "token \(holder.name): \($0)" } }
        return lacks.isEmpty ? nil : lacks.joined(separator: "; ")
    }
}

extension HSMTokenPool {
    /// All HSM tokens as they are now.
    var snapshots: [Readiness.HSMTokenSnapshot] {
        all.map { Readiness.HSMTokenSnapshot(name: $0.name, condition: $0.condition) }
    }

    func missingTier(for key: KeyEntry) -> String? { Readiness.missingTier(snapshots, for: key) }
}

extension ReadinessAnswer.Reason {
    fileprivate init(_ component: String, _ code: RefusalCode, _ message: String) {
        self.init(component: component, code: code.rawValue, message: message)
    }
}

/// Whether the ledger can be written now, for readiness.
///
/// Anybody may ask, and a probe writes to the ledger's disk. So one probe runs at a time, and its finding serves all who ask
/// within a second. While a probe hangs, those who ask are told so: nobody starts another, and nobody waits longer than
/// ``patience`` after it began.
final class LedgerProbe: Sendable {
    private struct State {
        var last: (at: ContinuousClock.Instant, fault: String?)?
        var running: (since: ContinuousClock.Instant, check: Task<String?, Never>)?
    }

    static let slow =
        "The ledger does not answer. Look at its disk and at other programs that use its file, or at its server and its "
        + "synchronous standby."

    private static let lookLasts = Duration.seconds(1)
    private let patience: Duration
    private let check: @Sendable () async throws(LedgerFailure) -> Void
    private let faults: FaultLog
    private let state = Mutex(State())

    /// - Parameters:
    ///   - patience: how long anybody waits for a look.
    ///   - check: throws when the ledger cannot be used.
    init(
        patience: Duration = .seconds(2), faults: FaultLog,
        check: @escaping @Sendable () async throws(LedgerFailure) -> Void
    ) {
        self.patience = patience
        self.faults = faults
        self.check = check
    }

    /// What is wrong with the ledger; nil when nothing is.
    func fault() async -> String? {
        enum Found {
            case known(String?)
            case running(since: ContinuousClock.Instant, Task<String?, Never>)
        }
        let now = ContinuousClock.now
        let found = state.withLock { state -> Found in
            if let running = state.running { return .running(since: running.since, running.check) }
            if let last = state.last, last.at.duration(to: now) < Self.lookLasts { return .known(last.fault) }
            let check = Task { await self.finding() }
            state.running = (now, check)
            return .running(since: now, check)
        }
        switch found {
        case .known(let fault): return fault
        case .running(let since, let check):
            let left = patience - since.duration(to: now)
            // A fault or nil, within an optional that is nil when nothing was found in time.
            if left > .zero, let fault = await check.value(within: left) { return fault }
            faults.began(FaultLog.ledger, Self.slow)
            return Self.slow
        }
    }

    private func finding() async -> String? {
        var fault: String?
        do throws(LedgerFailure) {
            try await check()
            faults.ended(FaultLog.ledger)
        } catch {
            fault = error.description
            faults.began(FaultLog.ledger, error.description)
        }
        state.withLock { state in
            state.last = (.now, fault)
            state.running = nil
        }
        return fault
    }
}

/// The ledger's objections to the clock, for readiness. Each look reads the ledger, so it serves several who ask (``SharedFinding``).
final class ClockProbe: Sendable {
    private static let component = "clock"
    private let found: SharedFinding<[ReadinessAnswer.Reason]>

    /// - Parameter check: throws when the ledger cannot be read.
    init(
        faults: FaultLog, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        check: @escaping @Sendable () async throws(LedgerFailure) -> [ReadinessAnswer.Reason]
    ) {
        found = SharedFinding(now: now) {
            do throws(LedgerFailure) {
                let reasons = try await check()
                if reasons.isEmpty {
                    faults.ended(Self.component)
                } else {
                    faults.began(Self.component, reasons.map(\.message).joined(separator: " "))
                }
                return reasons
            } catch {
                faults.began(FaultLog.ledger, error.description)
                return [.init(FaultLog.ledger, .ledgerUnavailable, error.description)]
            }
        }
    }

    /// Why payments are refused by the clock. When the ledger cannot be read, that is the reason instead: nothing is known of the clock
    /// then, and a fault of it that was known before has not ended.
    func reasons() async -> [ReadinessAnswer.Reason] { await found.value }
}
