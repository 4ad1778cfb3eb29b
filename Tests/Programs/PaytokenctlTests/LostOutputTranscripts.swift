import TestSupport
import Testing

@Suite("Transcripts: output that cannot be written")
struct LostOutputTranscripts {
    private static func shell(
        _ script: String, _ arguments: [String], socket: String, program: String = "paytokenctl"
    ) async throws -> ProgramResult {
        try await Program.run(
            Program.installed("bash"), ["-o", "pipefail", "-c", script, try Program.built(program)] + arguments,
            environment: ["PAYTOKEND_ADMIN_SOCKET": socket])
    }

    @Test(
        "exits with 75 and a message if standard output is on a full disk",
        arguments: [
            ["key", "list"], ["key", "list", "--output", "json"], ["status"], ["audit", "export"], ["--version"],
            ["--help"], ["audit", "--help"], ["--generate-completion-script", "bash"],
        ])
    func full(arguments: [String]) async throws {
        let record = try SealedRecord()
        let daemon = try await FakeDaemon([
            "GET /v1/keys?limit=1000": .ok(#"{"items":[\#(Sample.key)]}"#),
            "GET /v1/status": .ok(Sample.status()),
            "GET /v1/audit/export?format=jsonl&purpose=export": .stream(record.export),
        ])
        let result = try await Self.shell("\"$0\" \"$@\" > /dev/full", arguments, socket: daemon.path)
        #expect(result.status == 75)
        #expect(result.error.hasPrefix("Standard output cannot be written: No space left on device. "))
    }

    @Test(
        "exits with 75 and a message in the other programs if standard output is on a full disk",
        arguments: [
            ("paytoken-gateway", ["new-key"]), ("paytoken-gateway", ["new-key", "--output", "json"]),
            ("paytoken-gateway", ["payment", "list"]), ("paytoken-gateway", ["payment", "list", "--output", "json"]),
            ("paytoken-gateway", ["--version"]), ("paytoken-gateway", ["payment", "--help"]),
            ("paytokend", ["--version"]), ("paytokend", ["--help"]),
        ])
    func full(program: String, arguments: [String]) async throws {
        let gateway = try await FakeDaemon([
            "POST /v1/payments/list": .ok(#"{"items":[\#(PaymentListTranscripts.payment)]}"#)
        ])
        let result = try await Self.shell(
            "\"$0\" \"$@\" > /dev/full",
            arguments + (arguments.contains("list") ? ["--socket", gateway.path] : []), socket: gateway.path,
            program: program)
        #expect(result.status == 75)
        #expect(result.error.hasPrefix("Standard output cannot be written: No space left on device. "), "\(result)")
    }

    @Test("exits with 66 if standard output is closed")
    func closed() async throws {
        let daemon = try await FakeDaemon([:])
        let result = try await Self.shell("\"$0\" \"$@\" >&-", ["--version"], socket: daemon.path)
        #expect(result.status == 66)
        #expect(result.error.hasPrefix("Standard output cannot be written: Bad file descriptor. "))
    }

    @Test("ends without an error when the reader of its output closes the pipe")
    func enough() async throws {
        let record = try SealedRecord(records: 3000, checkpointEvery: 500)
        let daemon = try await FakeDaemon([
            "GET /v1/audit/export?format=jsonl&purpose=export": .stream(record.export, ending: .open)
        ])
        let result = try await Self.shell(
            "\"$0\" \"$@\" | { read -r line; echo \"$line\"; }", ["audit", "export"], socket: daemon.path)
        #expect(result.status == 0, "\(result.error)")
        #expect(result.outputBytes == record.lines[0] + [0x0A])
        #expect(result.error == "")
    }
}
