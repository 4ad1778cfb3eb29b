import DaemonAPI
import HostSystem

/// paytokend's `GET /readyz`, on its own connection. There is one request at a time, and its response serves all
/// callers within a second. Callers of the gateway's `/readyz` therefore use no more than one of the account's
/// connections to paytokend, and cause only one commit of its ledger.
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

    /// Returns true if paytokend reports that it is ready.
    func isReady() async throws(UnixSocketClientError) -> Bool { try await answer.value.get() }
}
