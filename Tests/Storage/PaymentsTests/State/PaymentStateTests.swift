import Payments
import Testing

@Suite struct PaymentStateTests {
    @Test("the names that are stored and shown")
    func names() {
        #expect(
            PaymentState.allCases.map(\.rawValue) == [
                "received", "decrypted", "submitting", "authorized", "captured", "declined", "error", "pending",
                "not_sent", "released", "refused",
            ])
    }

    @Test("a payment is submitted from decrypted and from nowhere else")
    func oneWayToSubmitting() {
        #expect(PaymentState.allCases.filter { $0.mayBecome(.submitting) } == [.decrypted])
    }

    @Test(
        "what may have been sent leads back to submitting only through the owner's word that nothing left",
        arguments: PaymentState.allCases.filter { $0.mayHaveBeenSent && $0 != .submitting })
    func neverTwice(_ state: PaymentState) {
        #expect(!reachable(from: state).contains(.submitting))
    }

    @Test("submitting is reached again through not_sent alone")
    func againThroughNotSent() {
        #expect(reachable(from: .submitting).contains(.submitting))
        #expect(!reachable(from: .submitting, avoiding: .notSent).contains(.submitting))
    }

    @Test("every payment can end", arguments: PaymentState.allCases)
    func ends(_ state: PaymentState) {
        #expect(state.isFinal || reachable(from: state).contains { $0.isFinal })
    }

    @Test("whatever ended an attempt without sending leads to the next attempt's beginning and nowhere else")
    func nextAttempt() {
        #expect(PaymentState.notSent.successors == [.received])
        #expect(PaymentState.refused.successors == [.received])
    }

    @Test("what was released is never paid, and what may have been sent is never released")
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
