import Crypto
import Foundation
import TestSupport
import Testing

@testable import paytokenctl

@Suite("Transcripts: ledger")
struct LedgerTranscripts {
    private static let backup = "POST /v1/ledger/backup"
    private static let accept = "POST /v1/ledger/accept-restore"

    private static func digest(_ bytes: [UInt8]) -> [(name: String, value: String)] {
        [("Repr-Digest", "sha-256=:\(Data(SHA256.hash(data: bytes)).base64EncodedString()):")]
    }

    private static func copy(
        _ bytes: [UInt8], headers: [(name: String, value: String)], ending: FakeDaemon.Answer.Ending = .whole
    ) -> FakeDaemon.Answer {
        .stream(bytes, "application/octet-stream", ending: ending, headers: headers)
    }

    @Test("writes a backup that only its owner can read, and prints its size and hash")
    func backup() async throws {
        // The SHA-256 of "abc" is an example in FIPS 180-4.
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        let bytes = Array("abc".utf8)
        let daemon = try await FakeDaemon([Self.backup: Self.copy(bytes, headers: Self.digest(bytes))])
        let directory = try FreshDirectory()
        let path = directory.path("copy")
        let result = try await Command.paytokenctl(["ledger", "backup", path], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output == "File     \(path)\nBytes    3\nSHA-256  \(hash)\n")
        #expect(result.error == "")
        #expect(try Array(Data(contentsOf: URL(filePath: path))) == bytes)
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["copy"])
        #expect(daemon.asked.map(\.body) == [Array("{}".utf8)])
        let again = try await Command.paytokenctl(
            ["ledger", "backup", directory.path("second"), "--output", "json"], socket: daemon.path)
        #expect(again.output == #"{"file":"\#(directory.path("second"))","bytes":3,"sha256":"\#(hash)"}"# + "\n")
    }

    @Test("leaves no file after a backup that is refused, incomplete or does not match its hash")
    func damaged() async throws {
        let bytes = [UInt8](repeating: 7, count: 100_000)
        let answers: [(FakeDaemon.Answer, Int32, String)] = [
            (Self.copy(bytes, headers: Self.digest([1])), 70, "internal_error: the copy arrived with another SHA-256"),
            (Self.copy(bytes, headers: []), 69, "The answer on "),
            (Self.copy(bytes, headers: [("Repr-Digest", "sha-256=:AAAA:")]), 69, "The answer on "),
            (Self.copy(bytes, headers: Self.digest(bytes), ending: .cut), 69, "The connection to "),
            (.refusal(503, "ledger_unavailable", "The disk is full."), 75, "ledger_unavailable: The disk is full.\n"),
            (.refusal(403, "forbidden", "Not your role."), 77, "forbidden: Not your role.\n"),
        ]
        for (answer, status, message) in answers {
            let daemon = try await FakeDaemon([Self.backup: answer])
            let directory = try FreshDirectory()
            let result = try await Command.paytokenctl(
                ["ledger", "backup", directory.path("copy")], socket: daemon.path)
            #expect(result.status == status)
            #expect(result.output == "")
            #expect(result.error.hasPrefix(message), "\(result.error)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == [])
        }
    }

    @Test("refuses to overwrite a file with a backup, and requires a file name")
    func taken() async throws {
        let daemon = try await FakeDaemon([:])
        let directory = try FreshDirectory()
        let path = try directory.write("mine", to: "copy")
        let result = try await Command.paytokenctl(["ledger", "backup", path], socket: daemon.path)
        #expect(result.status == 66)
        #expect(result.error == "\(path) is there already, and is not overwritten. Name another file.\n")
        #expect(try Array(Data(contentsOf: URL(filePath: path))) == Array("mine".utf8))
        #expect(daemon.asked == [])
        #expect(try await Command.paytokenctl(["ledger", "backup"]).status == 64)
    }

    @Test("shows the end of the ledger and the head in the HSM token with accept-restore")
    func accept() async throws {
        let answer =
            #"{"status":"accepted","ledgerSequence":120,"tokenSequence":150,"servedFrom":"2026-01-31T12:05:00Z"}"#
        let daemon = try await FakeDaemon([
            Self.accept: .ok(answer),
            Self.accept + "?dry_run=true": .ok(#"{"status":"unchanged","ledgerSequence":120,"tokenSequence":150}"#),
        ])
        let result = try await Command.paytokenctl(
            ["ledger", "accept-restore", "--reason", "disk lost"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(
            result.output == """
                Status                                accepted
                Ledger ended at record                120
                HSM token remembered record           150
                Refuses payment tokens signed before  2026-01-31T12:05:00Z

                """)
        #expect(daemon.asked.map(\.body) == [Array(#"{"reason":"disk lost"}"#.utf8)])
        let json = try await Command.paytokenctl(["ledger", "accept-restore", "--output", "json"], socket: daemon.path)
        #expect(json.output == answer + "\n")
        let unfound = ["ledger", "accept-restore", "--reason", "servers lost", "--without-finding"]
        #expect(try await Command.paytokenctl(unfound, socket: daemon.path).status == 0)
        #expect(daemon.asked.last?.body == Array(#"{"reason":"servers lost","withoutFinding":true}"#.utf8))
        let dry = try await Command.paytokenctl(["ledger", "accept-restore", "--dry-run"], socket: daemon.path)
        #expect(dry.status == 0 && dry.output.contains("Status                                unchanged\n"), "\(dry)")
        #expect(dry.error == "Dry run: the ledger can be accepted. Nothing was changed.\n")
    }

    @Test("shows which payment tokens can be released again with accept-clock, and requires a reason")
    func acceptClock() async throws {
        let answer =
            #"{"clock":"2026-01-31T12:00:00Z","forgottenBefore":"2027-01-31T12:00:00Z","#
            + #""servedFrom":"2026-01-31T12:05:00Z","status":"accepted"}"#
        let daemon = try await FakeDaemon([
            "POST /v1/ledger/accept-clock": .ok(answer),
            "POST /v1/ledger/accept-clock?dry_run=true": .ok(answer.replacing("accepted", with: "unchanged")),
        ])
        let arguments = ["ledger", "accept-clock", "--reason", "a year ahead"]
        let result = try await Command.paytokenctl(arguments, socket: daemon.path)
        #expect(result.status == 0 && result.error == "", "\(result)")
        #expect(
            result.output == """
                Status                                accepted
                Clock                                 2026-01-31T12:00:00Z
                Newest record was                     -
                Refused payment tokens signed before  2027-01-31T12:00:00Z
                Refuses those signed before           2026-01-31T12:05:00Z

                """)
        #expect(daemon.asked.map(\.body) == [Array(#"{"reason":"a year ahead"}"#.utf8)])
        let dry = try await Command.paytokenctl(arguments + ["--dry-run"], socket: daemon.path)
        #expect(dry.status == 0 && dry.error == "Dry run: the clock can be accepted. Nothing was changed.\n")
        let json = try await Command.paytokenctl(arguments + ["--output", "json"], socket: daemon.path)
        #expect(json.output == answer + "\n")
        let waiting = try await FakeDaemon([
            "POST /v1/ledger/accept-clock": FakeDaemon.Answer(
                status: 202,
                body: Array(#"{"status":"pending","approval":"0a1b2c3d","expires":"2100-01-01T00:00:00Z"}"#.utf8))
        ])
        let pending = try await Command.paytokenctl(arguments, socket: waiting.path)
        #expect(pending.status == 75, "\(pending)")
        #expect(try await Command.paytokenctl(["ledger", "accept-clock"]).status == 64)
    }

    @Test("prints the daemon's refusal of accept-restore if the ledger has no finding")
    func refused() async throws {
        let daemon = try await FakeDaemon([
            Self.accept: .refusal(409, "invalid_state", "Ledger and HSM token agree; there is nothing to accept.")
        ])
        let result = try await Command.paytokenctl(["ledger", "accept-restore"], socket: daemon.path)
        #expect(result.status == 1)
        #expect(result.error == "invalid_state: Ledger and HSM token agree; there is nothing to accept.\n")
        for reason in ["", String(repeating: "r", count: 201)] {
            let usage = try await Command.paytokenctl(["ledger", "accept-restore", "--reason", reason])
            #expect(usage.status == 64)
        }
    }

    @Test("parses the Repr-Digest header of RFC 9530")
    func reprDigest() {
        let zeros = Data(count: 32).base64EncodedString()
        #expect(ReprDigest.sha256("sha-256=:\(zeros):") == [UInt8](repeating: 0, count: 32))
        #expect(ReprDigest.sha256("sha-512=:AAAA:, sha-256=:\(zeros):") == [UInt8](repeating: 0, count: 32))
        for field in [
            "", "sha-256=\(zeros)", "sha-256=::", "sha-256=:AAAA:", "sha-512=:\(zeros):", "sha-256=:\(zeros)",
        ] {
            #expect(ReprDigest.sha256(field) == nil, "\(field)")
        }
    }
}
