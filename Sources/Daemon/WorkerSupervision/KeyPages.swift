import WorkerProtocol

/// Lists an HSM token's keys page by page. Thousands of keys with their certificates do not fit into one frame, and a slow
/// HSM token takes longer to read and test them than `call_timeout` allows.
enum KeyPages {
    /// The maximum number of attempts at a listing. One attempt is not enough for an HSM token that sometimes ends its
    /// sessions; without a limit, one that always does would be tried for ever.
    static let attempts = 3

    /// Returns all keys of the HSM token.
    ///
    /// - Parameters:
    ///   - readers: the number of concurrent requests for pages. Each keeps one of the worker's sessions busy.
    ///   - ask: a function that makes one call. All calls must go to the same worker, which keeps the listing.
    static func all(
        readers: Int = 1, _ ask: @escaping @Sendable (WorkerRequest) async throws(WorkerFailure) -> WorkerAnswer
    ) async throws(WorkerFailure) -> [KeyDescription] {
        for _ in 0..<attempts {
            do throws(WorkerFailure) {
                return try await list(readers, ask)
            } catch {
                guard error.kind == .listingEnded else { throw error }
            }
        }
        throw WorkerFailure(
            .hsmTokenUnavailable,
            "The keys were listed \(attempts) times, and each time the HSM token ended its sessions or its login.")
    }

    private static func list(
        _ readers: Int, _ ask: @escaping @Sendable (WorkerRequest) async throws(WorkerFailure) -> WorkerAnswer
    ) async throws(WorkerFailure) -> [KeyDescription] {
        var keys: [KeyDescription]
        let listing: UInt64
        switch try await ask(.listKeys) {
        case .keys(let all): return all
        case .keyPage(let page, let number): (keys, listing) = (page, number)
        default: throw WorkerFailure.wrongAnswer
        }
        let parts = await withTaskGroup(of: Result<[KeyDescription], WorkerFailure>.self) { group in
            for _ in 0..<max(readers, 1) {
                group.addTask {
                    do throws(WorkerFailure) {
                        return .success(try await remainingPages(of: listing, ask))
                    } catch {
                        return .failure(error)
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        for part in parts { keys += try part.get() }
        guard keys.count <= FieldBound.listedKeys else { throw endless }
        return keys
    }

    /// Requests pages one after another until none are left. Several readers do so concurrently.
    private static func remainingPages(
        of listing: UInt64, _ ask: (WorkerRequest) async throws(WorkerFailure) -> WorkerAnswer
    ) async throws(WorkerFailure) -> [KeyDescription] {
        var keys: [KeyDescription] = []
        while true {
            switch try await ask(.listMoreKeys(listing: listing)) {
            case .keys(let last):
                return keys + last
            case .keyPage(let page, listing):
                guard !page.isEmpty, keys.count + page.count <= FieldBound.listedKeys else { throw endless }
                keys += page
            default:
                throw WorkerFailure.wrongAnswer
            }
        }
    }

    private static let endless = WorkerFailure(.protocolViolation, "The worker's list of keys does not end.")
}
