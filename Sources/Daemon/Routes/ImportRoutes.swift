import AuditChain
import DaemonAPI
import Foundation
import Ledger
import Refusals

/// `POST /v1/keys/import` and `POST /v1/certificates`.
struct ImportRoutes: Sendable {
    let administration: KeyAdministration
    let summaries: KeySummaries

    func importKey(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.is(.keyImport(certificate: nil, approval: nil))
        let body = try KeyImportRequest(parsing: request.body)
        var sealedKeys: [KeyAdministration.SealedKey] = []
        for key in body.sealedKeys {
            sealedKeys.append(
                KeyAdministration.SealedKey(
                    hsmToken: key.token, encapsulatedKey: try Self.base64(key.encapsulatedKey, "encapsulatedKey"),
                    sealedPrivateKey: try Self.base64(key.sealedPrivateKey, "sealedPrivateKey")))
        }
        let outcome = try await administration.importKey(
            KeyAdministration.KeyImport(
                merchantIdentifier: body.merchantIdentifier,
                certificate: try Self.base64(body.certificate, "certificate"),
                sealedKeys: sealedKeys, allowExpired: body.allowExpired, approval: try Self.approval(body.approval)),
            by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        return try answer(outcome)
    }

    func importCertificate(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.is(.certificateImport(certificate: nil))
        let body = try CertificateImportRequest(parsing: request.body)
        let outcome = try await administration.importCertificate(
            Self.base64(body.certificate, "certificate"), allowExpired: body.allowExpired,
            by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        return try answer(outcome)
    }

    private func answer(_ outcome: KeyAdministration.Outcome) throws(Refusal) -> EndpointAnswer {
        if case .pending(let approval) = outcome { return try .pending(approval) }
        return try .json(summaries.summary(outcome))
    }

    private static func approval(_ text: String?) throws(Refusal) -> ApprovalIdentifier? {
        guard let text else { return nil }
        guard let identifier = ApprovalIdentifier(hex: text) else {
            throw Refusal(.approvalInvalid, ApprovalConflict.unknown.description)
        }
        return identifier
    }

    static func base64(_ text: String, _ name: String) throws(Refusal) -> [UInt8] {
        guard let data = Data(base64Encoded: text), !data.isEmpty else {
            throw Refusal(.malformedRequest, "\(name) is not base64.", details: name)
        }
        return Array(data)
    }
}
