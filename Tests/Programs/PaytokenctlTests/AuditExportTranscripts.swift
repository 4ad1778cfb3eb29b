import Foundation
import TestSupport
import Testing

@Suite("Transcripts: audit export")
struct AuditExportTranscripts {
    private static let target = "GET /v1/audit/export?format=jsonl&purpose=export"
    private static let follow = "GET /v1/audit/export?format=jsonl&follow=true&purpose=export"

    private static func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    private static func content(_ path: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(filePath: path)))
    }

    @Test("writes the daemon's lines to standard output byte for byte")
    func output() async throws {
        let record = try SealedRecord()
        let daemon = try await FakeDaemon([Self.target: .stream(record.export)])
        let result = try await Command.paytokenctl(["audit", "export"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.outputBytes == record.export)
        #expect(result.error == "")
    }

    @Test("writes a file that only its owner can read with --out, and that audit verify accepts")
    func file() async throws {
        let record = try SealedRecord(records: 2000, checkpointEvery: 500)
        let daemon = try await FakeDaemon([Self.target: .stream(record.export)])
        let directory = try FreshDirectory()
        let path = directory.path("record.jsonl")
        let result = try await Command.paytokenctl(["audit", "export", "--out", path], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output == "")
        #expect(result.error == "")
        #expect(try Self.content(path) == record.export)
        #expect(try Self.mode(path) == 0o600)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["record.jsonl"])
        let key = try directory.write(record.publicKey.pem, to: "key.pem")
        let head = String(decoding: try required(record.lines.last), as: UTF8.self)
        let verdict = try await Command.paytokenctl([
            "audit", "verify", "--export", path, "--public-key", key, "--head", head,
        ])
        #expect(verdict.status == 0)
    }

    @Test("exports a period of the audit record, and CSV")
    func parts() async throws {
        let since = "GET /v1/audit/export?since=2026-01-31T12%3A00%3A00.000Z&format=csv&purpose=export"
        let daemon = try await FakeDaemon([since: .stream(Array("a,b\r\n".utf8), "text/csv")])
        let result = try await Command.paytokenctl(
            ["audit", "export", "--since", "2026-01-31T12:00:00Z", "--format", "csv"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.output == "a,b\r\n")
        #expect(result.error == "")
    }

    @Test("passes conditions to the daemon, and makes an export that audit verify reports as filtered")
    func conditions() async throws {
        let target =
            "GET /v1/audit/export?key=\(Sample.hex)&merchant=merchant.com.example&caller=checkout&outcome=ok"
            + "&transaction=\(Sample.transaction)&format=jsonl&purpose=export"
        let record = try SealedRecord()
        let first = #"{"filter":{"node":"backend-1","through":5,"caller":"checkout"},"proves":"nothing"}"#
        let export = Array("\(first)\n".utf8) + record.export
        let daemon = try await FakeDaemon([target: .stream(export)])
        let directory = try FreshDirectory()
        let path = directory.path("march.jsonl")
        let result = try await Command.paytokenctl(
            [
                "audit", "export", "--key", Sample.hash, "--merchant", "merchant.com.example", "--caller", "checkout",
                "--outcome", "ok", "--transaction", Sample.transaction.uppercased(), "--out", path,
            ], socket: daemon.path)
        #expect(result.status == 0, "\(result)")
        #expect(result.error == "")
        #expect(try Self.content(path) == export)
        let key = try directory.write(record.publicKey.pem, to: "key.pem")
        let verdict = try await Command.paytokenctl(["audit", "verify", "--export", path, "--public-key", key])
        #expect(verdict.status == 1)
        #expect(verdict.output.hasPrefix("filtered: "))
        #expect(verdict.error.hasPrefix("chain_filtered: "))
        let json = try await Command.paytokenctl([
            "audit", "verify", "--export", path, "--public-key", key, "--output", "json",
        ])
        #expect(json.output.hasPrefix(#"{"verdict":"filtered","lines":"#))
    }

    @Test("exits with 64 for --follow with conditions, and for wrong conditions")
    func wrongConditions() async throws {
        for arguments in [
            ["--follow", "--key", Sample.hash], ["--follow", "--caller", "checkout"], ["--outcome", "fine"],
            ["--transaction", "abcd"], ["--key", "abc"],
        ] {
            let result = try await Command.paytokenctl(["audit", "export"] + arguments)
            #expect(result.status == 64, "\(arguments)")
            #expect(result.output == "")
        }
    }

    @Test("warns about an export that does not end with an audit checkpoint")
    func unsealed() async throws {
        let record = try SealedRecord(sealsEnd: false)
        let daemon = try await FakeDaemon([Self.target: .stream(record.export)])
        let result = try await Command.paytokenctl(["audit", "export"], socket: daemon.path)
        #expect(result.status == 0)
        #expect(result.outputBytes == record.export)
        #expect(result.error == "warning: the export is unsealed: it does not end with a checkpoint.\n")
    }

    @Test("refuses to overwrite a file before it asks the daemon")
    func taken() async throws {
        let daemon = try await FakeDaemon([Self.target: .stream([])])
        let directory = try FreshDirectory()
        let path = try directory.write("mine", to: "record.jsonl")
        let link = directory.path("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: directory.path("nowhere"))
        for name in [path, link] {
            let result = try await Command.paytokenctl(["audit", "export", "--out", name], socket: daemon.path)
            #expect(result.status == 66)
            #expect(result.error == "\(name) is there already, and is not overwritten. Name another file.\n")
        }
        #expect(try Self.content(path) == Array("mine".utf8))
        let partial = try directory.write("another's", to: "other.partial")
        let busy = try await Command.paytokenctl(
            ["audit", "export", "--out", directory.path("other")], socket: daemon.path)
        #expect(busy.status == 66)
        #expect(busy.error.hasPrefix("\(partial) is there already: another command is writing it, or one was killed."))
        #expect(try Self.content(partial) == Array("another's".utf8))
        let lost = try await Command.paytokenctl(
            ["audit", "export", "--out", directory.path("no/such/directory")], socket: daemon.path)
        #expect(lost.status == 66)
        #expect(lost.error.contains("cannot be made: No such file or directory."))
        #expect(daemon.asked == [])
    }

    @Test("leaves no file after a failure, and exits with 69 if cut off or with the status of the refusal")
    func failures() async throws {
        let record = try SealedRecord()
        let answers: [(FakeDaemon.Answer, Int32)] = [
            (.stream(Array(record.export.dropLast(20)), ending: .cut), 69),
            (.refusal(403, "forbidden", "Not your role."), 77), (.refusal(503, "overloaded", "Too much."), 75),
        ]
        for (answer, status) in answers {
            let daemon = try await FakeDaemon([Self.target: answer])
            let directory = try FreshDirectory()
            let result = try await Command.paytokenctl(
                ["audit", "export", "--out", directory.path("record.jsonl")], socket: daemon.path)
            #expect(result.status == status, "\(result)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == [])
        }
    }

    @Test("writes only whole lines of a cut-off export to standard output, and reports the cut")
    func cutOff() async throws {
        let record = try SealedRecord()
        let daemon = try await FakeDaemon([
            Self.target: .stream(
                SealedRecord.export(Array(record.lines[..<3])) + record.lines[3].prefix(50), ending: .cut)
        ])
        let result = try await Command.paytokenctl(["audit", "export"], socket: daemon.path)
        #expect(result.status == 69)
        #expect(result.outputBytes == SealedRecord.export(Array(record.lines[..<3])))
        #expect(result.error.hasPrefix("The connection to \(daemon.path) ended before the answer did."))
    }

    @Test("continues --follow until a signal, and then exits with 0 after a whole line", arguments: [SIGINT, SIGTERM])
    func following(signal: Int32) async throws {
        let record = try SealedRecord()
        let daemon = try await FakeDaemon([
            Self.follow: .stream(record.export + record.lines[0].prefix(40), ending: .open)
        ])
        let program = try RunningProgram(
            Program.built("paytokenctl"), ["audit", "export", "--follow", "--socket", daemon.path])
        try await wait(for: "the lines") { program.outputBytes.count >= record.export.count }
        #expect(program.isRunning)
        program.signal(signal)
        let result = try await program.result()
        #expect(result.status == 0)
        #expect(result.outputBytes == record.export)
        #expect(result.error == "")
    }

    @Test("continues --follow under nohup after its terminal closes")
    func hangup() async throws {
        let record = try SealedRecord()
        let daemon = try await FakeDaemon([Self.follow: .stream(record.export, ending: .open)])
        let program = try RunningProgram(
            Program.installed("nohup"),
            [Program.built("paytokenctl"), "audit", "export", "--follow", "--socket", daemon.path])
        try await wait(for: "the lines") { program.outputBytes.count == record.export.count }
        program.signal(SIGHUP)
        program.signal(SIGHUP)
        try await Task.sleep(for: .milliseconds(200))
        #expect(program.isRunning)
        program.signal(SIGINT)
        #expect(try await program.result().status == 0)
    }

    @Test("keeps the file of --follow after an interruption")
    func followingIntoFile() async throws {
        let record = try SealedRecord()
        let daemon = try await FakeDaemon([
            Self.follow: .stream(record.export + record.lines[0].prefix(40), ending: .open)
        ])
        let directory = try FreshDirectory()
        let path = directory.path("record.jsonl")
        let program = try RunningProgram(
            Program.built("paytokenctl"), ["audit", "export", "--follow", "--out", path, "--socket", daemon.path])
        try await wait(for: "the lines") {
            (try? Self.content(path + ".partial").count) == record.export.count
        }
        program.signal(SIGINT)
        let result = try await program.result()
        #expect(result.status == 0)
        #expect(try Self.content(path) == record.export)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["record.jsonl"])
    }

    @Test("exits with 75 if the daemon ends --follow")
    func followingEnded() async throws {
        let record = try SealedRecord()
        let daemon = try await FakeDaemon([Self.follow: .stream(record.export)])
        let result = try await Command.paytokenctl(["audit", "export", "--follow"], socket: daemon.path)
        #expect(result.status == 75)
        #expect(result.outputBytes == record.export)
        #expect(result.error == "The daemon has ended the export. Start it again to continue.\n")
    }

    @Test("removes the partial file of an interrupted export, and exits with the signal's status")
    func interrupted() async throws {
        let record = try SealedRecord()
        let daemon = try await FakeDaemon([Self.target: .stream(record.export, ending: .open)])
        let directory = try FreshDirectory()
        let path = directory.path("record.jsonl")
        let program = try RunningProgram(
            Program.built("paytokenctl"), ["audit", "export", "--out", path, "--socket", daemon.path])
        try await wait(for: "the lines") {
            (try? Self.content(path + ".partial").count) == record.export.count
        }
        program.signal(SIGINT)
        #expect(try await program.result().status == 128 + SIGINT)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == [])
    }

    @Test("exits with 64 for wrong usage", arguments: [["--follow", "--until", "1h"], ["--format", "xml"]])
    func usage(arguments: [String]) async throws {
        let result = try await Command.paytokenctl(["audit", "export"] + arguments)
        #expect(result.status == 64)
        #expect(result.output == "")
    }
}
