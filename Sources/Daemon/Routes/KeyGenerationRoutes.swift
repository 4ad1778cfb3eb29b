import DaemonAPI
import MerchantKeys
import Refusals
import WorkerProtocol

/// `POST /v1/keys` and `POST /v1/keys/{key}/csr`.
struct KeyGenerationRoutes: Sendable {
    let administration: KeyAdministration
    let summaries: KeySummaries

    func generate(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.is(.keyGenerate)
        let body = try KeyGenerationRequest(parsing: request.body)
        let algorithm = try Self.algorithm(body.type)
        let outcome = try await administration.generate(
            KeyAdministration.KeyOrder(
                merchantIdentifier: body.merchantIdentifier, algorithm: algorithm, hsmToken: body.token),
            by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        return switch outcome {
        case .made(let entry, let warnings): try .json(summaries.summary(entry, warnings))
        case .wouldMake(let token):
            try .json(
                KeyGenerationDryRun(
                    merchantIdentifier: body.merchantIdentifier, algorithm: algorithm.name, token: token))
        }
    }

    func certificateRequest(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.is(.csrCreate)
        _ = try EmptyRequest(parsing: request.body)
        let entry = try administration.catalogue.index.entry(named: request.pathArguments[0])
        let made = try await administration.certificateRequest(
            for: entry, by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        return try .json(
            CertificateRequestAnswer(
                publicKeyHash: entry.publicKeyHash.base64,
                merchantIdentifier: entry.merchantIdentifier.isEmpty ? nil : entry.merchantIdentifier,
                algorithm: entry.algorithm.name, csr: made?.pem))
    }

    static func algorithm(_ name: String) throws(Refusal) -> KeyAlgorithm {
        guard let algorithm = KeyAlgorithm(name: name) else {
            throw Refusal(.malformedRequest, "type must be EC or RSA.", details: "type")
        }
        return algorithm
    }
}
