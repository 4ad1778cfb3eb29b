import Locks

/// Limits the number of each client's concurrent operations of one kind: payments, or requests for merchant sessions.
/// Each operation takes a slot. A payment counts until its end, even if the client no longer waits for the response. A
/// session counts because it occupies a connection to Apple's host.
final class ClientSlots: Sendable {
    /// The maximum number of slots for each client.
    let most: Int
    /// The number of slots taken, by the client's name. A client without an operation in progress has no entry.
    private let taken = Mutex<[String: Int]>([:])

    init(_ most: Int) { self.most = most }

    /// Takes one of the client's slots.
    ///
    /// - Returns: false if all the client's slots are taken.
    func take(_ client: String) -> Bool {
        taken.withLock { taken in
            guard taken[client, default: 0] < most else { return false }
            taken[client, default: 0] += 1
            return true
        }
    }

    /// Frees one of the slots that the client has taken.
    func leave(_ client: String) {
        taken.withLock { taken in
            let rest = taken[client, default: 1] - 1
            taken[client] = rest > 0 ? rest : nil
        }
    }

    /// Waits until no client has an operation in progress, or until `deadline`.
    func wait(until deadline: ContinuousClock.Instant) async {
        while taken.withLock({ !$0.isEmpty }), ContinuousClock.now < deadline {
            try? await Task.sleep(for: .milliseconds(20))
        }
    }
}
