import Synchronization

/// Places for one kind of work of each client: payments, whether or not it waits for their answers, or merchant sessions, each of
/// which holds a connection to Apple's host.
final class ClientPlaces: Sendable {
    /// Places of one client.
    let most: Int
    /// Places taken, by the client's name. A client that has none has no entry.
    private let taken = Mutex<[String: Int]>([:])

    init(_ most: Int) { self.most = most }

    /// Takes a place of the client's.
    ///
    /// - Returns: false where it has as many as it may.
    func take(_ client: String) -> Bool {
        taken.withLock { taken in
            guard taken[client, default: 0] < most else { return false }
            taken[client, default: 0] += 1
            return true
        }
    }

    /// Leaves a place that was taken.
    func leave(_ client: String) {
        taken.withLock { taken in
            let rest = taken[client, default: 1] - 1
            taken[client] = rest > 0 ? rest : nil
        }
    }

    /// Waits until no client has any, or until `deadline`.
    func wait(until deadline: ContinuousClock.Instant) async {
        while taken.withLock({ !$0.isEmpty }), ContinuousClock.now < deadline {
            try? await Task.sleep(for: .milliseconds(20))
        }
    }
}
