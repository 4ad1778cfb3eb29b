import AuditChain
import Foundation
import Ledger
import TestSupport
import Testing
import WorkerSupervision

@testable import UsageRecording

@Suite("The HSM token that seals")
struct SealingHSMTokenTests {
    private let directory: FreshDirectory
    private let first = SoftwareAuditToken(name: "first")
    private let second = SoftwareAuditToken(name: "second")

    init() throws { directory = try FreshDirectory() }

    private func key(_ byte: UInt8, isInService: Bool, in hsmToken: String?) -> StoredAuditKey {
        StoredAuditKey(
            identifier: [UInt8](repeating: byte, count: 16), publicKey: isInService ? [byte] : nil, hsmToken: hsmToken)
    }

    @Test("is the first one for a new ledger, and otherwise the one that has the last key in service")
    func chosenAtStart() {
        for (keys, expected) in [
            ([StoredAuditKey](), "first"), ([key(1, isInService: false, in: "second")], "second"),
            ([key(1, isInService: true, in: "second"), key(2, isInService: false, in: "first")], "second"),
            ([key(1, isInService: true, in: "second"), key(2, isInService: true, in: "first")], "first"),
            ([key(1, isInService: true, in: nil)], "first"), ([key(1, isInService: true, in: "gone")], "first"),
        ] {
            #expect(SealingHSMToken(among: [first, second], keys: keys).name == expected, "\(keys)")
        }
    }

    private func fixture(_ hsmTokens: [any AuditHSMToken]) async throws -> RecordFixture {
        let path = directory.path("ledger.sqlite")
        let probe = try await RecordFixture(ledger: path, hsmToken: first)
        let keys = try await probe.ledger.auditKeys()
        await probe.ledger.close()
        let fixture = try await RecordFixture(
            ledger: path, hsmToken: SealingHSMToken(among: hsmTokens, keys: keys))
        await fixture.gate.compare()
        return fixture
    }

    @Test("stays the same in another order, and while it is away, when the daemon waits and names it")
    func unchangedByOrder() async throws {
        let new = try await fixture([first, second])
        #expect(new.gate.position == .open && first.keyCount == 1)
        #expect(try await new.ledger.auditKeys().map(\.hsmToken) == ["first"])
        await new.ledger.close()
        let reordered = try await fixture([second, first])
        #expect(reordered.gate.position == .open && first.keyCount == 1)
        await reordered.ledger.close()
        first.fail(at: .list)
        let away = try await fixture([second, first])
        #expect(away.gate.position == .waiting)
        #expect(away.gate.waitingReason.contains("the HSM token first, which seals its record"))
        #expect(second.keyCount == 0 && second.heads.isEmpty && first.keyCount == 1)
        await away.ledger.close()
    }

    @Test("is noted under its name for a ledger of an earlier version, and under its new name after a change")
    func storedName() async throws {
        let new = try await fixture([first, second])
        let key = try #require(try await new.ledger.auditKeys().first)
        await new.ledger.close()
        let renamed = HangingAuditToken(first, name: "renamed")
        let later = try await fixture([renamed, second])
        #expect(later.gate.position == .open)
        #expect(
            try await later.ledger.auditKeys() == [
                StoredAuditKey(identifier: key.identifier, publicKey: key.publicKey, hsmToken: "renamed")
            ])
        await later.ledger.close()
    }

    @Test("is named if the configuration has it no more, and no other HSM token makes a key")
    func removedFromConfiguration() async throws {
        let new = try await fixture([first, second])
        await new.ledger.close()
        let other = try await fixture([second])
        #expect(other.gate.position.disagreement?.description.contains("under the name \"first\"") == true)
        #expect(second.keyCount == 0)
        await other.ledger.close()
    }
}
