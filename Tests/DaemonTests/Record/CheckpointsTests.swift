import AuditChain
import Foundation
import Ledger
import Refusals
import TestSupport
import Testing

@testable import Daemon

/// Sealing the record with the key in the token.
@Suite struct CheckpointsTests {
    private let directory: FreshDirectory
    private let token = SoftwareAuditToken()

    init() throws {
        directory = try FreshDirectory()
    }

    private func fixture() async throws -> RecordFixture {
        let fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), token: token)
        await fixture.gate.judge()
        return fixture
    }

    @Test("a seal covers all that is recorded, and a second one without new records signs nothing")
    func once() async throws {
        let fixture = try await fixture()
        try await fixture.append(5)
        let first = try #require(try await fixture.checkpoints.seal())
        #expect(first.checkpoint.sequence == 6)
        let signatures = token.signatures
        #expect(try await fixture.checkpoints.seal() == first)
        #expect(token.signatures == signatures)
        #expect(token.heads == [first.line])
    }

    @Test("of many seals at once the token remembers the newest")
    func manyAtOnce() async throws {
        let fixture = try await fixture()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    try await fixture.append()
                    try await fixture.checkpoints.seal()
                }
            }
            try await group.waitForAll()
        }
        let head = try await fixture.ledger.head()
        let remembered = try #require(try await fixture.checkpoints.remembered())
        #expect(remembered.checkpoint.sequence == head.sequence)
    }

    @Test("a thousand records are sealed without being asked")
    func thousand() async throws {
        let fixture = try await fixture()
        let sealing = fixture.checkpoints.start()
        defer { sealing.cancel() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<10 { group.addTask { try await fixture.append(100) } }
            try await group.waitForAll()
        }
        try await wait(for: "the checkpoint") {
            let sealed = try await fixture.ledger.latestCheckpoint()?.checkpoint.sequence ?? 0
            return sealed >= 1000
        }
    }

    @Test(
        "a token that does not sign leaves the record unsealed, and is asked again",
        arguments: [
            SoftwareAuditToken.Step.sign, .remember,
        ])
    func unavailable(step: SoftwareAuditToken.Step) async throws {
        let fixture = try await fixture()
        try await fixture.append()
        token.fail(at: step)
        let refusal = await #expect(throws: Refusal.self) { try await fixture.checkpoints.seal() }
        #expect(refusal?.code == .hsmUnavailable)
        token.fail(at: nil)
        let sealed = try #require(try await fixture.checkpoints.seal())
        #expect(sealed.checkpoint.sequence == 2)
        #expect(token.heads == [sealed.line])
    }

    @Test("before ledger and token were compared nothing is signed")
    func notBefore() async throws {
        let fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), token: token)
        try await fixture.append()
        await #expect(throws: Refusal.self) { try await fixture.checkpoints.seal() }
        #expect(token.signatures == 0)
    }
}
