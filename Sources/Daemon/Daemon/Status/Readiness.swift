import DaemonAPI
import DaemonConfiguration
import Foundation
import HostSystem
import Ledger
import Locks
import MerchantKeys
import Refusals
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// Determines if the daemon would decrypt a payment token now, and the reasons if it would not. An expired certificate
/// is no such reason: Apple stops encrypting to the certificate's key, but the key still decrypts.
final class Readiness: Sendable {
    /// The result of one readiness check.
    struct Findings: Sendable {
        /// The reasons why payments are refused; empty when the daemon is ready.
        var reasons: [ReadinessAnswer.Reason] = []
        /// Conditions that need an operator's attention but stop nothing, one sentence each.
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

    /// Returns the answer to `GET /readyz`.
    ///
    /// A peer that no access rule matches gets the last result, without reasons. Such a peer thus cannot cause a write to
    /// the ledger. The result is at most a few seconds old, since ``ServiceStatus`` checks regularly. Before the first
    /// check the daemon is not ready.
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
        // The ledger is probed first. If it has become available, the probe also indexes the keys that HSM tokens showed in
        // the meantime.
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
        // If the ledger cannot be read, its times cannot be compared with the clock.
        if ledgerFault == nil { findings.reasons += await clockProbe.reasons() }
        return findings
    }
}

extension Readiness {
    /// The condition of an HSM token at the time of a readiness check.
    struct HSMTokenSnapshot: Sendable, Equatable {
        let name: String
        let condition: HSMTokenCondition

        /// Returns true if the HSM token can decrypt payments for this key now.
        func opens(_ key: KeyEntry) -> Bool {
            key.hsmTokens.contains(name) && condition.tier(for: key.scheme) != nil
        }

        /// Returns true if the HSM token is open and shows the key, but has no tier for it. The worker cannot test such a
        /// key, and lists it as inconsistent. Therefore ``KeyEntry/hsmTokens`` does not contain this HSM token.
        func lacksTier(for key: KeyEntry) -> Bool {
            guard case .ready = condition else { return false }
            return key.shownBy.contains(name) && condition.tier(for: key.scheme) == nil
        }

        /// Returns true if this HSM token may be the reason why payments for the key cannot be decrypted: it is unavailable
        /// or wrongly configured. Call this only for a key with which no HSM token decrypts now.
        func mayBlock(for key: KeyEntry) -> Bool {
            if case .ready = condition { return lacksTier(for: key) }
            guard key.condition == .served || key.condition == .missing else { return false }
            // If no HSM token lists the key, the key may be in any HSM token that is unavailable.
            return key.hsmTokens.isEmpty || key.hsmTokens.contains(name)
        }

        var opensNothing: Bool { condition.tier(for: .ecV1) == nil && condition.tier(for: .rsaV1) == nil }

        /// The reason why the HSM token decrypts no payments, or not those of every version and wallet; nil if it decrypts
        /// all.
        var fault: String? {
            switch condition {
            case .ready(let description):
                description.tierECv1 == nil || description.tierRSAv1 == nil
                    ? Self.advice(on: description) + description.shortcomings.joined(separator: " ")
                    : description.shortcomingECv2.isEmpty ? nil : description.shortcomingECv2
            case .starting: "The worker is starting."
            case .unavailable(let failure): failure.message
            }
        }

        /// Returns the beginning of ``fault``: the configuration change that would help; empty if there is none.
        private static func advice(on description: HSMTokenDescription) -> String {
            description.needsExtractableSecret
                ? "Set allow_extractable_secret: true for this HSM token, or use another HSM token: " : ""
        }
    }

    /// Determines what the conditions of the HSM tokens mean for the daemon's readiness.
    ///
    /// An unavailable HSM token makes the daemon unready only if it may have a key that no other HSM token serves now.
    /// Suppose that two HSM tokens have the same keys, and one fails. A load balancer that removed the host would turn
    /// half an outage into a whole one. If several hosts share the HSM tokens, the load balancer would remove all hosts
    /// at once. An HSM token that decrypts payments of only one version (EC_v1 or RSA_v1) counts as unavailable for its
    /// keys of the other version.
    static func findings(_ hsmTokens: [HSMTokenSnapshot], keys: () -> [KeyEntry], now: Date) -> Findings {
        // In the usual case, without a fault, the keys are not read, since there may be thousands of them.
        guard hsmTokens.contains(where: { $0.fault != nil }) else { return Findings() }
        let unserved = keys().filter { key in
            key.decrypts(at: now) && !hsmTokens.contains { $0.opens(key) }
        }
        let anyServes = hsmTokens.contains { !$0.opensNothing }
        var findings = Findings()
        for hsmToken in hsmTokens {
            guard let fault = hsmToken.fault else { continue }
            if !anyServes || unserved.contains(where: { hsmToken.mayBlock(for: $0) }) {
                findings.reasons.append(.init("token \(hsmToken.name)", .hsmUnavailable, fault))
            } else if hsmToken.opensNothing, hsmToken.condition != .starting {
                findings.warnings.append(
                    "HSM token \(hsmToken.name) serves no key; the others serve every key: \(fault)")
            }
        }
        return findings
    }

