import Synchronization

/// How many sessions each client has under way. Each holds a connection to Apple's host and asks paytokend, of which there are
/// only so many for all clients together.
final class SessionPlaces: Sendable {
    /// A quarter of the connections to Apple's host; at a third of a second for each, about fifty sessions a second.
    static let mostOfClient = 16

    /// By the client's name; nothing where it has none.
    private let taken = Mutex<[String: Int]>([:])

    /// False where the client has as many as it may.
    func take(_ client: String) -> Bool {
        taken.withLock { taken in
            guard taken[client, default: 0] < Self.mostOfClient else { return false }
            taken[client, default: 0] += 1
            return true
        }
    }

    /// One that was taken has ended.
    func leave(_ client: String) {
        taken.withLock { taken in
            let rest = taken[client, default: 1] - 1
            taken[client] = rest > 0 ? rest : nil
        }
    }
}
