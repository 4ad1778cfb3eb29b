import DaemonAPI
import HostSystem

/// paytokend's `GET /readyz`, on a connection of its own. There is one question at a time, and its answer serves all
/// callers within a second. So callers of the gateway's `/readyz` use no more than one of the account's connections at
/// paytokend, and cause one commit of its ledger.
final class PaytokendReadiness: Sendable {
    private let answer: SharedFinding<Result<Bool, UnixSocketClientError>>

    init(_ settings: PaytokendSettings, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        let client = UnixSocketClient(path: settings.socket, maximumAnswerBytes: 1 << 20, deadline: settings.timeout)
        answer = SharedFinding(now: now) {
            do throws(UnixSocketClientError) {
                return .success(try await client.send(.get("/readyz")).isSuccess)
            } catch {
                return .failure(error)
            }
        }
    }

    /// Returns true if paytokend says that it is ready.
    func isReady() async throws(UnixSocketClientError) -> Bool { try await answer.value.get() }
}
