import AuditChain
import DaemonAPI
import MerchantKeys
import Refusals

/// `POST /v1/keys/{key}/state` and `POST /v1/keys/{key}/adopt`.
struct KeyStateRoutes: Sendable {
    let lifecycle: KeyLifecycle
    let summaries: KeySummaries
    let clock: WallClock

    func change(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.is(.keyStateChange(KeyStateChange(from: nil, to: nil)))
        let body = try KeyStateRequest(parsing: request.body)
        guard let state = KeyState(rawValue: body.to), state != .preActivation else {
            throw Refusal(
                .malformedRequest, "to must be active, suspended, deactivated, compromised or destroyed.", details: "to"
            )
        }
        guard body.cutOff == nil || state == .deactivated else {
            throw Refusal(.malformedRequest, "cutOff is for deactivated keys only.", details: "cutOff")
        }
        return try await answer(
            lifecycle.change(
                request.pathArguments[0],
                KeyLifecycle.StateChange(to: state, reason: AuditReason(body.reason), cutOff: body.cutOff),
                by: request.knownCaller(), dryRun: request.isDryRun(), draft: request.draft))
    }

    func adopt(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.is(.keyAdopt(approval: nil))
        let body = try KeyAdoptRequest(parsing: request.body)
        return try await answer(
            lifecycle.adopt(
                request.pathArguments[0], reason: AuditReason(body.reason), by: request.knownCaller(),
                dryRun: request.isDryRun(), draft: request.draft))
    }

    private func answer(_ outcome: KeyLifecycle.Outcome) async throws(Refusal) -> EndpointAnswer {
        switch outcome {
        case .changed(let entry):
            return try .json(summaries.summary(entry))
        case .pending(let approval):
            return try .pending(approval)
        case .wouldChange(let entry, let state, let needsApproval):
            var summary = summaries.summary(entry)
            summary.state = state.rawValue
            summary.remark =
                "A dry run: nothing has been changed."
                + (needsApproval ? " It would wait for a second person." : "")
            return try .json(summary)
        }
    }
}
