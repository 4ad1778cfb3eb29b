import AuditChain
import Foundation
import TestSupport
import Testing

@Suite("Transcripts: audit verify of the daemon's record, and audit public-key")
struct LiveVerificationTranscripts {
    private static let export = "GET /v1/audit/export?purpose=verify"
    private static let key = "GET /v1/audit/public-key"

    @Test("verifies the daemon's audit record with its key and the head in the HSM token")
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

    @Test("reports a ledger that ends before the HSM token's head as rolled back")
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

    @Test("names a changed record before it has received the rest")
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

    @Test("verifies with the given key instead of the daemon's keys with --public-key")
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

    @Test(
        "gives no verdict on an incomplete audit record, and exits with 69 or the status of the daemon's refusal"
    )
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

    @Test("prints the public key in PEM, or the daemon's answer with --output json")
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

    @Test("verifies the daemon's node first, then other nodes with its trusted keys, and prints a verdict for each")
    func allNodes() async throws {
        let other = try SealedRecord(node: "backend-2")
        let pin = try required(KeyPin(trustedOnFirstUse: [other.publicKey], of: try required(AuditNode("backend-2"))))
        for isPinned in [true, false] {
            let own = try SealedRecord(pin: isPinned ? pin : nil)
            let daemon = try await FakeDaemon([
                "GET /v1/audit/public-key?node=all": .ok(
                    try SealedRecord.allKeysAnswer([("backend-1", own, 10), ("backend-2", other, 13)])),
                Self.export: .stream(own.export),
                "GET /v1/audit/export?node=backend-2&purpose=verify": .stream(other.export),
            ])
            let result = try await Command.paytokenctl(["audit", "verify", "--node", "all"], socket: daemon.path)
            let first =
                "intact: node backend-1, records 1 to 10, sealed at 2026-01-31T12:00:10.000Z, own key, as the daemon says\n"
            if isPinned {
                #expect(result.status == 0, "\(result)")
                #expect(
                    result.output == first
                        + "intact: node backend-2, records 1 to 10, sealed at 2026-01-31T12:00:10.000Z, key pinned by node "
                        + "backend-1; 3 later records are not sealed yet\n")
            } else {
                #expect(result.status == 1, "\(result)")
                #expect(
                    result.output == first
                        + "unverified: node backend-2, records 1 to 10, no key given and none pinned: nothing was verified\n"
                )
                #expect(result.error.contains("chain_unverified: ") && result.error.contains("backend-2=FILE"))
            }
            let json = try await Command.paytokenctl(
                ["audit", "verify", "--node", "backend-2", "--output", "json"], socket: daemon.path)
            let expected =
                isPinned
                ? #"{"verdict":"intact","lines":24,"records":20,"nodes":[{"node":"backend-2","verdict":"intact","first":1,"#
                    + #""last":10,"sealed":10,"sealedAt":"2026-01-31T12:00:10.000Z","endKnown":true,"later":3,"#
                    + #""key":"pinned","pinnedBy":"backend-1"}]}"#
                : #"{"verdict":"unverified","lines":24,"records":20,"nodes":[{"node":"backend-2","verdict":"unverified","#
                    + #""first":1,"last":10,"sealed":10,"sealedAt":"2026-01-31T12:00:10.000Z"}]}"#
            #expect(json.output == expected + "\n")
        }
    }

    @Test("reports lines of another node as broken, and names the existing nodes for an unknown name")
    func foreignLines() async throws {
        let (own, other) = (try SealedRecord(), try SealedRecord(node: "backend-2"))
        let daemon = try await FakeDaemon([
            "GET /v1/audit/public-key?node=all": .ok(
                try SealedRecord.allKeysAnswer([("backend-1", own, 10), ("backend-2", other, 10)])),
            "GET /v1/audit/export?node=backend-2&purpose=verify": .stream(own.export, ending: .open),
        ])
        let directory = try FreshDirectory()
        let key = "backend-2=" + (try directory.write(other.publicKey.pem, to: "two.pem"))
        let result = try await Command.paytokenctl(
            ["audit", "verify", "--node", "backend-2", "--public-key", key], socket: daemon.path)
        #expect(result.status == 1)
        #expect(
            result.output
                == "broken: line 1, node backend-1, record 1: is among the lines of node backend-2\n"
                + "broken: node backend-2: there is no line of it\n")
        let unknown = try await Command.paytokenctl(["audit", "verify", "--node", "backend-3"], socket: daemon.path)
        #expect(unknown.status == 1 && unknown.output == "")
        #expect(unknown.error == "node_not_found: this ledger has no node backend-3; it has backend-1, backend-2\n")
    }

    @Test(
        "exits with 64 for conflicting options",
        arguments: [
            ["verify", "--pinned-by", "a"], ["verify", "--export", "-", "--public-key", "a=k", "--pinned-by", "a"],
            ["verify", "--export", "f", "--node", "all"], ["verify", "--node", "not a name"],
            ["export", "--node", "all", "--follow"], ["export", "--output", "json"],
        ])
    func usage(arguments: [String]) async throws {
        let result = try await Command.paytokenctl(["audit"] + arguments)
        #expect(result.status == 64 && result.output == "", "\(result)")
    }

    @Test("exits with 75 if there is no audit key yet, and with 69 for a key that does not match its identifier")
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

