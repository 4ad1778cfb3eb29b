import Foundation
import StrictJSON
import TestSupport
import Testing

/// `paytokenctl token try`, with a played worker and with the real one.
@Suite("Transcripts: token try")
struct TokenTryTranscripts {
    /// Installs paytokenctl with a worker that is a shell script. Another process copies both (ETXTBSY).
    private func installation(_ worker: String) async throws -> (FreshDirectory, program: String) {
        let directory = try FreshDirectory()
        try directory.makeDirectory("bin")
        let program = directory.path("bin/paytokenctl")
        let script = try directory.write("#!/bin/sh\n\(worker)\n", to: "worker", mode: 0o755)
        let copied = try await Program.run(
            Program.installed("sh"),
            [
                "-c", "cp \"$1\" \"$2\" && cp -p \"$3\" \"$4\"", "sh", Program.built("paytokenctl"), program, script,
                directory.path("bin/paytokend-hsm"),
            ])
        #expect(copied.status == 0, "\(copied)")
        return (directory, program)
    }

    private let arguments = [
        "token", "try", "--module", "/lib/module.so", "--token", "our label", "--pin-file", "/etc/our-pin",
    ]

    private static let opened = """
        echo '{"began":"open"}'
        echo '{"hsmToken":{"cryptoki":"2.40","firmwareVersion":"7.8","hardwareVersion":"1.0","library":"Vendor 9.1",\
        "libraryManufacturer":"V","manufacturer":"Vendor","mechanisms":["0x1050"],"model":"HSM 7"}}'
        echo '{"step":"open","tests":{"padsPSS":true,"shortcomings":["RSA_v1: no key in our label"],"tierECv1":"A",\
        "tlsAlgorithms":["rsa_pss_rsae_sha256"]},"works":true}'
        """

    @Test("shows the row, the reasons, the configuration, and what is missing")
    func row() async throws {
        let (directory, program) = try await installation(
            """
            \(Self.opened)
            echo '{"began":"imports EC"}'
            echo '{"keyRemoved":false,"reason":"the key stays","step":"imports EC","works":true}'
            echo '{"keyRemoved":true,"step":"generates identity","works":true}'
            echo '{"reason":"CKR_SESSION_COUNT for session 3 of 4","sessions":2,"step":"4 sessions","works":false}'
            echo '{"reason":"C_GenerateKeyPair: CKR_MECHANISM_INVALID","step":"audit key","works":false}'
            echo '{"reason":"C_CreateObject: CKR_ATTRIBUTE_VALUE_INVALID","step":"remembers the head","works":false}'
            """)
        let result = try await Program.run(program, arguments, environment: [:])
        #expect(result.status == 0, "\(result) \(directory.path)")
        let row =
            "| Vendor HSM 7, Vendor 9.1 | second only | A | – | PSS* | EC | identity | no | not tried | not tried "
            + "| not tried | no | not tried | not tried | not tried |\n"
        #expect(result.output.contains(row), "\(result.output)")
        for part in [
            "  tiers               RSA_v1: no key in our label\n", "  imports EC          the key stays\n",
            "    uri: \"pkcs11:token=our%20label\"\n", "    pin_file: \"/etc/our-pin\"\n", "    sessions: 2\n",
            "put an HSM token that can before it", "does not remember the record's end", "--report FILE",
            "Not tried, since it needs a daemon: kill -9, wrong PIN, restart, older ledger, lost ledger, verify.\n",
        ] {
            #expect(result.output.contains(part), "\(part)\n\(result.output)")
        }
        #expect(!result.output.contains("allow_extractable_secret"), "tier A alone")
    }

