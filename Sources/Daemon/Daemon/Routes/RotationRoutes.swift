import AuditChain
import DaemonAPI
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import Refusals
import ServerProgram
import UsageRecording

/// The handlers of `/v1/rotations` and its subpaths.
struct RotationRoutes: Sendable {
    let rotations: KeyRotations
    let summaries: KeySummaries

    private var ledger: any Ledger { rotations.administration.ledger }

    /// Returns the rotations under way, sorted by merchant.
    func list(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        try await .json(ListAnswer(items: rotations.underWay().map { RotationStatus($0, on: ledger) }, next: nil))
    }

    /// Returns one merchant's rotations, under way or not: an item for each use and algorithm of the merchant's keys.
    func show(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        try await .json(
            ListAnswer(
                items: rotations.rotations(of: request.pathArguments[0]).map { RotationStatus($0, on: ledger) },
                next: nil))
    }

    func start(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.keyGenerate())
        let body = try RotationStartRequest(parsing: request.body)
        let started = try await rotations.start(
            KeyRotations.Start(
                merchantIdentifier: body.merchantIdentifier, use: KeyRoutes.use(body.use, orGooglePay: true),
                algorithm: Self.algorithm(body.type), hsmToken: body.token),
            by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        return try .json(
            RotationStartAnswer(
                rotation: RotationStatus(started.rotation, on: ledger), created: started.created,
                csr: started.request?.pem))
    }

    func importCertificate(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.certificateImport(certificate: nil))
        let body = try CertificateImportRequest(parsing: request.body)
        let (outcome, rotation) = try await rotations.importCertificate(
            KeyRoutes.base64(body.certificate, "certificate"), allowExpired: body.allowExpired,
            by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        guard let key = summaries.summary(outcome) else { throw .defect }
        return try .json(RotationImportAnswer(rotation: RotationStatus(rotation, on: ledger), key: key))
    }

    /// Handles `POST /v1/rotations/added`.
    func added(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.keyStateChange(KeyStateChange(from: nil, to: .active)))
        let body = try RotationAddedRequest(parsing: request.body)
        let isDryRun = try request.isDryRun()
        let (entry, rotation) = try await rotations.add(
            body.key,
            KeyRotations.Addition(excludedNodes: Set(body.excludeNodes ?? []), reason: AuditReason(body.reason)),
            by: request.knownCaller(), dryRun: isDryRun, draft: request.draft)
        var key = summaries.summary(entry)
        if isDryRun { key.state = KeyState.active.rawValue }
        return try .json(RotationImportAnswer(rotation: RotationStatus(rotation, on: ledger), key: key))
    }

    /// Handles `POST /v1/rotations/removed`.
    func removed(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.keyStateChange(KeyStateChange(from: nil, to: .deactivated)))
        let body = try RotationRemovedRequest(parsing: request.body)
        let (finished, cutOff) = try await rotations.remove(
            body.key,
            KeyRotations.Removal(
                removedAt: body.removedAt ?? Self.wholeSeconds(rotations.administration.clock.now()),
                cutOff: body.cutOff, force: body.force, reason: AuditReason(body.reason)),
            by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        return try answer(finished, cutOff: cutOff)
    }

    func finish(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.keyStateChange(KeyStateChange(from: nil, to: .deactivated)))
        let body = try RotationFinishRequest(parsing: request.body)
        let use = try KeyRoutes.use(body.use)
        let cutOff: Date? =
            switch body.cutOff {
            case .standard where use == .identity: nil
            case .standard:
                Self.wholeSeconds(rotations.administration.clock.now()).addingTimeInterval(KeyRotations.standardCutOff)
            case .now: nil
            case .at(let date): date
            }
        let finished = try await rotations.finish(
            request.pathArguments[0],
            KeyRotations.Finish(
                use: use, algorithm: Self.algorithm(body.type), cutOff: cutOff, force: body.force,
                reason: AuditReason(body.reason)),
            by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft)
        return try answer(finished, cutOff: cutOff)
    }

    private func answer(_ finished: KeyRotations.Finished, cutOff: Date?) throws(Refusal) -> EndpointAnswer {
        try .json(
            RotationFinishAnswer(
                rotation: RotationStatus(finished.rotation, on: ledger), retired: finished.retired.map(\.base64),
                cutOff: cutOff))
    }

    /// Rounds a time down to whole seconds, as answers and records show it.
    private static func wholeSeconds(_ time: Date) -> Date {
        Date(timeIntervalSince1970: time.timeIntervalSince1970.rounded(.down))
    }

    private static func algorithm(_ name: String?) throws(Refusal) -> KeyAlgorithm? {
        guard let name else { return nil }
        return try KeyRoutes.algorithm(name)
    }
}

extension RotationStatus {
    /// - Parameter ledger: the ledger of the node that counted the refusals. If several nodes use the ledger, the answer
    ///   names this node.
    init(_ rotation: Rotation, on ledger: any Ledger) {
        self.init(
            merchantIdentifier: rotation.merchantIdentifier, algorithm: rotation.algorithm.name,
            use: rotation.use.name, phase: rotation.phase.rawValue, next: rotation.next,
            newKey: rotation.newKey.map { RotationKey($0) },
            oldKeys: (rotation.oldKeys + rotation.endingKeys).map { RotationKey($0) },
            steps: rotation.steps.map {
                Step(name: $0.name.rawValue, status: $0.status.rawValue, text: rotation.text(of: $0.name))
            },
            remarks: rotation.remarks, refusedOn: ledger.isShared ? ledger.node : nil)
    }
}

extension RotationKey {
    init(_ key: Rotation.Key) {
        self.init(
            publicKeyHash: key.publicKeyHash.base64, state: key.keyRecord.state.rawValue,
            condition: (key.entry?.condition ?? .missing).name, createdAt: key.keyRecord.createdAt,
            notAfter: key.entry?.certificate?.notAfter, cutOff: key.keyRecord.cutOff,
            tokens: key.entry?.hsmTokens ?? [],
            openedLastHour: key.lastHour.count, lastUse: key.lastHour.last, refusedLastHour: key.refusedLastHour,
            fault: key.fault, unusedFrom: key.unusedFrom,
            unprovedNodes: key.unprovedNodes.isEmpty ? nil : key.unprovedNodes)
    }
}