@Suite("Transcripts: audit verify with archives")
struct ArchiveVerificationTranscripts {
    /// A chain of twenty records. A file contains records 1 to 10, which record 15 names as archived; the daemon has
    /// the others.
    private struct Archived {
        let directory: FreshDirectory
        let file: String
        let lines: [[UInt8]]
        let daemon: FakeDaemon

        /// Writes the archive file. `written` may change its lines.
        init(_ written: (_ lines: [[UInt8]]) -> [[UInt8]] = { $0 }) async throws {
            directory = try FreshDirectory()
            // The first twelve lines are ten records and the audit checkpoints after records 5 and 10.
            let record = try SealedRecord(records: 20, archive: (1...10, saidBy: 15))
            lines = Array(record.lines[..<12])
            file = try directory.write(SealedRecord.export(written(lines)), to: "backend-1.1-10.jsonl")
            daemon = try await FakeDaemon([
                "GET /v1/audit/public-key": .ok(record.publicKeyAnswer(head: record.lines.last)),
                "GET /v1/audit/export?purpose=verify": .stream(SealedRecord.export(Array(record.lines[11...]))),
            ])
        }

        func verify(_ arguments: [String]) async throws -> ProgramResult {
            try await Command.paytokenctl(["audit", "verify"] + arguments, socket: daemon.path)
        }
    }

    @Test("reports the remaining records as intact without the archive, and all records with it")
    func intact() async throws {
        let archived = try await Archived()
        let left = try await archived.verify([])
        #expect(left.output == "intact: node backend-1, records 11 to 20, sealed at 2026-01-31T12:00:20.000Z\n")
        #expect(left.status == 0)
        let all = try await archived.verify(["--archive", archived.file])
        #expect(
            all.output == "intact: node backend-1, records 1 to 20, sealed at 2026-01-31T12:00:20.000Z\n"
                + "archive \(archived.file): records 1 to 10 of node backend-1, SHA-256 as recorded\n")
        #expect(all.status == 0)
        let json = try await archived.verify(["--archive", archived.file, "--output", "json"])
        #expect(
            json.output.contains(#""archives":[{"file":"\#(archived.file)","node":"backend-1","first":1,"last":10"#))
    }

    @Test("refuses an archive with intact records but changed audit checkpoints")
    func changed() async throws {
        // The changed file lacks the first audit checkpoint.
        let archived = try await Archived { Array($0[..<5] + $0[6...]) }
        let result = try await archived.verify(["--archive", archived.file])
        #expect(result.status == 1)
        #expect(result.output == "")
        #expect(result.error.contains("archive_changed: no record names a file with the SHA-256"))
    }

    @Test("names a changed record in an archive, and records that are missing before the archive")
    func broken() async throws {
        let changed = try await Archived { lines in
            lines.map {
                Array(String(decoding: $0, as: UTF8.self).replacing(#""sequence":3,"#, with: #""sequence":4,"#).utf8)
            }
        }
        let result = try await changed.verify(["--archive", changed.file])
        #expect(result.status == 1)
        #expect(result.output.hasPrefix("broken: line 3, node backend-1, record 4: record 3 is missing before it"))
        let missing = try await Archived { Array($0[5...]) }
        let headless = try await missing.verify(["--archive", missing.file])
        #expect(
            headless.output == "broken: line 1, node backend-1, checkpoint 5: records 1 to 5 are missing before it\n")
    }

    @Test("refuses a missing file or standard input as an archive")
    func unreadable() async throws {
        let archived = try await Archived()
        #expect(try await archived.verify(["--archive", archived.directory.path("none")]).status == 66)
        #expect(try await archived.verify(["--archive", "-"]).status == 64)
    }
}
