import DaemonAPI
import Refusals
import ServerProgram
import UsageRecording

/// The handler of `POST /v1/reload`.
struct ReloadRoute: Sendable {
    let reload: ConfigurationReload

    /// Reloads the configuration as SIGHUP does, and records the person who requested it. A dry run only checks the
    /// file.
    func reload(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.configurationReload(file: nil))
        _ = try EmptyRequest(parsing: request.body)
        let dryRun = try request.isDryRun()
        let outcome = try await reload.reload(
            by: ConfigurationReload.Requester(caller: request.knownCaller(), draft: request.draft), dryRun: dryRun)
        return try .json(
            ReloadAnswer(
                status: dryRun ? "unchanged" : "reloaded",
                changes: outcome.changes.prefix(ReloadAnswer.maximumChanges).map {
                    ReloadAnswer.Change(name: $0.name, before: $0.before, after: $0.after)
                }, omitted: max(0, outcome.changes.count - ReloadAnswer.maximumChanges), pending: outcome.pending,
                warnings: outcome.warnings.map { "\($0.place): \($0.message)" }))
    }
}
