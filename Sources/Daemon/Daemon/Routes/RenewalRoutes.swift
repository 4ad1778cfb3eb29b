import AuditChain
import DaemonAPI
import KeyTypes
import MerchantKeys
import Refusals
import ServerProgram

/// The handler of `/v1/renewals/{merchant}`.
struct RenewalRoutes: Sendable {
    let plans: RenewalPlans

    /// The query parameter with the names of excluded nodes, separated by commas.
    static let excluded = "excludeNodes"

    /// Returns a plan for each use and algorithm of the merchant's keys. Nothing is recorded, since no key is used.
    func show(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        var excluded: Set<String> = []
        for name in (request.query[Self.excluded] ?? "").split(separator: ",") {
            guard let node = AuditNode(String(name)) else {
                throw Refusal(
                    .malformedRequest, "excludeNodes must be names of nodes, separated by commas.",
                    details: Self.excluded)
            }
            excluded.insert(node.name)
        }
        let plans = try await plans.plans(for: request.pathArguments[0], excluding: excluded)
        return try .json(ListAnswer(items: plans.map(RenewalPlanStatus.init), next: nil))
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
            step: plan.step.name, next: plan.step.next,
            steps: place == nil
                ? []
                : all.map { step in
                    RotationStatus.Step(
                        name: step.rawValue,
                        status: step == place ? "next" : earlier.contains(step) ? "done" : "open", text: step.text)
                },
            nodes: plan.renewal.newKey == nil
                ? []
                : here.requiredNodes.sorted().map { node in
                    Node(
                        node: node, proved: here.isProved(node, withCertificate: false),
                        provedWithCertificate: here.isProved(node, withCertificate: true))
                })
    }
}
