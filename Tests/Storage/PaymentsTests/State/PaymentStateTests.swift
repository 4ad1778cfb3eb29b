import Payments
import Testing

@Suite struct PaymentStateTests {
    @Test("keeps the states' names, which are stored and shown to clients")
    func names() {
        #expect(
            PaymentState.allCases.map(\.rawValue) == [
                "received", "decrypted", "submitting", "authorized", "captured", "declined", "error", "pending",
                "not_sent", "released", "refused",
            ])
    }

    @Test("permits submitting only after decrypted")
    func oneWayToSubmitting() {
        #expect(PaymentState.allCases.filter { $0.mayBecome(.submitting) } == [.decrypted])
    }

    @Test(
        "never leads back to submitting from a later state in which the payment may have been sent",
        arguments: PaymentState.allCases.filter { $0.mayHaveBeenSent && $0 != .submitting })
    func neverTwice(_ state: PaymentState) {
        #expect(!reachable(from: state).contains(.submitting))
    }

    @Test("permits a second submission only after not_sent")
    func againThroughNotSent() {
        #expect(reachable(from: .submitting).contains(.submitting))
        #expect(!reachable(from: .submitting, avoiding: .notSent).contains(.submitting))
    }

    @Test("leads from every state to a final one", arguments: PaymentState.allCases)
    func ends(_ state: PaymentState) {
        #expect(state.isFinal || reachable(from: state).contains { $0.isFinal })
    }

    @Test("permits only received, which begins a new attempt, after not_sent or refused")
    func nextAttempt() {
        #expect(PaymentState.notSent.successors == [.received])
        #expect(PaymentState.refused.successors == [.received])
    }

    @Test("never submits a released payment, and permits a release only after decrypted")
    func releasedOrPaid() {
        #expect(PaymentState.released.isFinal)
        #expect(PaymentState.allCases.filter { $0.mayBecome(.released) } == [.decrypted])
    }

    private func reachable(from start: PaymentState, avoiding: PaymentState? = nil) -> Set<PaymentState> {
        var found: Set<PaymentState> = []
        var open = start.successors.filter { $0 != avoiding }
        while let state = open.popFirst() {
            guard found.insert(state).inserted else { continue }
            open.formUnion(state.successors.filter { $0 != avoiding })
        }
        return found
    }
}