    @Test("permits tier C for Google Pay alone, and says so; serves an HSM token that opens nothing else")
    func googlePay() async throws {
        let line = "allow_extractable_secret: true   # tier C"
        let googlePayAlone = line + ", for Google Pay alone: leave it out without Google Pay\n"
        for (tiers, line) in [
            (#""tierECv1":"A","tierECv2":"C""#, googlePayAlone), (#""tierECv2":"C""#, googlePayAlone),
            (#""tierECv1":"C","tierECv2":"C""#, line + "\n"),
            (#""tierECv1":"A","tierECv2":"B""#, nil),
        ] {
            let opened = Self.opened.replacing(#""tierECv1":"A""#, with: tiers)
            let (directory, program) = try await installation(opened.replacing(#""rsa_pss_rsae_sha256""#, with: ""))
            let result = try await Program.run(program, arguments, environment: [:])
            #expect(result.status == 0 && result.output.contains("In paytokend.yaml:"), "\(result) \(directory.path)")
            #expect(result.output.contains(line ?? "allow_extractable_secret") == (line != nil), "\(tiers) \(result)")
        }
    }

    @Test("has the columns of the article's table")
    func columns() async throws {
        let (directory, program) = try await installation(Self.opened)
        let result = try await Program.run(program, arguments, environment: [:])
        let article = try String(
            contentsOf: ProjectFiles.url("Sources/HSM/HSMWorker/Documentation.docc/Tokens.md"), encoding: .utf8)
        let header = try #require(result.output.split(separator: "\n").first, "\(directory.path)")
        #expect(article.split(separator: "\n").contains(header), "\(header)")
    }

    @Test("goes on with the next step after a process that hung or crashed")
    func continues() async throws {
        let (directory, program) = try await installation(
            """
            echo "$@" >> "$(dirname "$0")/calls"
            \(Self.opened)
            case "$*" in
            *"--skip remembers the head"*) ;;
            *"--skip imports EC"*)
                echo '{"began":"remembers the head"}'
                echo '{"reason":"data object: no answer within 5 seconds","step":"remembers the head","works":false}'
                exit 75 ;;
            *) echo '{"began":"imports EC"}'; kill -SEGV $$ ;;
            esac
            """)
        let result = try await Program.run(program, arguments + ["--timeout", "5"], environment: [:])
        #expect(result.status == 0, "\(result)")
        #expect(result.output.contains("imports EC          the library ended the process with signal 11"), "\(result)")
        #expect(result.output.contains("remembers the head  data object: no answer within 5 seconds"), "\(result)")
        let calls = String(
            decoding: FileManager.default.contents(atPath: directory.path("bin/calls")) ?? Data(), as: UTF8.self)
        #expect(calls.split(separator: "\n").count == 3, "the last process removes what the second left: \(calls)")
    }

    @Test("ends when the HSM token does not open, with the worker's reason or after a hang")
    func closed() async throws {
        let (first, refusing) = try await installation("echo The PIN is refused. >&2; exit 1")
        let refused = try await Program.run(refusing, arguments, environment: [:])
        #expect(refused.status == 1 && refused.error == "The PIN is refused.\n", "\(refused) \(first.path)")
        let (second, hanging) = try await installation(
            #"echo '{"began":"open"}'; echo '{"step":"open","works":false,"reason":"open: no answer"}'; exit 75"#)
        let hung = try await Program.run(hanging, arguments, environment: [:])
        #expect(hung.status == 1 && hung.output.contains("open: no answer"), "\(hung) \(second.path)")
    }

    @Test("writes a report without label, paths, PIN file, account or host name")
    func report() async throws {
        let host = ProcessInfo.processInfo.hostName
        let (directory, program) = try await installation(
            """
            \(Self.opened)
            echo '{"reason":"our label at /lib/module.so with /etc/our-pin on \(host)","step":"imports EC","works":false}'
            """)
        let file = directory.path("trial.json")
        let result = try await Program.run(program, arguments + ["--report", file], environment: [:])
        #expect(result.status == 0, "\(result)")
        let text = String(decoding: FileManager.default.contents(atPath: file) ?? Data(), as: UTF8.self)
        for name in ["our label", "our%20label", "/lib/module.so", "/etc/our-pin", host] {
            #expect(!text.contains(name), "\(name) in \(text)")
        }
        let report = try JSONValue(parsing: Array(text.utf8)).objectValue
        #expect(report?["format"] == .string("paytokend token trial 1"))
        #expect(report?["hsmToken"]?.objectValue?["library"] == .string("Vendor 9.1"))
        #expect(text.contains("0x1050") && text.contains("… at … with … on …"), "\(text)")
        let again = try await Program.run(program, arguments + ["--report", file], environment: [:])
        #expect(again.status == 66, "an existing file is not overwritten: \(again)")
    }

    @Test("passes an interruption on to the worker, waits for its end, and shows no row")
    func interruption() async throws {
        let (directory, program) = try await installation(
            """
            trap 'touch "$(dirname "$0")/ended"; exit 0' TERM
            \(Self.opened)
            touch "$(dirname "$0")/begun"
            while :; do sleep 0.1; done
            """)
        let running = try RunningProgram(program, arguments)
        try await wait(for: "the worker") {
            FileManager.default.fileExists(atPath: directory.path("bin/begun"))
        }
        running.signal(SIGINT)
        let result = try await running.result()
        #expect(result.status == 128 + SIGINT && result.output.isEmpty, "\(result)")
        #expect(FileManager.default.fileExists(atPath: directory.path("bin/ended")))
    }

    @Test("checks with --dry-run, and opens nothing")
    func dryRun() async throws {
        let (directory, program) = try await installation("echo opened >&2; exit 1")
        try directory.write("", to: "module.so")
        try directory.write("1234\n", to: "pin")
        let result = try await Program.run(
            program,
            [
                "token", "try", "--module", directory.path("module.so"), "--token", "x", "--pin-file",
                directory.path("pin"), "--dry-run",
            ], environment: [:])
        #expect(result.status == 0 && result.error.contains("Nothing was changed."), "\(result)")
        #expect(!result.error.contains("opened"))
    }

    @Test("tries a SoftHSM token with the installed worker, and removes its keys")
    func softHSM() async throws {
        let hsmToken = try await TokenDirectory()
        let result = try await Program.run(
            Program.built("paytokenctl"),
            [
                "token", "try", "--module", hsmToken.libraryPath, "--token", TokenDirectory.label, "--pin-file",
                hsmToken.pinFile, "--output", "json",
            ], environment: hsmToken.environment)
        #expect(result.status == 0 && result.error.isEmpty, "\(result)")
        let cells = try JSONValue(parsing: Array(result.output.utf8)).objectValue?["cells"]?.objectValue
        let expected = [
            "opens": "yes", "EC_v1": "C", "RSA_v1": "C", "TLS": "PSS, PKCS1", "imports": "EC, RSA, identity",
            "generates": "EC, RSA, identity", "4 sessions": "yes", "destroy": "yes", "kill -9": "not tried",
        ]
        for (column, cell) in expected { #expect(cells?[column] == .string(cell), "\(column): \(result.output)") }
    }
}
