import DaemonAPI
import Ledger
import Refusals
import WorkerProtocol

/// Whether a payment token would be decrypted now, and if not, why. A certificate's expiry is no reason: Apple stops
/// encrypting to it, that is all.
struct Readiness: Sendable {
    let token: TokenWorker
    let ledger: any Ledger
    let catalogue: KeyCatalogue

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
        do {
            try await ledger.probe()
            if catalogue.isBehind {
                try await catalogue.refresh()
            }
        } catch {
            reasons.append(reason("ledger", .ledgerUnavailable, error.description))
        }
        return reasons
    }

    private func reason(_ component: String, _ code: RefusalCode, _ message: String) -> ReadinessAnswer.Reason {
        ReadinessAnswer.Reason(component: component, code: code.rawValue, message: message)
    }
}
