import AuditChain
import DaemonAPI
import Foundation
import MerchantKeys
import PortalRequests
import Refusals
import ServerProgram

/// The handlers of `/v1/portal` and its subpaths: people request reads of Apple's list, and the outbound program makes
/// them.
struct PortalRoutes: Sendable {
    let reads: PortalReads
    /// nil if the configuration names no key of Apple's API.
    let signer: JWTSigner?
    let keys: KeyIndex
    /// The access rules in force.
    let access: @Sendable () -> AccessPolicy
    let clock: WallClock

    /// The path at which the outbound program asks for work every second, so its requests are logged as routine.
    static let workPath = "/v1/portal/work"

    // MARK: People

    /// Handles `POST /v1/portal/checks`. The request is not recorded: it uses no key. Each signature that it leads to
    /// is.
    func check(_ request: EndpointRequest) throws(Refusal) -> EndpointAnswer {
        let body = try PortalCheckRequest(parsing: request.body)
        let merchant = try Self.merchant(body.merchantIdentifier)
        _ = try requiredSigner()
        return try .json(answer(reads.request(merchant, now: clock.now()), of: merchant))
    }

    /// Handles `GET /v1/portal/certificates`.
    func certificates(_ request: EndpointRequest) throws(Refusal) -> EndpointAnswer {
        let merchant = try Self.merchant(request.query["merchantIdentifier"])
        guard let read = reads.read(of: merchant) else {
            throw Refusal(
                .notFound, "Apple's list for this merchant was not requested since the daemon started.",
                details: "POST /v1/portal/checks requests it")
        }
        return try .json(answer(read, of: merchant))
    }

    private func answer(_ read: PortalReads.Read, of merchant: PortalName) -> PortalCheckAnswer {
        var answer = PortalCheckAnswer(merchantIdentifier: merchant.text, requestedAt: read.requestedAt)
        switch read.phase {
        case .findingMerchant, .listingCertificates: break
        case .failed(let reason, _): answer.fault = reason
        case .done(let list):
            answer.readAt = list.readAt
            answer.appleId = list.appleId
            answer.certificates = list.entries.map { entry in
                PortalCheckAnswer.Certificate(
                    certificateId: entry.identifier, type: entry.type, activated: entry.isActivated,
                    publicKeyHash: entry.certificate?.publicKeyHash.base64, notAfter: entry.certificate?.notAfter)
            }
            answer.findings = findings(in: list, for: merchant.text, keys: keys.entries).map { finding in
                PortalCheckAnswer.Finding(
                    kind: finding.kind.rawValue, severity: finding.kind.severity.rawValue,
                    certificateId: finding.certificateId, publicKeyHash: finding.publicKeyHash?.base64,
                    text: finding.text)
            }
        }
        return answer
    }

    private func findings(in list: PortalList, for merchant: String, keys: [KeyEntry]) -> [PortalFinding] {
        list.findings(for: merchant, keys: keys, servesPayments: access().permitsDecryption, now: clock.now())
    }

    /// Sets the metrics of the lists that were read since the process started.
    func show(on instruments: Instruments) {
        let lists = reads.lists
        let keysOfMerchants = lists.isEmpty ? [:] : Dictionary(grouping: keys.entries, by: \.merchantIdentifier)
        let now = clock.now()
        instruments.portalReadAgeSeconds.replaceAll(
            lists.map { merchant, list in ([merchant.text], max(0, now.timeIntervalSince(list.readAt))) })
        instruments.portalFindings.replaceAll(
            lists.flatMap { (merchant, list) -> [(labels: [2 of String], value: Double)] in
                // A certificate's key may be recorded for another merchant. All keys would be too many for each list.
                let listed = list.entries.compactMap { $0.certificate.flatMap { keys.entry($0.publicKeyHash) } }
                let found = findings(
                    in: list, for: merchant.text,
                    keys: keysOfMerchants[merchant.text, default: []]
                        + listed.filter { $0.merchantIdentifier != merchant.text })
                return Dictionary(grouping: found, by: \.kind).map { kind, found in
                    ([merchant.text, kind.rawValue], Double(found.count))
                }
            })
    }

    // MARK: The outbound program

    /// Handles `POST /v1/portal/work`: hands out the next request with its JSON Web Token, if there is one.
    func work(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        _ = try EmptyRequest(parsing: request.body)
        let signer = try requiredSigner()
        guard let work = reads.next(now: clock.now()) else { return try .json(PortalWorkAnswer(work: nil)) }
        let token: String
        do {
            token = try await signer.sign(work, for: request.knownCaller(), draft: request.draft)
        } catch {
            reads.fail(work, "The JSON Web Token was not signed: \(error.message)", now: clock.now())
            throw error
        }
        return try .json(
            PortalWorkAnswer(
                work: PortalWork(
                    id: work.id, kind: work.request.kind.name, name: work.request.name.text, jwt: token,
                    deadline: work.deadline)))
    }

    /// Handles `POST /v1/portal/work/{id}`: takes the result of a request.
    func report(_ request: EndpointRequest) throws(Refusal) -> EndpointAnswer {
        let report = try PortalReport(parsing: request.body)
        _ = try requiredSigner()
        try reads.take(report, of: request.pathArguments[0], now: clock.now())
        return try .json(PortalReportAnswer())
    }

    private func requiredSigner() throws(Refusal) -> JWTSigner {
        guard let signer else {
            throw Refusal(
                .invalidState, "The configuration has no section renewal, which names the key of Apple's API.",
                details: "renewal")
        }
        return signer
    }

    private static func merchant(_ text: String?) throws(Refusal) -> PortalName {
        guard let text, let name = PortalName(text) else {
            throw Refusal(
                .malformedRequest,
                "merchantIdentifier must have 1 to 255 letters, digits, full stops and hyphens, as Apple's have.",
                details: "merchantIdentifier")
        }
        return name
    }
}
