import AuditChain
import DaemonAPI
import DaemonConfiguration
import Encodings
import Foundation
import MerchantKeys
import PortalRequests
import Refusals
import ServerProgram
import Telemetry
import UsageRecording

/// The handlers of `/v1/portal` and its subpaths: people request reads of Apple's list, and the outbound program makes
/// them, and the writes that renewals have queued.
struct PortalRoutes: Sendable {
    let reads: PortalReads
    let writes: PortalWrites
    /// nil if the configuration names no key of Apple's API.
    let signer: JWTSigner?
    let keys: KeyIndex
    /// The access rules in force.
    let access: @Sendable () -> AccessPolicy
    let clock: WallClock
    let instruments: Instruments
    /// The time since the outbound program last asked for work, and since Apple last answered with a list.
    let asked = Stopwatch()
    let answered = Stopwatch()

    /// The path at which the outbound program asks for work every second, so its requests are logged as routine.
    static let workPath = "/v1/portal/work"

    // MARK: People

    /// Handles `POST /v1/portal/checks`. The request is not recorded: it uses no key. Each signature that it leads to
    /// is.
    func check(_ request: EndpointRequest) throws(Refusal) -> EndpointAnswer {
        let body = try PortalCheckRequest(parsing: request.body)
        let merchant = try merchant(body.merchantIdentifier)
        _ = try requiredSigner()
        return try .json(answer(reads.request(merchant), of: merchant))
    }

