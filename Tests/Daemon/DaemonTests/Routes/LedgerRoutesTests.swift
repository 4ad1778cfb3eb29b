import AuditChain
import DaemonAPI
import Foundation
import Ledger
import Refusals
import SQLiteLedger
import StrictJSON
import TestSupport
import Testing

@testable import Daemon

@Suite("POST /v1/ledger/backup and /v1/ledger/accept-restore")
struct LedgerRoutesTests {
    private func files(_ fixture: RecordRoutesFixture) throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: fixture.directory.path))
    }

    @Test("streams a backup that opens as the same ledger, and whose record verifies")
    func streamsBackup() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let sealed = try #require(try await fixture.seals.seal())
        let before = try files(fixture)
        let answer = try await fixture.administration.backup(RecordRoutesFixture.request(body: "{}"))
        // When the response begins, the file of the backup has already been unlinked.
        #expect(try files(fixture) == before)
        let copy = try await answer.bytes
        #expect(try files(fixture) == before)

        let restored = try FreshDirectory()
        let path = try restored.write(copy, to: "ledger.sqlite")
        let ledger = try await SQLiteLedger.open(SQLiteLedger.Settings(path: path, node: "node-1"))
        #expect(try await ledger.head().sequence == 30)
        var export: [UInt8] = []
        for try await page in ledger.export() { export += page.bytes }
        #expect(fixture.verdict(export, head: sealed).intact?.last == 30)
        await ledger.close()
    }

    @Test("states the size and digest of the backup's bytes in the answer and in the record")
    func backupDigest() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...30)
        let answer = try await fixture.administration.backup(RecordRoutesFixture.request(body: "{}"))
        guard case .stream(let stream) = answer.http.body else {
            Issue.record("not streamed")
            return
        }
        let copy = try await answer.bytes
        #expect(stream.length == copy.count)
        #expect(answer.header("Repr-Digest") == "sha-256=:\(AuditDigest.of(copy).base64):")
        let entry = try await fixture.newest
        #expect(entry.event == "ledger_backup")
        #expect(entry.caller?.name?.text == "auditor")
        #expect(entry.details["bytes"]?.numberValue?.int == copy.count)
        #expect(entry.details["fileSha256"]?.stringValue == AuditDigest.of(copy).hex)
    }

    @Test("sends nothing and leaves no file if the backup cannot be recorded")
    func refusesUnrecorded() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...3)
        fixture.reads.breakDown()
        let before = try files(fixture)
        let routes = fixture.administration
        for _ in 0..<2 {
            let error = await #expect(throws: Refusal.self) {
                _ = try await routes.backup(RecordRoutesFixture.request(body: "{}"))
            }
            #expect(error?.code == .ledgerUnavailable)
        }
        #expect(try files(fixture) == before)
    }

    @Test("makes one backup at a time: refuses a second, and serves it after the first")
    func oneAtATime() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...3)
        let routes = fixture.administration
        do {
            let first = try await routes.backup(RecordRoutesFixture.request(body: "{}"))
            let error = await #expect(throws: Refusal.self) {
                _ = try await routes.backup(RecordRoutesFixture.request(body: "{}"))
            }
            #expect(error?.code == .overloaded)
            #expect(!(try await first.bytes).isEmpty)
        }
        #expect(!(try await routes.backup(RecordRoutesFixture.request(body: "{}")).bytes).isEmpty)
    }

    @Test("removes the incomplete backup of a killed daemon at the next backup, and keeps other files")
    func leftOvers() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...3)
        let before = try files(fixture)
        let digits = String(repeating: "0123abcd", count: 4)
        for name in ["ledger.sqlite.backup-\(digits)", "ledger.sqlite.backup-\(digits).partial"] {
            try fixture.directory.write("left", to: name)
        }
        let others = ["ledger.sqlite.backup-monday", "other.sqlite.backup-\(digits)", "ledger.sqlite.schema-1"]
        for name in others { try fixture.directory.write("mine", to: name) }
        _ = try await fixture.administration.backup(RecordRoutesFixture.request(body: "{}"))
        #expect(try files(fixture) == before.union(others))
    }

    @Test("names a directory that cannot take the copy as the reason")
    func cannotWrite() async throws {
        let fixture = try await RecordRoutesFixture()
        let routes = LedgerRoutes(
            ledger: fixture.ledger, path: fixture.directory.path("gone/ledger.sqlite"), reads: fixture.reads,
            checkpoints: fixture.seals, restores: fixture.restores, clocks: fixture.clocks)
        let error = await #expect(throws: Refusal.self) {
            _ = try await routes.backup(RecordRoutesFixture.request(body: "{}"))
        }
        #expect(error?.code == .ledgerUnavailable)
        #expect(error?.details == "the copy cannot be written in the ledger's directory: its directory does not exist.")
    }

    @Test("answers a dry run with the copy's content, and makes no copy")
    func dryRun() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...3)
        let before = try files(fixture)
        let answer = try await fixture.administration.backup(
            RecordRoutesFixture.request(["dry_run": "true"], body: "{}"))
        #expect(try await answer.text == "{\"ledgerSequence\":3}")
        #expect(try files(fixture) == before)
        #expect(try await fixture.ledger.head().sequence == 3)
    }

    @Test("requires an empty object as the body of a backup", arguments: ["", "[]", "{\"path\":\"/tmp/x\"}", "null"])
    func backupBody(body: String) async throws {
        let fixture = try await RecordRoutesFixture()
        let error = await #expect(throws: Refusal.self) {
            _ = try await fixture.administration.backup(RecordRoutesFixture.request(body: body))
        }
        #expect(error?.code == .malformedRequest)
    }

    @Test("passes reason and requester of a restore's acceptance on, and answers both positions")
    func acceptRestore() async throws {
        let fixture = try await RecordRoutesFixture()
        let answer = try await fixture.administration.acceptRestore(
            RecordRoutesFixture.request(body: "{\"reason\":\"the disk of 4111 1111 1111 1111 died\"}"))
        let accepted = try JSONCoding.decode(AcceptRestoreAnswer.self, from: try await answer.bytes)
        #expect(
            accepted
                == AcceptRestoreAnswer(
                    ledgerSequence: 17, tokenSequence: 40, servedFrom: RecordRoutesFixture.noon + 300))
        #expect(fixture.restores.reasons == ["the disk of **** **** **** **** died"])
        #expect(fixture.restores.callers == ["auditor"])
        _ = try await fixture.administration.acceptRestore(
            RecordRoutesFixture.request(body: #"{"reason":"the servers died","withoutFinding":true}"#))
        #expect(fixture.restores.withoutFinding == [false, true])
        fixture.restores.answer(.wouldAccept(ledgerSequence: 17, hsmTokenSequence: 40))
        let dry = try await fixture.administration.acceptRestore(
            RecordRoutesFixture.request(["dry_run": "true"], body: #"{"reason":"the disk died"}"#))
        #expect(try await dry.text == #"{"ledgerSequence":17,"status":"unchanged","tokenSequence":40}"#)
        #expect(fixture.restores.dryRuns == [false, false, true])
    }

    @Test("answers 202 with the approval's name while a second person is needed")
    func pendingRestore() async throws {
        let fixture = try await RecordRoutesFixture()
        let approval = try await TwoPersonRule(people: 2, expire: .seconds(3600)).request(
            .ledgerAcceptRestore, parameters: .of([1]), key: nil, keyState: nil, reason: AuditReason("died"),
            by: RecordRoutesFixture.auditor, at: RecordRoutesFixture.noon)
        fixture.restores.answer(.pending(approval))
        let answer = try await fixture.administration.acceptRestore(
            RecordRoutesFixture.request(body: "{\"reason\":\"died\"}"))
        #expect(answer.http.status == 202)
        let pending = try JSONCoding.decode(PendingAnswer.self, from: try await answer.bytes)
        #expect(pending.approval == approval.identifier.hex)
        #expect(pending.expires == RecordRoutesFixture.noon.addingTimeInterval(3600))
    }

    @Test("passes reason and requester of a clock's acceptance on, and requests a dry run as such")
    func acceptClock() async throws {
        let fixture = try await RecordRoutesFixture()
        let routes = fixture.administration
        let dry = try await routes.acceptClock(
            RecordRoutesFixture.request(["dry_run": "true"], body: "{\"reason\":\"a year ahead\"}"))
        let plan = RecordedClocks.plan
        #expect(
            try JSONCoding.decode(AcceptClockAnswer.self, from: try await dry.bytes)
                == AcceptClockAnswer("unchanged", plan))
        let answer = try await routes.acceptClock(RecordRoutesFixture.request(body: "{\"reason\":\"a year ahead\"}"))
        #expect(try await answer.text.contains("\"servedFrom\":\"2027-01-15T08:05:00Z\",\"status\":\"accepted\""))
        #expect(fixture.clocks.requests == ["auditor: a year ahead (dry run)", "auditor: a year ahead"])
        for body in ["{}", "{\"reason\":\"\"}", ""] {
            let error = await #expect(throws: Refusal.self) {
                _ = try await routes.acceptClock(RecordRoutesFixture.request(body: body))
            }
            #expect(error?.code == .malformedRequest)
        }
        #expect(fixture.clocks.requests.count == 2)
    }

    @Test(
        "accepts nothing without a reason",
        arguments: ["{}", "{\"reason\":\"\"}", "{\"reason\":17}", "{\"reason\":\"x\",\"force\":true}", ""])
    func reasonMissing(body: String) async throws {
        let fixture = try await RecordRoutesFixture()
        let error = await #expect(throws: Refusal.self) {
            _ = try await fixture.administration.acceptRestore(RecordRoutesFixture.request(body: body))
        }
        #expect(error?.code == .malformedRequest)
        #expect(fixture.restores.reasons.isEmpty)
    }
}
