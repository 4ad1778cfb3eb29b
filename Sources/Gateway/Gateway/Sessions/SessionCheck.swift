import DaemonAPI
import GatewayAPI
import Refusals

extension SessionCheckRequest {
    /// Returns the request for a session on the web with the merchant and the domain to check.
    ///
    /// - Throws: `malformed_request`.
    var session: MerchantSessionRequest {
        get throws(Refusal) {
            guard MerchantSessionRequest.isMerchantIdentifier(merchantIdentifier) else {
                throw Refusal(
                    .malformedRequest, "merchantIdentifier is not a merchant identifier.", details: "merchantIdentifier"
                )
            }
            guard let domain = DomainName(domain) else {
                throw Refusal(
                    .malformedRequest, "domain is not a domain name, such as shop.example.", details: "domain")
            }
            return MerchantSessionRequest(
                merchantIdentifier: merchantIdentifier, displayName: "Session check", initiative: "web",
                initiativeContext: domain.name)
        }
    }
}

extension MerchantSessions {
    /// Requests a session from Apple on a separate connection, reports the steps that succeeded, and discards the
    /// session.
    ///
    /// - Throws: `malformed_request`; failures of Apple or paytokend are part of the result.
    func check(_ check: SessionCheckRequest, traceparent: String? = nil) async throws(Refusal) -> SessionCheckAnswer {
        let request = try check.session
        let progress = begin(traceparent: traceparent)
        do throws(SessionFailure) {
            _ = try await session(request, progress, reuses: false)
            return SessionCheckAnswer(
                steps: SessionStep.allCases.map { .init(step: $0.rawValue, outcome: .ok) }, code: nil, message: nil,
                details: nil)
        } catch {
            let failed = error.step ?? progress.next
            let answer = error.answer
            return SessionCheckAnswer(
                steps: SessionStep.allCases.map { step in
                    let outcome: SessionCheckAnswer.Outcome =
                        step == failed ? .failed : step.position < failed.position ? .ok : .notReached
                    return .init(step: step.rawValue, outcome: outcome)
                }, code: answer.code.rawValue, message: answer.message, details: answer.details)
        }
    }
}
