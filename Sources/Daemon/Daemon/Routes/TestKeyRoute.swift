import DaemonAPI
import Refusals
import ServerProgram
import UsageRecording
import WorkerSupervision

/// The handler of `POST /v1/tokens/{name}/remove-test-keys`.
struct TestKeyRoute: Sendable {
    let hsmTokens: [HSMToken]
    let gate: LedgerGate
    let recorder: UsageRecorder

    /// Removes the key pairs that self-tests stored in the HSM token, and records their number. If that audit record
    /// cannot be written, the request is refused, and the refusal's audit record has the number.
    func remove(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.testKeysRemove(count: nil))
        _ = try EmptyRequest(parsing: request.body)
        let name = request.pathArguments.first ?? ""
        guard let hsmToken = hsmTokens.first(where: { $0.name == name }) else {
            throw Refusal(
                .notFound, "The configuration has no HSM token of this name.",
                details: "HSM tokens: \(hsmTokens.map(\.name).joined(separator: ", "))")
        }
        request.draft.used(hsmToken: name)
        let caller = try request.knownCaller()
        try gate.admit()
        if try request.isDryRun() { return try .json(TestKeyRemovalAnswer(status: "unchanged")) }
        let removed = try await refusing(record: await hsmToken.removeTestKeys())
        request.draft.setEvent(.testKeysRemove(count: removed))
        request.draft.recorded(at: try await recorder.append(recorder.auditRecord(of: request.draft, by: caller)))
        return try .json(TestKeyRemovalAnswer(status: "removed", pairs: removed))
    }
}
