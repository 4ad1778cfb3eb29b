import Synchronization

/// How many payments are on their way, whether or not anybody waits for their answers.
final class PaymentsUnderWay: Sendable {
    private let count = Atomic(0)

    func begin() { count.add(1, ordering: .relaxed) }
    func end() { count.subtract(1, ordering: .relaxed) }

    /// Until there is none, or until `deadline`.
    func wait(until deadline: ContinuousClock.Instant) async {
        while count.load(ordering: .relaxed) > 0, ContinuousClock.now < deadline {
            try? await Task.sleep(for: .milliseconds(20))
        }
    }
}
