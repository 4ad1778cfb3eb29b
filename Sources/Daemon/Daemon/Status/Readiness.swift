import DaemonAPI
import Foundation
import HostSystem
import Ledger
import MerchantKeys
import Refusals
import Synchronization
import WorkerProtocol
import WorkerSupervision

/// Determines whether a payment token would be decrypted now and, if not, why. An expired certificate is not a reason:
/// Apple stops encrypting to it, but its key still decrypts.
final class Readiness: Sendable {
    /// The result of one check.
    struct Findings: Sendable {
        /// The reasons why payments are refused; empty when the daemon is ready.
        var reasons: [ReadinessAnswer.Reason] = []
        /// Conditions that need attention and stop nothing, one sentence each.
        var warnings: [String] = []
    }

    private let hsmTokens: HSMTokenPool
    private let gate: LedgerGate
    private let catalogue: KeyCatalogue
    private let clock: WallClock
    private let ledgerProbe: LedgerProbe
    private let clockProbe: ClockProbe
    private let keptFindings = CachedFindings()
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
    /// A peer that no access rule matches gets the last verdict without reasons, at most a few seconds old
    /// (``ServiceStatus``), so it cannot cause a commit. Before the first check the daemon is not ready.
    ///
    /// - Parameter caller: the peer's caller; nil if no access rule matches the peer.
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
        // The ledger is probed first, since the probe handles what an HSM token showed while the ledger was
        // unavailable.
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
        findings.warnings += gate.checkpoints.warnings
        // An unreadable ledger says nothing about the clock.
        if ledgerFault == nil { findings.reasons += await clockProbe.reasons() }
        return findings
    }
}

extension Readiness {
    /// The condition of one HSM token at the time of a check.
    struct HSMTokenSnapshot: Sendable, Equatable {
        let name: String
        let condition: HSMTokenCondition

        /// Returns true if the HSM token would decrypt a payment for this key now.
        func opens(_ key: KeyEntry) -> Bool {
            key.hsmTokens.contains(name) && condition.tier(for: key.algorithm.scheme) != nil
        }

        /// Returns true if the HSM token is open and lists the key, but cannot decrypt payments with it. The HSM
        /// token's worker cannot test such a key and reports it as inconsistent, so ``KeyEntry/hsmTokens`` does not
        /// contain this HSM token.
        func lacksTier(for key: KeyEntry) -> Bool {
            guard case .ready = condition else { return false }
            return key.shownBy.contains(name) && condition.tier(for: key.algorithm.scheme) == nil
        }

        /// Returns true if payments for the key might be decrypted again once this HSM token is available or correctly
        /// configured. Call this only for a key with which no HSM token decrypts payments now.
        func isMissed(for key: KeyEntry) -> Bool {
            if case .ready = condition { return lacksTier(for: key) }
            guard key.condition == .served || key.condition == .missing else { return false }
            // A key that no HSM token lists may be in any that is unavailable.
            return key.hsmTokens.isEmpty || key.hsmTokens.contains(name)
        }

        var opensNothing: Bool { condition.tier(for: .ecV1) == nil && condition.tier(for: .rsaV1) == nil }

        /// The reason why the HSM token decrypts nothing, or payments of one version only; nil when it decrypts both.
        var fault: String? {
            switch condition {
            case .ready(let description):
                description.tierECv1 == nil || description.tierRSAv1 == nil
                    ? Self.advice(on: description) + description.shortcomings.joined(separator: " ") : nil
            case .starting: "The worker is starting."
            case .unavailable(let failure): failure.message
            }
        }

        /// The configuration change that would help, if there is one; precedes the reason.
        private static func advice(on description: HSMTokenDescription) -> String {
            description.needsExtractableSecret
                ? "Set allow_extractable_secret: true for this HSM token, or use another HSM token: " : ""
        }
    }

