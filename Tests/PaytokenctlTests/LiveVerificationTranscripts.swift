import Foundation
import TestSupport
import Testing

@Suite("Transcripts: audit verify of the daemon's record, and audit public-key")
struct LiveVerificationTranscripts {
    private static let export = "GET /v1/audit/export?purpose=verify"
    private static let key = "GET /v1/audit/public-key"

    @Test("the daemon's record, its key and what its token remembers")
    func intact() async throws {
        let record = try SealedRecord()
        let daemon = try await FakeDaemon([
            Self.key: .ok(record.publicKeyAnswer(head: record.lines.last)), Self.export: .stream(record.export),
        ])
        let result = try await Command.paytokenctl(["audit", "verify"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output == "intact: node backend-1, records 1 to 10, sealed at 2026-01-31T12:00:10.000Z\n")
        #expect(result.error == "")
    }

    @Test("a ledger that ends before what the token remembers was rolled back")
    func rolledBack() async throws {
        let record = try SealedRecord()
        let daemon = try await FakeDaemon([
            Self.key: .ok(record.publicKeyAnswer(head: record.lines.last)),
            Self.export: .stream(SealedRecord.export(Array(record.lines[..<6]))),
        ])
        let result = try await Command.paytokenctl(["audit", "verify"], socket: daemon.path)
        #expect(result.status == 1)
        #expect(
            result.output
                == "broken: head, node backend-1, checkpoint 10: the export ends at record 5: it was cut off or the ledger "
                + "rolled back\n")
    }

    @Test("a changed record is named; what follows it is not waited for")
    func changed() async throws {
        let record = try SealedRecord()
        let daemon = try await FakeDaemon([
            Self.key: .ok(record.publicKeyAnswer(head: nil)),
            Self.export: .stream(record.changing(record: 2), ending: .open),
        ])
        let result = try await Command.paytokenctl(["audit", "verify"], socket: daemon.path)
        #expect(result.status == 1)
        #expect(result.output.hasPrefix("broken: line 2, node backend-1, record 2: "))
        #expect(result.error.hasPrefix("The HSM token remembers no checkpoint"))
    }

    @Test("with --public-key the daemon's own keys are not trusted")
    func givenKey() async throws {
        let (record, other) = (try SealedRecord(), try SealedRecord())
        let daemon = try await FakeDaemon([
            Self.key: .ok(record.publicKeyAnswer(head: nil)), Self.export: .stream(record.export),
        ])
        let directory = try FreshDirectory()
        let right = try directory.write(record.publicKey.pem, to: "right.pem")
        let wrong = try directory.write(other.publicKey.pem, to: "wrong.pem")
        #expect(
            try await Command.paytokenctl(["audit", "verify", "--public-key", right], socket: daemon.path).status == 0)
        #expect(
            try await Command.paytokenctl(["audit", "verify", "--public-key", wrong], socket: daemon.path).status == 1)
    }

    @Test("no verdict without the whole record: cut off is 69, refused is what the daemon says")
    func noVerdict() async throws {
        let record = try SealedRecord()
        let answers: [(FakeDaemon.Answer, Int32, String)] = [
            (.stream(record.export, ending: .cut), 69, "The connection to "),
            (.refusal(403, "forbidden", "Not your role."), 77, "forbidden: Not your role.\n"),
            (.refusal(503, "ledger_unavailable", "The disk is full."), 75, "ledger_unavailable: The disk is full.\n"),
        ]
        for (answer, status, message) in answers {
            let daemon = try await FakeDaemon([
                Self.key: .ok(record.publicKeyAnswer(head: record.lines.last)), Self.export: answer,
            ])
            let result = try await Command.paytokenctl(["audit", "verify"], socket: daemon.path)
            #expect(result.status == status)
            #expect(result.output == "")
            #expect(result.error.hasPrefix(message), "\(result.error)")
        }
    }

    @Test("public-key prints PEM that verify takes, and json as it came")
    func publicKey() async throws {
        let record = try SealedRecord()
        let answer = try record.publicKeyAnswer(head: nil)
        let daemon = try await FakeDaemon([Self.key: .ok(answer)])
        let result = try await Command.paytokenctl(["audit", "public-key"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output == record.publicKey.pem)
        #expect(result.error == "")
        let json = try await Command.paytokenctl(["audit", "public-key", "--output", "json"], socket: daemon.path)
        #expect(json.output == answer + "\n")
    }

    @Test("no key yet is 75, and a key under another's name is not passed on")
    func noKey() async throws {
        let none = try await FakeDaemon([Self.key: .ok(#"{"keys":[],"head":null}"#)])
        let result = try await Command.paytokenctl(["audit", "public-key"], socket: none.path)
        #expect(result.status == 75)
        #expect(result.error.hasPrefix("hsm_unavailable: the daemon has no audit key yet."))
        let (record, other) = (try SealedRecord(), try SealedRecord())
        let answer = try record.publicKeyAnswer(head: nil)
            .replacing(record.publicKey.keyId.hex, with: other.publicKey.keyId.hex)
        let wrong = try await FakeDaemon([Self.key: .ok(answer)])
        let refused = try await Command.paytokenctl(["audit", "public-key"], socket: wrong.path)
        #expect(refused.status == 69)
        #expect(refused.output == "")
    }
}
