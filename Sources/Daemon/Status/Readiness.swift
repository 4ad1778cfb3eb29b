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

    private let tokens: HSMTokenPool
    private let gate: LedgerGate
    private let troubles: TroubleLog
    private let catalogue: KeyCatalogue
    private let clock: WallClock
    private let ledgerProbe: LedgerProbe
    private let ledgerClock: LedgerClock
    private let clockLook = Mutex<(at: ContinuousClock.Instant, reasons: [ReadinessAnswer.Reason])?>(nil)

    /// Anybody may ask, and each look reads the ledger: one look serves all who ask within this time.
    private static let lookLasts = Duration.seconds(1)

    init(
        tokens: HSMTokenPool, ledger: any Ledger, gate: LedgerGate, catalogue: KeyCatalogue, clock: WallClock,
        ledgerClock: LedgerClock, troubles: TroubleLog
    ) {
        self.tokens = tokens
        self.gate = gate
        self.troubles = troubles
        self.catalogue = catalogue
        self.clock = clock
        ledgerProbe = LedgerProbe(faults: troubles) { () throws(LedgerFailure) in
            try await ledger.probe()
            if catalogue.isBehind { try await catalogue.refresh() }
        }
        self.ledgerClock = ledgerClock
    }

    func reasons() async -> [ReadinessAnswer.Reason] { await findings().reasons }

    func findings() async -> Findings {
        // First, since it judges anew what a token showed while the ledger was away.
        let ledgerTrouble = await ledgerProbe.fault()
        var findings = tokenFindings()
        if let ledgerTrouble {
            findings.reasons.append(reason("ledger", .ledgerUnavailable, ledgerTrouble))
        }
        switch gate.position {
        case .open: break
        case .waiting:
            findings.reasons.append(
                reason("ledger", .ledgerUnavailable, "The ledger waits for the token that remembers its end."))
        case .held(let disagreement):
            findings.reasons.append(reason("ledger", .ledgerUnavailable, disagreement.description))
        }
        if ledgerTrouble == nil { findings.reasons += await clockReasons() }
        return findings
    }

    /// Of a ledger that can be used: one that cannot be read says nothing about the clock.
    private func clockReasons() async -> [ReadinessAnswer.Reason] {
        if let look = clockLook.withLock({ $0 }), look.at.duration(to: .now) < Self.lookLasts { return look.reasons }
        let reasons = (try? await ledgerClock.look())?.reasons ?? []
        clockLook.withLock { $0 = (.now, reasons) }
        for reason in reasons { troubles.met(reason.component, reason.message) }
        if reasons.isEmpty { troubles.over("clock") }
        return reasons
    }

    /// A token that is away makes the daemon unready only when it may hold a key that no other serves now. With two
    /// tokens that hold the same keys, a load balancer that takes a host out because one of them died would turn half
    /// an outage into a whole one, and on every host at once when the tokens are shared.
    private func tokenFindings() -> Findings {
        // All is well most of the time, and then no key is looked at, however many there are.
        guard tokens.tokens.contains(where: { Self.trouble(of: $0) != nil }) else { return Findings() }
        let now = clock.now()
        let unserved = catalogue.index.entries.filter { entry in
            (entry.condition == .served || entry.condition == .missing)
                && entry.state.decrypts(at: now, cutOff: entry.cutOff) && !tokens.serves(entry)
        }
        let anyServes = tokens.tokens.contains { Self.trouble(of: $0) == nil }
        var findings = Findings()
        for token in tokens.tokens {
            guard let trouble = Self.trouble(of: token) else { continue }
            // A key that no token shows may be in any that is away.
            let isMissed = unserved.contains { $0.tokens.isEmpty || $0.tokens.contains(token.name) }
            if isMissed || !anyServes {
                findings.reasons.append(reason("token \(token.name)", .hsmUnavailable, trouble))
            } else {
                findings.warnings.append("token \(token.name) serves nothing, the others hold every key: \(trouble)")
            }
        }
        return findings
    }

    /// Why nothing is opened by a token now; nil when it serves a version.
    private static func trouble(of token: HSMToken) -> String? {
        switch token.condition {
        case .ready(let description):
            description.tierECv1 == nil && description.tierRSAv1 == nil
                ? advice(on: description.shortcomings) + description.shortcomings.joined(separator: " ") : nil
        case .starting: "The worker is starting."
        case .unavailable(let failure): failure.message
        }
    }

    /// What to do comes before why, where it is known.
    private static func advice(on shortcomings: [String]) -> String {
        shortcomings.contains { $0.contains("allow_extractable_secret is false") }
            ? "Set allow_extractable_secret: true for this token, or use another token: " : ""
    }

    private func reason(_ component: String, _ code: RefusalCode, _ message: String) -> ReadinessAnswer.Reason {
        ReadinessAnswer.Reason(component: component, code: code.rawValue, message: message)
    }
}
