import AuditChain
import Foundation
import MerchantKeys
import TestSupport
import Testing

@testable import Ledger

/// Commits without an acknowledgement. The ledger answers only once it has found the commit, or has found that the
/// commit can never take place.
@Suite("A PostgreSQL commit in doubt")
struct DoubtTests {
    private let signer = CheckpointSigner()

    @Test("finds a commit's writes after a lost acknowledgement, and answers them as decided")
    func acknowledgementLost() async throws {
        let fixture = try await PostgreSQLFixture()
        fixture.proxy.fault = .loseAcknowledgement(then: .none)
        #expect(try await fixture.release(1) == RecordedVerdict(.released, sequence: 1))
        #expect(fixture.proxy.cuts == 1)
        #expect(fixture.events.readBack == [.found])
        #expect(try await fixture.release(1) == RecordedVerdict(.repeated, sequence: 2))
        #expect(try await fixture.release(1, reference: nil).verdict == .replayed)
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 3)
    }

    @Test(
        "keeps a named attempt with a lost acknowledgement as the last release, and not one that never arrived")
    func namedAttempts() async throws {
        let fixture = try await PostgreSQLFixture()
        #expect(try await fixture.release(1, named: NamedAttempt(1)).verdict == .released)
        fixture.proxy.fault = .loseAcknowledgement(then: .none)
        #expect(try await fixture.release(1, named: NamedAttempt(2, after: [1])).verdict == .repeated)
        #expect(try await fixture.release(1, named: NamedAttempt(3, after: [1])).verdict == .releasedByOther)
        fixture.proxy.fault = .loseCommit(then: .none)
        #expect(try await fixture.release(1, named: NamedAttempt(4, after: [2])).verdict == .repeated)
        #expect(fixture.events.readBack == [.found, .absent])
        #expect(try await fixture.release(1, named: NamedAttempt(5, after: [1, 2, 3])).verdict == .releasedByOther)
        #expect(try await fixture.release(1, named: NamedAttempt(6, after: [4])).verdict == .repeated)
    }

    @Test("keeps a found attempt as the last release if its key was suspended and it is not answered")
    func namedAttemptSuspended() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        fixture.proxy.fault = .loseAcknowledgement(then: .refuse)
        let release = fixture.begin(1, named: try NamedAttempt(1))
        try await wait(for: "the cut") { fixture.proxy.cuts == 1 }
        try await other.store(LedgerFixture.record(fixture.key, state: .suspended))
        fixture.proxy.fault = .none
        #expect(try await release.value().isUnavailable)
        try await other.store(LedgerFixture.record(fixture.key, state: .active))
        #expect(try await fixture.release(1, named: NamedAttempt(2)).verdict == .releasedByOther)
        #expect(try await fixture.release(1, named: NamedAttempt(3, after: [1]), on: other).verdict == .repeated)
        await other.close()
    }

    @Test("finds a commit that never arrived absent for good, and repeats its writes once")
    func commitLost() async throws {
        let fixture = try await PostgreSQLFixture()
        fixture.proxy.fault = .loseCommit(then: .none)
        #expect(try await fixture.release(1) == RecordedVerdict(.released, sequence: 1))
        #expect(fixture.proxy.cuts == 1)
        #expect(fixture.events.readBack == [.absent])
        #expect(try await fixture.count("claim") == 1)
        #expect(try await fixture.count("audit_record") == 1)
    }

    @Test("answers an administrative change once it is found after a lost acknowledgement")
    func administrative() async throws {
        let fixture = try await PostgreSQLFixture()
        for fault in [PostgreSQLProxy.Fault.loseAcknowledgement(then: .none), .loseCommit(then: .none)] {
            fixture.proxy.fault = fault
            let state: KeyState = fault == .loseCommit(then: .none) ? .active : .suspended
            let record = AuditRecord(time: AuditTime(LedgerFixture.noon), event: .stop)
            try await fixture.ledger.store(LedgerFixture.record(fixture.key, state: state), recording: record)
            #expect(try await fixture.ledger.keyRecord(fixture.key)?.state == state)
        }
        #expect(fixture.events.readBack == [.found, .absent])
        #expect(try await fixture.ledger.head().sequence == 2)
    }

    @Test("releases nothing that is found if its key was suspended meanwhile")
    func suspendedMeanwhile() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        fixture.proxy.fault = .loseAcknowledgement(then: .refuse)
        let release = fixture.begin(1)
        try await wait(for: "the cut") { fixture.proxy.cuts == 1 }
        try await other.store(LedgerFixture.record(fixture.key, state: .suspended))
        fixture.proxy.fault = .none
        let answer = try await release.value()
        #expect(answer.isUnavailable, "\(answer)")
        #expect(fixture.events.readBack == [.found])
        #expect(try await fixture.release(1).verdict == .keyNotActive)
        await other.close()
    }

    @Test("finds a signature after a lost acknowledgement, and refuses it if its key was suspended meanwhile")
    func signature() async throws {
        let fixture = try await PostgreSQLFixture()
        let key = LedgerFixture.record(LedgerFixture.hash(40), algorithm: .rsa, use: .identity)
        try await fixture.ledger.store(key)
        let other = try await fixture.node("node-2")
        let use = SignatureUse(publicKeyHash: key.publicKeyHash, use: .identity, at: LedgerFixture.noon)
        let record = AuditRecord(
            time: AuditTime(LedgerFixture.noon), event: .tlsSignature(TLSSignatureDetails()),
            publicKeyHash: AuditDigest(bytes: key.publicKeyHash.bytes))
        fixture.proxy.fault = .loseAcknowledgement(then: .none)
        #expect(try await fixture.ledger.record(use, recording: record) == RecordedSignature(.granted, sequence: 1))

        fixture.proxy.fault = .loseAcknowledgement(then: .refuse)
        let signing = Task { [ledger = fixture.ledger] in try await ledger.record(use, recording: record) }
        try await wait(for: "the cut") { fixture.proxy.cuts == 2 }
        var suspended = key
        suspended.state = .suspended
        try await other.store(suspended)
        fixture.proxy.fault = .none
        await #expect(throws: LedgerFailure.self) { _ = try await signing.value }
        #expect(fixture.events.readBack == [.found, .found])
        await other.close()
    }

    @Test("counts a commit with a warning once a later commit came without one")
    func warning() async throws {
        let fixture = try await PostgreSQLFixture()
        try await fixture.database.sql(
            """
            CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RAISE WARNING ''canary: committed locally''; RETURN NULL; END';
            CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON claim DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION warn()
            """)
        #expect(try await fixture.release(1) == RecordedVerdict(.released, sequence: 1))
        #expect(fixture.events.readBack == [.found])
        for event in fixture.events.all {
            #expect(!"\(event)".contains("canary"), "the server's texts are not passed on")
        }
    }

    @Test("answers nothing as written and sends nothing more while every commit has a warning")
    func onlyWarnings() async throws {
        let fixture = try await PostgreSQLFixture { $0.timeout = .seconds(8) }
        try await fixture.database.sql(
            """
            CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RAISE WARNING ''committed locally''; RETURN NULL; END';
            CREATE CONSTRAINT TRIGGER warn AFTER UPDATE ON node DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION warn()
            """)
        #expect(try await fixture.begin(1).value().isUnavailable)
        #expect(try await fixture.begin(2).value().isUnavailable)
        #expect(try await fixture.count("claim") == 1, "the second was not sent")
        try await fixture.database.sql("DROP TRIGGER warn ON node")
        try await wait(for: "the first probe") { (try? await fixture.ledger.probe()) != nil }
        #expect(fixture.events.readBack == [.unresolved], "one commit, however often it was looked for")
        #expect(try await fixture.release(1).verdict == .repeated)
        #expect(try await fixture.release(2).verdict == .released)
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 3)
    }

    @Test("answers each member of a batch in doubt, and neither loses nor repeats notes")
    func batch() async throws {
        let fixture = try await PostgreSQLFixture()
        for fault in [PostgreSQLProxy.Fault.loseAcknowledgement(then: .none), .loseCommit(then: .none)] {
            let before = try await fixture.ledger.head().sequence
            let pause = await WriterPause(fixture.ledger)
            let releases = (1...10).map { fixture.begin($0 + before) }
            try await pause.wait(for: 10)
            fixture.ledger.note(AuditRecord(time: AuditTime(LedgerFixture.noon), event: .stop))
            fixture.proxy.fault = fault
            pause.end()
            for release in releases { #expect(try await release.value().get().verdict == .released) }
            try await fixture.ledger.probe()
            #expect(try await fixture.ledger.head().sequence == before + 11)
        }
        #expect(fixture.events.readBack == [.found, .absent] && fixture.events.dropped == 0)
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 22)
    }
}