    /// Determines what the conditions of the HSM tokens mean for readiness.
    ///
    /// An unavailable HSM token makes the daemon unready only if it may have a key that no other serves now. Suppose
    /// that two HSM tokens have the same keys and one fails. A load balancer that then removed the host would turn half
    /// an outage into a whole one, and on every host at once when the HSM tokens are shared. An HSM token that decrypts
    /// payments of one version only counts as unavailable for its keys of the other type.
    static func findings(_ hsmTokens: [HSMTokenSnapshot], keys: () -> [KeyEntry], now: Date) -> Findings {
        // Usually no HSM token has a fault. Then no key is read, however many there are.
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
            } else if hsmToken.opensNothing, hsmToken.condition != .starting {
                findings.warnings.append(
                    "HSM token \(hsmToken.name) serves no key; the others serve every key: \(fault)")
            }
        }
        return findings
    }

    /// Caches the findings about the HSM tokens until the key index, an HSM token's condition or a cut-off changes
    /// them: any peer may ask, and there may be thousands of keys.
    final class CachedFindings: Sendable {
        private struct Kept {
            let generation: Int
            let hsmTokens: [HSMTokenSnapshot]
            /// The time of the check up to the next cut-off.
            let times: Range<Date>
            let findings: Findings
        }

        private let kept = Mutex<Kept?>(nil)

        /// - Parameter generation: the generation of `keys`, or an earlier one.
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

    /// Describes which tier each HSM token that lists the key lacks for the key's type, and the remedy where it is
    /// known. nil if any of them has that tier, since the key itself is then at fault, and nil if no open HSM token
    /// lists the key.
    static func missingTier(_ hsmTokens: [HSMTokenSnapshot], for key: KeyEntry) -> String? {
        let holders = hsmTokens.filter { key.shownBy.contains($0.name) }
        guard !holders.contains(where: { $0.condition.tier(for: key.algorithm.scheme) != nil }) else { return nil }
        let lacks = holders.filter { $0.lacksTier(for: key) }
            .compactMap { holder in holder.fault.map { "HSM token \(holder.name): \($0)" } }
        return lacks.isEmpty ? nil : lacks.joined(separator: "; ")
    }
}

extension HSMTokenPool {
    /// The present condition of every HSM token.
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

/// Determines for readiness whether the ledger can be written now.
///
/// Any peer may ask, and a probe writes to the ledger's disk. So one probe runs at a time, and its finding serves every
/// request within a second. While a probe hangs, requests get ``slow`` as their answer. None starts another probe, and
/// none waits longer than `patience` after the probe began.
final class LedgerProbe: Sendable {
    private struct State {
        var last: (at: ContinuousClock.Instant, fault: String?)?
        var running: (since: ContinuousClock.Instant, check: Task<String?, Never>)?
    }

    static let slow =
        "The ledger does not respond. Check its disk and other programs that use its file, or its server and its "
        + "synchronous standby."

    private static let lookLasts = Duration.seconds(1)
    private let patience: Duration
    private let check: @Sendable () async throws(LedgerFailure) -> Void
    private let faults: FaultLog
    private let state = Mutex(State())

    /// - Parameters:
    ///   - patience: the longest wait for a probe.
    ///   - check: a write to the ledger, which throws when the ledger cannot be used.
    init(
        patience: Duration = .seconds(2), faults: FaultLog,
        check: @escaping @Sendable () async throws(LedgerFailure) -> Void
    ) {
        self.patience = patience
        self.faults = faults
        self.check = check
    }

    /// The ledger's fault; nil when it has none.
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
            // The inner optional is the fault or nil; the outer is nil when nothing was found in time.
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

/// Evaluates the ledger's objections to the clock for readiness. Each evaluation reads the ledger, so one serves
/// several requests (``SharedFinding``).
final class ClockProbe: Sendable {
    private static let component = "clock"
    private let found: SharedFinding<[ReadinessAnswer.Reason]>

    /// - Parameter check: the comparison with the ledger's times, which throws when the ledger cannot be read.
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

    /// The reasons why the clock makes the daemon refuse payments. If the ledger cannot be read, that is the reason
    /// instead: the clock's condition is then unknown, and a clock fault known before has not ended.
    func reasons() async -> [ReadinessAnswer.Reason] { await found.value }
}
