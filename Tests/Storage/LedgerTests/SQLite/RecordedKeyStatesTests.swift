import AuditChain
import Foundation
import KeyTypes
import MerchantKeys
import Testing

@testable import OfflineLedger

/// The states of keys that records allow, with which the keys of a copied ledger are compared.
@Suite struct RecordedKeyStatesTests {
    private static let key = LedgerFixture.hash(1)
    private static let facts = KeyFacts(algorithm: .ec, origin: .imported, wallet: .googlePay)
    private static let certificate = AuditDigest.of([1])

    /// Returns true if the records contradict a key in this state.
    private func isContradicted(_ state: KeyState, by events: [AuditEvent]) throws -> Bool {
        var (head, states) = (ChainHead(node: try #require(AuditNode("node-1"))), RecordedKeyStates())
        for event in events {
            let record = AuditRecord(
                time: AuditTime(LedgerFixture.noon), event: event, publicKeyHash: AuditDigest(bytes: Self.key.bytes))
            states.take(try AuditEntry(line: head.append(record).bytes))
        }
        return states.contradicted(by: [LedgerFixture.record(Self.key, state: state)]) != nil
    }

    private static func stated(_ state: AuditKeyState) throws -> AuditEvent {
        let key = try #require(AuditDigest(bytes: key.bytes))
        return .keyStates(try #require(KeyStatesPart.parts(of: [(key, state)]).first))
    }

    @Test(
        "lets a Google Pay key be active only after its recorded activation, whatever brought it into the ledger",
        arguments: [
            .keyGenerate(key: facts), .keyImport(certificate: nil, approval: nil, key: facts),
            .keyAdopt(approval: nil, key: facts),
        ] as [AuditEvent])
    func googlePay(arrival: AuditEvent) throws {
        #expect(try isContradicted(.active, by: [arrival]))
        #expect(try !isContradicted(.preActivation, by: [arrival]))
        let added = AuditEvent.keyStateChange(KeyStateChange(from: .preActivation, to: .active))
        #expect(try !isContradicted(.active, by: [arrival, added]))
        // Another host imports the file of an active key.
        #expect(try !isContradicted(.active, by: [arrival, added, arrival]))
        #expect(try isContradicted(.active, by: [Self.stated(.preActivation), arrival]))
    }

    @Test("lets a waiting key be active after the import of its certificate, and not after one without")
    func certified() throws {
        let waiting = try Self.stated(.preActivation)
        for event in [
            AuditEvent.keyImport(certificate: Self.certificate, approval: nil),
            .certificateImport(certificate: Self.certificate),
        ] {
            #expect(try !isContradicted(.active, by: [waiting, event]))
        }
        #expect(try isContradicted(.active, by: [waiting, .keyImport(certificate: nil, approval: nil)]))
        #expect(try isContradicted(.active, by: [waiting]))
        // Records without a state and without the wallet say nothing.
        #expect(try !isContradicted(.active, by: [.keyImport(certificate: nil, approval: nil)]))
    }
}