    /// Keeps the findings about the HSM tokens until the key index or an HSM token's condition changes, or a cut-off
    /// passes. Any peer may cause a check, and without this cache each check could read thousands of keys.
    final class CachedFindings: Sendable {
        private struct Kept {
            let generation: Int
            let hsmTokens: [HSMTokenSnapshot]
            /// The times at which the findings are valid: from the check until the next cut-off.
            let times: Range<Date>
            let findings: Findings
        }

        private let kept = Mutex<Kept?>(nil)

        /// Returns the kept findings if they are still valid, else determines and keeps new ones.
        /// - Parameter generation: the generation of the key index. It must be read before `keys` is called. Otherwise
        ///   findings about older keys could be kept as findings about newer ones.
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

    /// Returns the reason why no HSM token can open payments for the key's type, although open HSM tokens show the key.
    /// The reason contains a text for each of these HSM tokens, with the remedy if a remedy is known.
    ///
    /// - Returns: nil if an HSM token that shows the key has a tier for it; the key itself is then at fault. Also nil if
    ///   no open HSM token shows the key.
    static func missingTier(_ hsmTokens: [HSMTokenSnapshot], for key: KeyEntry) -> String? {
        let holders = hsmTokens.filter { key.shownBy.contains($0.name) }
        guard !holders.contains(where: { $0.condition.tier(for: key.scheme) != nil }) else { return nil }
        let lacks = holders.filter { $0.lacksTier(for: key) }
            .compactMap { holder in holder.fault.map { "HSM token \(holder.name): \($0)" } }
        return lacks.isEmpty ? nil : lacks.joined(separator: "; ")
    }
}

extension HSMTokenPool {
    /// The current conditions of all HSM tokens.
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

/// Determines if the ledger can be written now, for the readiness check.
///
/// Any peer may cause a check, and each probe writes to the ledger's disk. Therefore only one probe runs at a time, and
/// its result serves all requests within a second. While a probe hangs, no other starts, and requests get ``slow`` as
/// the fault. A request waits at most until the probe has run for `patience`.
final class LedgerProbe: Sendable {
    private struct State {
        var last: (at: ContinuousClock.Instant, fault: String?)?
        var running: (since: ContinuousClock.Instant, check: Task<String?, Never>)?
    }

    static let slow =
        "The ledger does not respond. Check its disk and other programs that use its file, or its server and its "
        + "synchronous standby."

    private static let findingLasts = Duration.seconds(1)
    private let patience: Duration
    private let check: @Sendable () async throws(LedgerFailure) -> Void
    private let faults: FaultLog
    private let state = Mutex(State())

    /// - Parameters:
    ///   - patience: the maximum time from the start of a probe for which requests wait.
    ///   - check: the probe: a write to the ledger, which throws if the ledger cannot be used.
    init(
        patience: Duration = .seconds(2), faults: FaultLog,
        check: @escaping @Sendable () async throws(LedgerFailure) -> Void
    ) {
        self.patience = patience
        self.faults = faults
        self.check = check
    }

    /// Returns the ledger's fault; nil if the ledger can be written.
    func fault() async -> String? {
        enum ProbeState {
            case known(String?)
            case running(since: ContinuousClock.Instant, Task<String?, Never>)
        }
        let now = ContinuousClock.now
        let probe = state.withLock { state -> ProbeState in
            if let running = state.running { return .running(since: running.since, running.check) }
            if let last = state.last, last.at.duration(to: now) < Self.findingLasts { return .known(last.fault) }
            let check = Task { await self.finding() }
            state.running = (now, check)
            return .running(since: now, check)
        }
        switch probe {
        case .known(let fault): return fault
        case .running(let since, let check):
            let left = patience - since.duration(to: now)
            // `value(within:)` returns nil if the probe took too long. The probe's own result is an optional too: the
            // fault, or nil.
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

/// Determines the reasons for which the clock makes the daemon refuse payments, for the readiness check. Each comparison
/// reads the ledger, so one comparison serves several requests (``SharedFinding``).
final class ClockProbe: Sendable {
    private static let component = "clock"
    private let found: SharedFinding<[ReadinessAnswer.Reason]>

    /// - Parameter check: the comparison of the clock with the ledger's times, which throws if the ledger cannot be read.
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

    /// Returns the reasons why the clock makes the daemon refuse payments. If the ledger cannot be read, that is the only
    /// reason. The clock's condition is then unknown, so an earlier clock fault is not logged as ended.
    func reasons() async -> [ReadinessAnswer.Reason] { await found.value }
}
