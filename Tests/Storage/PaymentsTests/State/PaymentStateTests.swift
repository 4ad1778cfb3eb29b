import Payments
import Testing

@Suite struct PaymentStateTests {
    @Test("keeps the names that are stored and shown")
    func names() {
        #expect(
            PaymentState.allCases.map(\.rawValue) == [
                "received", "decrypted", "submitting", "authorized", "captured", "declined", "error", "pending",
                "not_sent", "released", "refused",
            ])
    }

    @Test("submits a payment from decrypted only")
    func oneWayToSubmitting() {
        #expect(PaymentState.allCases.filter { $0.mayBecome(.submitting) } == [.decrypted])
    }

    @Test(
        "returns to submitting what may have been sent only if its owner reports that nothing left",
        arguments: PaymentState.allCases.filter { $0.mayHaveBeenSent && $0 != .submitting })
    func neverTwice(_ state: PaymentState) {
        #expect(!reachable(from: state).contains(.submitting))
    }

    @Test("reaches submitting again through not_sent only")
    func againThroughNotSent() {
        #expect(reachable(from: .submitting).contains(.submitting))
        #expect(!reachable(from: .submitting, avoiding: .notSent).contains(.submitting))
    }

    @Test("can end every payment", arguments: PaymentState.allCases)
    func ends(_ state: PaymentState) {
        #expect(state.isFinal || reachable(from: state).contains { $0.isFinal })
    }

    @Test("continues an attempt that ended without sending only with the next attempt's beginning")
    func nextAttempt() {
        #expect(PaymentState.notSent.successors == [.received])
        #expect(PaymentState.refused.successors == [.received])
    }

    @Test("never pays what was released, and never releases what may have been sent")
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
