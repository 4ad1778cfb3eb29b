import WorkerProtocol

/// A listing of a token's keys, fetched page by page: thousands of them with their certificates fit into no frame, and
/// a slow token reads and tests them for longer than one call may take.
enum KeyPages {
    /// - Parameter ask: makes one call at the same worker.
    static func all(
        _ ask: (WorkerRequest) async throws(WorkerFailure) -> WorkerAnswer
    ) async throws(WorkerFailure) -> [KeyDescription] {
        var keys: [KeyDescription] = []
        var request = WorkerRequest.listKeys
        while true {
            switch try await ask(request) {
            case .keys(let last):
                return keys + last
            case .keyPage(let page, let listing):
                guard !page.isEmpty, keys.count + page.count <= FieldBound.listedKeys else {
                    throw WorkerFailure(.protocolViolation, "The worker's list of keys does not end.")
                }
                keys += page
                request = .listMoreKeys(listing: listing)
            default:
                throw TokenWorker.wrongAnswer
            }
        }
    }
}
