import DaemonAPI
import Ledger
import MerchantKeys
import Refusals
import Synchronization
import WorkerProtocol

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
    private let faults: FaultLog
    private let catalogue: KeyCatalogue
    private let clock: WallClock
    private let ledgerProbe: LedgerProbe
    private let ledgerClock: LedgerClock
    private let clockLook = Mutex<(at: ContinuousClock.Instant, reasons: [ReadinessAnswer.Reason])?>(nil)

    /// Anybody may ask, and each look reads the ledger: one look serves all who ask within this time.
    private static let lookLasts = Duration.seconds(1)

    init(
        hsmTokens: HSMTokenPool, ledger: any Ledger, gate: LedgerGate, catalogue: KeyCatalogue, clock: WallClock,
        ledgerClock: LedgerClock, faults: FaultLog
    ) {
        self.hsmTokens = hsmTokens
        self.gate = gate
        self.faults = faults
        self.catalogue = catalogue
        self.clock = clock
        ledgerProbe = LedgerProbe(faults: faults) { () throws(LedgerFailure) in
            try await ledger.probe()
            if catalogue.isBehind { try await catalogue.refresh() }
        }
        self.ledgerClock = ledgerClock
    }

    func reasons() async -> [ReadinessAnswer.Reason] { await findings().reasons }

    func findings() async -> Findings {
        // First, since it takes up what an HSM token showed while the ledger was away.
        let ledgerFault = await ledgerProbe.fault()
        var findings = hsmTokenFindings()
        if let ledgerFault {
            findings.reasons.append(reason("ledger", .ledgerUnavailable, ledgerFault))
        }
        switch gate.position {
        case .open: break
        case .waiting:
            findings.reasons.append(
                reason("ledger", .ledgerUnavailable, "The ledger waits for the HSM that remembers its end."))
        case .held(let disagreement):
            findings.reasons.append(reason("ledger", .ledgerUnavailable, disagreement.description))
        }
        if ledgerFault == nil { findings.reasons += await clockReasons() }
        return findings
    }

    /// Asked only while the ledger can be read: otherwise it says nothing about the clock.
    private func clockReasons() async -> [ReadinessAnswer.Reason] {
        if let look = clockLook.withLock({ $0 }), look.at.duration(to: .now) < Self.lookLasts { return look.reasons }
        let reasons = (try? await ledgerClock.look())?.reasons ?? []
        clockLook.withLock { $0 = (.now, reasons) }
        for reason in reasons { faults.began(reason.component, reason.message) }
        if reasons.isEmpty { faults.ended("clock") }
        return reasons
    }

    /// An HSM token that is away makes the daemon unready only when it may hold a key that no other serves now. Where two
    /// tokens hold the same keys and one dies, a load balancer that took the host out would turn half an outage into a
    /// whole one, and on every host at once when the tokens are shared.
    private func hsmTokenFindings() -> Findings {
        // Most of the time no token has a fault. Then no key is looked at, however many there are.
        guard hsmTokens.tokens.contains(where: { Self.fault(of: $0) != nil }) else { return Findings() }
        let now = clock.now()
        let unserved = catalogue.index.entries.filter { entry in
            (entry.condition == .served || entry.condition == .missing)
                && entry.stateDecrypts(at: now) && !hsmTokens.serves(entry)
        }
        let anyServes = hsmTokens.tokens.contains { Self.fault(of: $0) == nil }
        var findings = Findings()
        for hsmToken in hsmTokens.tokens {
            guard let fault = Self.fault(of: hsmToken) else { continue }
            // A key that no token shows may be in any that is away.
            let isMissed = unserved.contains { $0.hsmTokens.isEmpty || $0.hsmTokens.contains(hsmToken.name) }
            if isMissed || !anyServes {
                findings.reasons.append(reason("token \(hsmToken.name)", .hsmUnavailable, fault))
            } else {
                findings.warnings.append("token \(hsmToken.name) serves nothing, the others hold every key: \(fault)")
            }
        }
        return findings
    }

    /// Why an HSM token opens nothing now; nil when it serves a version.
    private static func fault(of hsmToken: HSMToken) -> String? {
        switch hsmToken.condition {
        case .ready(let description):
            description.tierECv1 == nil && description.tierRSAv1 == nil
                ? advice(on: description.shortcomings) + description.shortcomings.joined(separator: " ") : nil
        case .starting: "The worker is starting."
        case .unavailable(let failure): failure.message
        }
    }

    /// What can be done, where it is known, to be put before the reason.
    private static func advice(on shortcomings: [String]) -> String {
        shortcomings.contains { $0.contains("allow_extractable_secret is false") }
            ? "Set allow_extractable_secret: true for this token, or use another token: " : ""
    }

    private func reason(_ component: String, _ code: RefusalCode, _ message: String) -> ReadinessAnswer.Reason {
        ReadinessAnswer.Reason(component: component, code: code.rawValue, message: message)
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
        var running: (since: ContinuousClock.Instant, look: Task<String?, Never>)?
    }

    static let slow = "The ledger does not answer. Look at its disk, and at other programs that use its file."

    private static let lookLasts = Duration.seconds(1)
    private let patience: Duration
    private let look: @Sendable () async throws(LedgerFailure) -> Void
    private let faults: FaultLog
    private let state = Mutex(State())

    /// - Parameters:
    ///   - patience: how long anybody waits for a look.
    ///   - look: throws when the ledger cannot be used.
    init(
        patience: Duration = .seconds(2), faults: FaultLog,
        look: @escaping @Sendable () async throws(LedgerFailure) -> Void
    ) {
        self.patience = patience
        self.faults = faults
        self.look = look
    }

    /// What is wrong with the ledger; nil when nothing is.
    func fault() async -> String? {
        enum Found {
            case known(String?)
            case running(since: ContinuousClock.Instant, Task<String?, Never>)
        }
        let now = ContinuousClock.now
        let found = state.withLock { state -> Found in
            if let running = state.running { return .running(since: running.since, running.look) }
            if let last = state.last, last.at.duration(to: now) < Self.lookLasts { return .known(last.fault) }
            let look = Task { await self.finding() }
            state.running = (now, look)
            return .running(since: now, look)
        }
        switch found {
        case .known(let fault): return fault
        case .running(let since, let look):
            let left = patience - since.duration(to: now)
            // A fault or nil, within an optional that is nil when nothing was found in time.
            if left > .zero, let fault = await look.value(within: left) { return fault }
            faults.began(FaultLog.ledger, Self.slow)
            return Self.slow
        }
    }

    private func finding() async -> String? {
        var fault: String?
        do throws(LedgerFailure) {
            try await look()
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
