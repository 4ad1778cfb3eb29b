import DaemonAPI
import Synchronization

/// paytokend's `GET /readyz`, on a connection of its own. There is one question at a time: its answer is for all that ask before
/// it comes, so callers of the gateway's `/readyz` take no more than one of the account's connections at paytokend.
final class PaytokendReadiness: Sendable {
    private typealias Question = Task<Result<Bool, UnixSocketClientError>, Never>

    private let client: UnixSocketClient
    private let question = Mutex<Question?>(nil)

    init(_ settings: PaytokendSettings) {
        client = UnixSocketClient(path: settings.socket, maximumAnswerBytes: 1 << 20, deadline: settings.timeout)
    }

    /// Returns true if paytokend says that it is ready.
    func isReady() async throws(UnixSocketClientError) -> Bool {
        let asked = question.withLock { question in
            if let question { return question }
            let new = Question {
                defer { self.question.withLock { $0 = nil } }
                do throws(UnixSocketClientError) {
                    return .success(try await client.send(.get("/readyz")).isSuccess)
                } catch {
                    return .failure(error)
                }
            }
            question = new
            return new
        }
        return try await asked.value.get()
    }
}
