import AuditChain
import DaemonAPI
import KeyTypes
import Ledger
import MerchantKeys
import Refusals
import ServerProgram
import UsageRecording

/// The handlers of `/v1/renewals` and its subpaths.
struct RenewalRoutes: Sendable {
    let plans: RenewalPlans
    let steps: RenewalSteps

    /// The query parameter with the names of excluded nodes, separated by commas.
    static let excluded = "excludeNodes"
    private static let maximumExcluded = 16

    /// Returns a plan for each use and algorithm of the merchant's keys. Nothing is recorded, since no key is used.
    func show(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let names = (request.query[Self.excluded] ?? "").split(separator: ",").map(String.init)
        var statements = RenewalPlans.Statements()
        statements.excludedNodes = try Self.nodes(names)
        let plans = try await plans.plans(for: request.pathArguments[0], statements)
        return try .json(ListAnswer(items: plans.map(RenewalPlanStatus.init), next: nil))
    }

    /// Handles `POST /v1/renewals`: starts or continues a renewal.
    func advance(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.renewalStep(RenewalStepDetails(step: .start)))
        let body = try RenewalRequest(parsing: request.body)
        var wanted = RenewalSteps.Request(
            merchantIdentifier: body.merchantIdentifier, use: try KeyRoutes.use(body.use),
            algorithm: try Self.algorithm(body.algorithm))
        wanted.statements.excludedNodes = try Self.nodes(body.excludeNodes ?? [])
        wanted.statements.isTestPaymentMade = body.testPaymentMade
        wanted.statements.isRevocationWanted = body.revokeOld
        if let repeated = body.repeatAttempt {
            guard let change = Renewal.Change(rawValue: repeated.change) else {
                throw Refusal(
                    .malformedRequest, "change must be create, activate or revoke.", details: "repeatAttempt")
            }
            wanted.statements.repeated = (change, repeated.number)
        }
        wanted.isAbandoned = body.abandon
        wanted.approved = body.approve
        if let renewal = body.renewal {
            guard let identifier = RenewalIdentifier(hex: renewal) else {
                throw Refusal(.malformedRequest, "renewal must be 16 hex characters.", details: "renewal")
            }
            wanted.renewal = identifier
        }
        if let approval = body.approval {
            guard let identifier = ApprovalIdentifier(hex: approval) else {
                throw Refusal(.approvalInvalid, ApprovalConflict.unknown.description)
            }
            wanted.approval = identifier
        }
        switch try await steps.advance(wanted, by: request.knownCaller(), draft: request.draft) {
        case .pending(let approval): return try .pending(approval)
        case .state(let plan, let isNew): return try .json(RenewalPlanStatus(plan), status: isNew ? 201 : 200)
        }
    }

    private static func algorithm(_ name: String?) throws(Refusal) -> KeyAlgorithm? {
        guard let name else { return nil }
        guard let algorithm = KeyAlgorithm(name: name) else {
            throw Refusal(.malformedRequest, "algorithm must be EC or RSA.", details: "algorithm")
        }
        return algorithm
    }

    private static func nodes(_ names: [String]) throws(Refusal) -> Set<String> {
        guard names.count <= maximumExcluded, names.allSatisfy({ AuditNode($0) != nil }) else {
            throw Refusal(
                .malformedRequest, "excludeNodes must be the names of at most \(maximumExcluded) nodes.",
                details: excluded)
        }
        return Set(names)
    }
}

extension RenewalPlanStatus {
    init(_ plan: RenewalPlans.Plan) {
        let here = plan.circumstances
        let place = plan.step.place(hasCertificate: here.hasCertificate)
        let all = RenewalPlanStep.all(of: plan.renewal.use)
        let earlier = all.prefix { $0 != place }
        self.init(
            merchantIdentifier: plan.renewal.merchantIdentifier, algorithm: plan.renewal.algorithm.name,
            use: plan.renewal.use.name, publicKeyHash: plan.renewal.newKey?.base64, readAt: here.list?.readAt,
            step: plan.step.name,
            next: plan.step.next(isStored: plan.stored != nil, of: plan.renewal.use)
                + (plan.readFault.map { " The last read failed: \($0)" } ?? "")
                + (plan.includedNodes.isEmpty
                    ? "" : " Not excluded, since they are up: \(plan.includedNodes.joined(separator: ", "))."),
            steps: place == nil
                ? []
                : all.map { step in
                    RotationStatus.Step(
                        name: step.rawValue,
                        status: step == place ? "next" : earlier.contains(step) ? "done" : "open", text: step.text)
                },
            nodes: plan.renewal.newKey == nil
                ? []
                : plan.nodes.map { node in
                    Node(
                        node: node.name, proved: here.isProved(node.name, withCertificate: false),
                        provedWithCertificate: here.isProved(node.name, withCertificate: true),
                        required: node.isRequired, up: node.isUp, lastSeen: node.lastSeen)
                })
        switch plan.step {
        case .decideRepeat(let change, let number, _): repeatable = .init(change: change.rawValue, number: number)
        case .decideCreation: repeatable = .init(change: Renewal.Change.create.rawValue, number: 0)
        default: break
        }
        if let inUse = plan.renewal.certificateInUse(in: here.list), let end = inUse.notAfter {
            certificateInUse = CertificateInUse(
                certificateId: inUse.identifier, notAfter: end,
                renewFrom: end.addingTimeInterval(-PortalFinding.earliestWarning * 86_400))
        }
        guard let stored = plan.stored else { return }
        renewal = stored.identifier.hex
        (startedBy, starter, startedOn) = (stored.requesterName, stored.requesterUID, stored.node)
        state = stored.renewal.state.rawValue
        certificateId = stored.renewal.certificateId
        previousCertificateId = stored.renewal.previousCertificateId
        nextChange = plan.nextChange
        attempts = stored.attempts.map { stored in
            Attempt(
                change: stored.attempt.change.rawValue, number: stored.attempt.number, attempt: stored.identifier.hex,
                intendedAt: stored.attempt.intendedAt, outcome: stored.attempt.outcome.rawValue, code: stored.code,
                approval: stored.approval?.hex)
        }
    }
}