    /// Handles `GET /v1/portal/certificates`.
    func certificates(_ request: EndpointRequest) throws(Refusal) -> EndpointAnswer {
        let merchant = try merchant(request.query["merchantIdentifier"])
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
        case .failed(let reason): answer.fault = reason
        case .done(let list):
            answer.readAt = list.readAt
            answer.appleId = list.appleId
            answer.certificates = list.entries.map { entry in
                PortalCheckAnswer.Certificate(
                    certificateId: entry.identifier, type: entry.type, activated: entry.isActivated,
                    publicKeyHash: entry.publicKeyHash?.base64, notAfter: entry.notAfter)
            }
            answer.findings = (findings(of: merchant, circumstances) ?? []).map { finding in
                PortalCheckAnswer.Finding(
                    kind: finding.kind.rawValue, severity: finding.severity.rawValue,
                    certificateId: finding.certificateId, publicKeyHash: finding.publicKeyHash?.base64,
                    text: finding.text)
            }
        }
        return answer
    }

    private var circumstances: PortalReads.Circumstances {
        .init(keys: keys.generation, servesPayments: access().permitsDecryption)
    }

    /// - Parameter keysOfMerchant: the keys of the merchant, called only for a comparison; nil to search for them.
    private func findings(
        of merchant: PortalName, _ circumstances: PortalReads.Circumstances, keysOfMerchant: (() -> [KeyEntry])? = nil
    ) -> [PortalFinding]? {
        reads.findings(of: merchant, in: circumstances) { list in
            let own =
                keysOfMerchant?()
                ?? keys.entries.filter { MerchantIdentifier.areSame($0.merchantIdentifier, merchant.text) }
            // A certificate's key may be recorded for another merchant. All keys would be too many for each list.
            let others = list.entries.compactMap { $0.publicKeyHash.flatMap(keys.entry) }
                .filter { !MerchantIdentifier.areSame($0.merchantIdentifier, merchant.text) }
            return list.findings(
                for: merchant.text, keys: own + others, servesPayments: circumstances.servesPayments, now: clock.now())
        }
    }

    /// Sets the metrics of Apple's lists, and of the requests to Apple. Each merchant that has a processing or identity
    /// key here has them, and no other: a person may request the list of any name.
    func show() {
        instruments.portalWorkAgeSeconds.show(signer.map { _ in asked.elapsed.inSeconds })
        instruments.portalAnswerAgeSeconds.show(signer.map { _ in answered.elapsed.inSeconds })
        guard signer != nil else { return }
        // The generation is read before the keys, so that a change in between leads to another comparison.
        let circumstances = self.circumstances
        let entries = keys.entries
        let expected = Set(
            entries.filter { $0.use.hasCertificate && $0.condition != .external && $0.state != .destroyed }
                .map(\.merchantIdentifier))
        instruments.portalReadAgeSeconds.replaceAll(
            reads.ages(of: expected).map { merchant, age in ([merchant], age.inSeconds) })
        var byMerchant: [Substring: [KeyEntry]]?
        func own(_ merchant: PortalName) -> [KeyEntry] {
            let grouped =
                byMerchant ?? Dictionary(grouping: entries) { MerchantIdentifier.short($0.merchantIdentifier) }
            byMerchant = grouped
            return grouped[MerchantIdentifier.short(merchant.text)] ?? []
        }
        var series: [(labels: [3 of String], value: Double)] = []
        for merchant in expected.compactMap(PortalName.init) {
            let found = findings(of: merchant, circumstances) { own(merchant) } ?? []
            for (labels, same) in Dictionary(grouping: found, by: { [$0.kind.rawValue, $0.severity.rawValue] }) {
                series.append(([merchant.text, labels[0], labels[1]], Double(same.count)))
            }
        }
        instruments.portalFindings.replaceAll(series)
    }

    // MARK: The outbound program

    /// Handles `POST /v1/portal/work`: hands out the next request with its JSON Web Token, if there is one.
    func work(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        _ = try EmptyRequest(parsing: request.body)
        let signer = try requiredSigner()
        asked.restart()
        let write = writes.next()
        guard let work = write ?? reads.next() else { return try .json(PortalWorkAnswer(work: nil)) }
        let token: String
        do {
            token = try await signer.sign(work, for: request.knownCaller(), draft: request.draft)
        } catch {
            let reason = "The JSON Web Token was not signed: \(error.message)"
            if write == nil { reads.fail(work, reason) } else { await writes.fail(work, reason) }
            throw error
        }
        let new = work.request.new
        return try .json(
            PortalWorkAnswer(
                work: PortalWork(
                    id: work.id, kind: work.request.kind.name, name: work.request.name,
                    certificateType: new?.type.rawValue, csr: new.map { Base64.encode($0.csr) }, jwt: token,
                    deadline: work.deadline)))
    }

    /// Handles `POST /v1/portal/work/{id}`: takes the result of a request.
    func report(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let report = try PortalReport(parsing: request.body)
        _ = try requiredSigner()
        let id = request.pathArguments[0]
        if await !writes.take(report, of: id) {
            try reads.take(report, of: id)
            if report.status == 200 { answered.restart() }
        }
        instruments.portalRequests.increment([report.outcome])
        instruments.portalRequestsRemaining.show(report.requestsRemaining.map(Double.init))
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

    /// Returns the merchant identifier as the ledger has it, with or without `merchant.`; otherwise as the caller wrote
    /// it. So one merchant has one list.
    private func merchant(_ text: String?) throws(Refusal) -> PortalName {
        guard let text, let name = PortalName(text) else {
            throw Refusal(
                .malformedRequest,
                "merchantIdentifier must have 1 to 255 letters, digits, full stops and hyphens, as Apple's have.",
                details: "merchantIdentifier")
        }
        let known = keys.entries.lazy.filter { $0.use.hasCertificate }.map(\.merchantIdentifier)
        guard !known.contains(text), let same = known.first(where: { MerchantIdentifier.areSame($0, text) }) else {
            return name
        }
        return PortalName(same) ?? name
    }
}

extension PortalReport {
    /// The label `outcome` of the request's metric, of a closed set.
    fileprivate var outcome: String {
        switch status {
        case nil: fault == Fault.answerNotUnderstood.rawValue ? "not_understood" : "no_answer"
        case 200, 201, 204: "ok"
        case 401: "unauthorized"
        case 403: "forbidden"
        case 429: "rate_limited"
        default: "other_status"
        }
    }
}
