import AuditChain
import DaemonAPI
import Refusals

/// `POST /v1/audit/key`.
struct AuditKeyRoute: Sendable {
    let keyChange: AuditKeyChange

    func change(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let body = try AuditKeyChangeRequest(parsing: request.body)
        let outcome = try await keyChange.change(
            reason: AuditReason(body.reason), by: request.knownCaller(), dryRun: request.isDryRun(),
            draft: request.draft)
        return switch outcome {
        case .changed(let from, let to):
            try .json(
                AuditKeyChangeAnswer(status: "changed", from: from.keyId.hex, to: to.keyId.hex, publicKey: to.pem))
        case .wouldChange(let from): try .json(AuditKeyChangeAnswer(status: "unchanged", from: from.keyId.hex))
        case .pending(let approval): try .pending(approval)
        }
    }
}
