import DaemonAPI
import Refusals

/// `GET /healthz` and `GET /readyz`, for any peer of either socket.
struct HealthRoutes: Sendable {
    let readiness: Readiness

    /// The process serves; nothing else is said.
    func health(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        try .json(HealthAnswer())
    }

    /// Whether a token would be decrypted now. The reasons are for peers whom an access rule matches.
    func ready(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let reasons = await readiness.reasons()
        if reasons.isEmpty { return try .json(ReadinessAnswer(ready: true)) }
        return try .json(
            ReadinessAnswer(ready: false, reasons: request.caller == nil ? nil : reasons), status: 503,
            outcome: "not_ready")
    }
}
