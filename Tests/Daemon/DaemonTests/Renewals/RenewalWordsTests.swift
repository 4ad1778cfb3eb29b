import MerchantKeys
import Testing

@testable import Daemon

@Suite struct RenewalWordsTests {
    @Test(
        "says of an open renewal what the daemons do, and sends no operator to the portal or to another request",
        arguments: [
            RenewalStep.prove(nodes: ["a"], withCertificate: true), .read, .find(.activate),
            .create(number: 1, previous: "C1", isUsedAtOnce: false),
            .create(number: 1, previous: nil, isUsedAtOnce: true), .importCertificate(id: "C7"),
            .activate(id: "C7", number: 1), .watch(nodes: ["a"], isAlarming: true), .makeTestPayment, .finish,
            .revoke(id: "C1", number: 1),
        ])
    func open(step: RenewalStep) {
        let next = step.next(isStored: true)
        #expect(!next.contains("portal") && !next.contains("POST"), "\(next)")
    }

    @Test("names the certificate, and that a change has no way back")
    func certificates() {
        for step in [RenewalStep.activate(id: "C7", number: 1), .revoke(id: "C7", number: 1)] {
            let next = step.next(isStored: true)
            #expect(next.contains("C7") && next.contains("cannot be undone"), "\(next)")
        }
    }

    @Test("asks for a merchant session with an identity key, which opens no payments")
    func identity() {
        for isStored in [false, true] {
            let next = RenewalStep.makeTestPayment.next(isStored: isStored, of: .identity)
            #expect(next.contains("merchant session") && !next.contains("payment on"), "\(next)")
            #expect(next.contains("testPaymentMade") == isStored, "\(next)")
        }
    }

    @Test("says why a person decides about a certificate that is not known here")
    func decision() {
        for isStored in [false, true] {
            let restored = RenewalStep.decideCreation(isRestored: true).next(isStored: isStored)
            let earlier = RenewalStep.decideCreation(isRestored: false).next(isStored: isStored)
            #expect(restored.contains("ledger was restored") && !restored.contains("earlier renewal"), "\(restored)")
            #expect(earlier.contains("earlier renewal") && !earlier.contains("restored"), "\(earlier)")
        }
    }

    @Test("names the nodes without payments, and raises the alarm only if none has any")
    func watch() {
        for isAlarming in [false, true] {
            let next = RenewalStep.watch(nodes: ["a", "b"], isAlarming: isAlarming).next(isStored: true)
            #expect(next.contains("on a, b.") && next.contains("half an hour") == isAlarming, "\(next)")
        }
    }
}
