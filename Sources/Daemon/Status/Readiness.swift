import DaemonAPI
import Ledger
import Refusals
import Synchronization
import WorkerProtocol

/// Whether a payment token would be decrypted now, and if not, why. A certificate's expiry is no reason: Apple stops
/// encrypting to it, that is all.
final class Readiness: Sendable {
    private let token: TokenWorker
    private let ledger: any Ledger
    private let gate: LedgerGate
    private let troubles: TroubleLog
    private let catalogue: KeyCatalogue
    private let ledgerLook = Mutex<(at: ContinuousClock.Instant, trouble: String?)?>(nil)

    /// Looking at the ledger writes to its disk, and anybody may ask: one look serves all who ask within this time.
    private static let lookLasts = Duration.seconds(1)

    init(token: TokenWorker, ledger: any Ledger, gate: LedgerGate, catalogue: KeyCatalogue, troubles: TroubleLog) {
        self.token = token
        self.ledger = ledger
        self.gate = gate
        self.troubles = troubles
        self.catalogue = catalogue
    }

    func reasons() async -> [ReadinessAnswer.Reason] {
        var reasons: [ReadinessAnswer.Reason] = []
        let component = "token \(token.name)"
        switch token.condition {
        case .ready(let description):
            if description.tierECv1 == nil, description.tierRSAv1 == nil {
                reasons.append(reason(component, .hsmUnavailable, description.shortcomings.joined(separator: " ")))
            }
        case .starting:
            reasons.append(reason(component, .hsmUnavailable, "The worker is starting."))
        case .unavailable(let failure):
            reasons.append(reason(component, .hsmUnavailable, failure.message))
        }
        if let trouble = await ledgerTrouble() {
            reasons.append(reason("ledger", .ledgerUnavailable, trouble))
        }
        switch gate.position {
        case .open: break
        case .waiting:
            reasons.append(
                reason("ledger", .ledgerUnavailable, "The ledger waits for the token that remembers its end."))
        case .held(let disagreement):
            reasons.append(reason("ledger", .ledgerUnavailable, disagreement.description))
        }
        return reasons
    }

    private func ledgerTrouble() async -> String? {
        if let look = ledgerLook.withLock({ $0 }), look.at.duration(to: .now) < Self.lookLasts { return look.trouble }
        var trouble: String?
        do throws(LedgerFailure) {
            try await ledger.probe()
            if catalogue.isBehind { try await catalogue.refresh() }
            troubles.over(TroubleLog.ledger)
        } catch {
            trouble = error.description
            troubles.met(TroubleLog.ledger, error.description)
        }
        ledgerLook.withLock { $0 = (.now, trouble) }
        return trouble
    }

    private func reason(_ component: String, _ code: RefusalCode, _ message: String) -> ReadinessAnswer.Reason {
        ReadinessAnswer.Reason(component: component, code: code.rawValue, message: message)
    }
}
