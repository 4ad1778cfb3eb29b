import AuditChain
import Foundation
import TestSupport
import Testing

@Suite("Transcripts: audit head")
struct AuditHeadTranscripts {
    private static let head = "GET /v1/audit/head"
    private static let key = "GET /v1/audit/public-key?node=backend-1"

    /// Ten audit records, and the audit checkpoints after records 5 and 10.
    private let record: SealedRecord
    private let directory: FreshDirectory
    private var early: [UInt8] { record.lines[5] }
    private var late: [UInt8] { record.lines[11] }
    private let earlyName = "backend-1-2026-01-31T120005Z-5.json"
    private let lateName = "backend-1-2026-01-31T120010Z-10.json"

    init() throws {
        record = try SealedRecord()
        directory = try FreshDirectory()
    }

    private static func line(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) + "\n" }

    /// Returns the answer with the oldest audit record, which the command requests if no head is kept.
    private static func oldest(_ time: String, of node: String = "backend-1") -> [String: FakeDaemon.Answer] {
        ["GET /v1/audit/records?node=\(node)&order=oldest&limit=1": .ok(#"{"items":[{"time":"\#(time)"}],"next":"x"}"#)]
    }

    /// Makes a daemon whose export contains the lines `between` from record `from` on.
    private func daemon(
        newest: [[UInt8]], from: Int = 6, between: [[UInt8]]? = nil, oldest: String = "2026-01-30T12:00:10.000Z"
    ) async throws -> FakeDaemon {
        var answers = Self.oldest(oldest)
        answers.merge([
            Self.head: newest.isEmpty ? .ok("") : .stream(SealedRecord.export(newest)),
            Self.key: .ok(try record.publicKeyAnswer(head: nil)),
        ]) { $1 }
        if let between {
            answers["GET /v1/audit/export?node=backend-1&from=\(from)&purpose=verify"] = .stream(
                SealedRecord.export(between))
        }
        return try await FakeDaemon(answers)
    }

    private func keep(_ arguments: [String] = [], from daemon: FakeDaemon) async throws -> ProgramResult {
        try await Command.paytokenctl(
            ["audit", "head", "--directory", directory.path] + arguments, socket: daemon.path)
    }

    private func kept() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted()
    }

    @Test("prints the newest audit checkpoint byte for byte, in a form that --head accepts")
    func printed() async throws {
        let daemon = try await daemon(newest: [late])
        let result = try await Command.paytokenctl(["audit", "head"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output == Self.line(late))
        #expect(result.error == "")
        #expect(daemon.asked.map(\.target) == ["/v1/audit/head"])
        let (export, key) = (
            try directory.write(record.export, to: "record.jsonl"),
            try directory.write(record.publicKey.pem, to: "key.pem")
        )
        let verified = try await Command.paytokenctl([
            "audit", "verify", "--export", export, "--public-key", key, "--head", result.output,
        ])
        #expect(verified.status == 0, "\(verified)")
    }

    @Test("writes a file that all users can read with --out, and refuses to replace a file")
    func out() async throws {
        let daemon = try await daemon(newest: [late])
        let path = directory.path("head.json")
        let result = try await Command.paytokenctl(["audit", "head", "--out", path], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output == "\(path): node backend-1, record 10, the first head here\n")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == Self.line(late))
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect((mode ?? 0) & 0o644 == 0o644 && (mode ?? 0o777) & 0o133 == 0)
        let again = try await Command.paytokenctl(["audit", "head", "--out", path], socket: daemon.path)
        #expect(again.status == 66 && again.error.contains("is not overwritten"), "\(again)")
    }

    @Test("verifies the audit record since the last kept head before it writes the next head into the directory")
    func keptInDirectory() async throws {
        let first = try await keep(from: daemon(newest: [early]))
        #expect(first.status == 0)
        #expect(first.output == "\(directory.path)/\(earlyName): node backend-1, record 5, the first head here\n")
        let between = Array(record.lines[5...])
        let second = try await keep(["--output", "json"], from: daemon(newest: [late], between: between))
        #expect(second.status == 0, "\(second)")
        #expect(
            second.output == #"{"heads":[{"node":"backend-1","sequence":10,"time":"2026-01-31T12:00:10.000Z","file":"#
                + #""\#(directory.path)/\#(lateName)","after":5}]}"# + "\n")
        #expect(try kept() == [earlyName, lateName])
        #expect(try String(contentsOfFile: directory.path(lateName), encoding: .utf8) == Self.line(late))
        // The command compares with the head of the highest sequence number, and writes the same head to the same file.
        let again = try await keep(from: daemon(newest: [late], from: 11, between: [late]))
        #expect(again.status == 0 && again.output.contains("intact from record 10"), "\(again)")
        #expect(try kept() == [earlyName, lateName])
    }

    @Test("refuses an audit record that ends before the kept head, and writes no file")
    func wentBack() async throws {
        try directory.write(Self.line(late), to: lateName)
        let result = try await keep(from: daemon(newest: [early]))
        #expect(result.status == 1)
        #expect(result.output == "")
        #expect(
            result.error.hasPrefix(
                "chain_broken: node backend-1's record does not continue from record 10 of 2026-01-31T12:00:10.000Z, whose "
                    + "head was kept (\(directory.path)/\(lateName)): its newest checkpoint is of record 5: "),
            "\(result)")
        #expect(result.error.contains("ledger_accept_restore"))
        #expect(try kept() == [lateName])
    }

    @Test("refuses an audit record that was rewritten or changed after the kept head")
    func forked() async throws {
        try directory.write(Self.line(early), to: earlyName)
        // The daemon's record is longer and sealed by another key, lacks one record, or ends before the head.
        let other = try SealedRecord(records: 12, checkpointEvery: 6)
        let answers: [([[UInt8]], Int, [[UInt8]])] = [
            ([other.lines[13]], 6, Array(other.lines[..<14])),
            ([late], 6, [early] + record.lines[7...]),
            ([late], 6, Array(record.lines[..<5])),
        ]
        for (newest, from, between) in answers {
            let result = try await keep(from: daemon(newest: newest, from: from, between: between))
            #expect(result.status == 1, "\(result)")
            #expect(result.error.hasPrefix("chain_broken: node backend-1's record does not continue from record 5"))
            #expect(result.error.contains(": broken: "), "\(result)")
            #expect(try kept() == [earlyName])
        }
        // A changed record with the same sequence number is refused too.
        let changed = try record.changing(record: 5).split(separator: 0x0A).map { Array($0) }
        let result = try await keep(from: daemon(newest: [early], between: Array(changed[..<5]) + [early]))
        #expect(result.status == 1 && result.error.contains("chain_broken"), "\(result)")
    }

    @Test("refuses to compare with a kept file that was changed, and writes no file")
    func changedFile() async throws {
        for (name, text) in [
            (lateName, Self.line(early)), (lateName, "{}\n"), (lateName, Self.line(late) + Self.line(late)),
            ("backend-1-2026-01-31T120010Z-999.json", Self.line(late)),
        ] {
            let fresh = try FreshDirectory()
            try fresh.write(text, to: name)
            let daemon = try await daemon(newest: [late], from: 11, between: [late])
            let result = try await Command.paytokenctl(
                ["audit", "head", "--directory", fresh.path], socket: daemon.path)
            #expect(result.status == 66, "\(result)")
            #expect(result.error.contains("does not hold the checkpoint of its name"))
            #expect(try FileManager.default.contentsOfDirectory(atPath: fresh.path) == [name])
        }
    }

    @Test("ignores unrelated files and partial files in the directory")
    func otherFiles() async throws {
        for name in ["README", "\(lateName).partial", "backend-1-99.json", "x-2026-01-31T120010Z-0.json"] {
            try directory.write("something", to: name)
        }
        let result = try await keep(from: daemon(newest: [early]))
        #expect(result.status == 0 && result.output.contains("the first head here"), "\(result)")
    }

    @Test("compares each node with its own kept head, and writes no file if one of them is wrong")
    func nodes() async throws {
        let other = try SealedRecord(node: "backend-2")
        let answer = try SealedRecord.allKeysAnswer([("backend-2", other, 10)])
        func daemon(_ second: [UInt8]) async throws -> FakeDaemon {
            try await FakeDaemon([
                "GET /v1/audit/head?node=all": .stream(SealedRecord.export([late, second])),
                Self.key: .ok(try record.publicKeyAnswer(head: nil)),
                "GET /v1/audit/public-key?node=backend-2": .ok(answer),
                "GET /v1/audit/export?node=backend-1&from=6&purpose=verify": .stream(
                    SealedRecord.export(Array(record.lines[5...]))),
                "GET /v1/audit/export?node=backend-2&from=11&purpose=verify": .stream(
                    SealedRecord.export([other.lines[11]])),
            ])
        }
        try directory.write(Self.line(early), to: earlyName)
        let second = "backend-2-2026-01-31T120010Z-10.json"
        try directory.write(Self.line(other.lines[11]), to: second)
        let back = try await keep(["--node", "all"], from: daemon(other.lines[5]))
        #expect(back.status == 1 && back.error.contains("node backend-2's record does not continue"), "\(back)")
        #expect(try kept() == [earlyName, second])
        let whole = try await keep(["--node", "all"], from: daemon(other.lines[11]))
        #expect(whole.status == 0 && whole.output.split(separator: "\n").count == 2, "\(whole)")
        #expect(try kept() == [earlyName, lateName, second])
    }

    @Test("refuses the first head of an audit record older than a day without --first, because heads may be lost")
    func removed() async throws {
        // The newest head is of 12:00:10, just over a day after the oldest record.
        let daemon = try await daemon(newest: [late], oldest: "2026-01-30T12:00:09.999Z")
        let result = try await keep(from: daemon)
        #expect(result.status == 1 && result.output == "", "\(result)")
        #expect(
            result.error.hasPrefix(
                "\(directory.path) has no head of node backend-1, whose record goes back to 2026-01-30T12:00:09.999Z: "),
            "\(result)")
        #expect(result.error.contains("copy them back from the other host") && result.error.contains("--first"))
        #expect(try kept() == [])
        let first = try await keep(["--first"], from: daemon)
        #expect(first.status == 0 && first.error == "" && first.output.contains("the first head here"), "\(first)")
        #expect(try kept() == [lateName])
        // `--first` does not bypass a kept head.
        let back = try await keep(["--first"], from: self.daemon(newest: [early]))
        #expect(back.status == 1 && back.error.hasPrefix("chain_broken: "), "\(back)")
        #expect(try await Command.paytokenctl(["audit", "head", "--first"]).status == 64)
    }

    @Test("refuses the first head if the daemon does not state the beginning of the audit record")
    func withoutBeginning() async throws {
        for (body, status) in [(#"{"items":[],"next":null}"#, 69), (#"{"items":[{"time":"soon"}],"next":null}"#, 69)] {
            let daemon = try await FakeDaemon([
                Self.head: .stream(SealedRecord.export([late])),
                "GET /v1/audit/records?node=backend-1&order=oldest&limit=1": .ok(body),
            ])
            let result = try await keep(from: daemon)
            #expect(result.status == status && result.output == "", "\(result)")
        }
        #expect(try kept() == [])
    }

    @Test("refuses a node's first head without --first if the directory has heads of other nodes")
    func anotherNode() async throws {
        let other = try SealedRecord(node: "backend-2")
        let daemon = try await FakeDaemon(
            Self.oldest("2026-01-31T00:00:00.000Z", of: "backend-2").merging([
                "GET /v1/audit/head": .stream(SealedRecord.export([other.lines[11]])),
                Self.key: .ok(try other.publicKeyAnswer(head: nil)),
            ]) { $1 })
        let alone = try await keep(from: daemon)
        #expect(alone.status == 0 && alone.error == "", "\(alone)")
        try FileManager.default.removeItem(atPath: directory.path("backend-2-2026-01-31T120010Z-10.json"))
        try directory.write(Self.line(early), to: earlyName)
        let among = try await keep(from: daemon)
        #expect(among.status == 1 && among.output == "", "\(among)")
        #expect(among.error.contains("none of backend-2") && among.error.contains("with --first"), "\(among)")
        #expect(try kept() == [earlyName])
        let first = try await keep(["--first"], from: daemon)
        #expect(first.status == 0 && first.output.contains("the first head here"), "\(first)")
    }

    @Test("compares with a given head with --compare, and refuses the head of a node that was not requested")
    func compare() async throws {
        let between = Array(record.lines[5...])
        let daemon = try await daemon(newest: [late], between: between)
        let head = String(decoding: early, as: UTF8.self)
        let result = try await Command.paytokenctl(["audit", "head", "--compare", head], socket: daemon.path)
        #expect(result.status == 0 && result.output == Self.line(late), "\(result)")
        let other = String(decoding: try SealedRecord(node: "backend-2").lines[5], as: UTF8.self)
        let strange = try await Command.paytokenctl(["audit", "head", "--compare", other], socket: daemon.path)
        #expect(strange.status == 1 && strange.error.contains("node backend-2, which was not requested"), "\(strange)")
        #expect(strange.output == "")
    }

    @Test("reports a missing head, a missing directory, and an invalid head")
    func refused() async throws {
        // The variable keeps the daemon alive, because deallocation closes its socket.
        let empty = try await daemon(newest: [])
        let none = try await Command.paytokenctl(["audit", "head"], socket: empty.path)
        #expect(empty.asked.count == 1)
        #expect(none.status == 1 && none.error.hasPrefix("There is no head"), "\(none)")
        let absent = try await Command.paytokenctl(
            ["audit", "head", "--directory", directory.path("none")], socket: daemon(newest: [late]).path)
        #expect(absent.status == 66 && absent.error.contains("make it first"), "\(absent)")
        for body in [[record.lines[0]], [late, late]] {
            let daemon = try await daemon(newest: body)
            let strange = try await Command.paytokenctl(["audit", "head"], socket: daemon.path)
            #expect(strange.status == 69 && strange.output == "", "\(strange)")
            #expect(strange.error.contains("is not one that this program understands") && daemon.asked.count == 1)
        }
        let away = try await FakeDaemon([Self.head: .refusal(503, "hsm_unavailable", "The token is away.")])
        let refused = try await Command.paytokenctl(["audit", "head"], socket: away.path)
        #expect(refused.status == 75 && refused.error.hasPrefix("hsm_unavailable: The token is away.\n"), "\(refused)")
        for arguments in [
            ["--out", "a", "--directory", "b"], ["--compare", "a", "--directory", "b"], ["--output", "json"],
        ] {
            #expect(try await Command.paytokenctl(["audit", "head"] + arguments).status == 64)
        }
    }
}
