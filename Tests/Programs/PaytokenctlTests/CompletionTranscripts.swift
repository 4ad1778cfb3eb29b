import Foundation
import TestSupport
import Testing

@testable import paytokenctl

@Suite("Transcripts: completions")
struct CompletionTranscripts {
    /// Returns the completions that bash offers for the last word of a command line.
    private func offers(_ words: [String], socket: String) async throws -> [String] {
        let directory = try FreshDirectory()
        let program = try Program.built("paytokenctl")
        let made = try await Command.paytokenctl(["--generate-completion-script", "bash"])
        #expect(made.status == 0 && made.error == "", "\(made)")
        try directory.write(made.outputBytes, to: "completions.bash")
        // Like readline, the test sets the words and the position, and calls the function that the script registered.
        let line = (["paytokenctl"] + words).joined(separator: " ")
        try directory.write(
            """
            source \(directory.path("completions.bash"))
            paytokenctl() { \(program) "$@"; }
            COMP_WORDS=(paytokenctl \(words.map { "'\($0)'" }.joined(separator: " ")))
            COMP_CWORD=\(words.count)
            COMP_LINE='\(line)'
            COMP_POINT=\(line.utf8.count)
            COMPREPLY=()
            $(complete -p paytokenctl | sed 's/.*-F \\([^ ]*\\).*/\\1/') paytokenctl '\(words.last ?? "")' \
                '\(words.dropLast().last ?? "paytokenctl")'
            [ ${#COMPREPLY[@]} = 0 ] || printf '%s\\n' "${COMPREPLY[@]}"

            """, to: "press-tab.bash")
        let result = try await Program.run(
            Program.installed("bash"), ["--norc", directory.path("press-tab.bash")],
            environment: ["PAYTOKEND_ADMIN_SOCKET": socket])
        #expect(result.error == "", "\(result)")
        return result.output.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
    }

    private func daemon() async throws -> FakeDaemon {
        let other = Sample.key(merchant: "merchant.com.other", notAfter: nil, daysLeft: nil, state: "suspended")
            .replacingOccurrences(of: Sample.hash, with: Data(repeating: 0xab, count: 32).base64EncodedString())
        let keys = FakeDaemon.Answer.ok(#"{"items":[\#(Sample.key),\#(other)]}"#)
        func approval(_ name: String, _ status: String) -> String {
            """
            {"approval":"\(name)","operation":"key_destroy","status":"\(status)","publicKeyHash":"\(Sample.hash)",\
            "keyState":"suspended","reason":"r","requestedBy":"alice","requester":1001,\
            "requestedAt":"2026-01-31T12:00:00Z","expires":"2100-01-01T00:00:00Z"}
            """
        }
        let approvals = [approval("0a1b2c3d4e5f6071", "pending"), approval("ffffffffffffffff", "approved")]
        return try await FakeDaemon([
            "GET /v1/keys?limit=100": keys, "GET /v1/keys?limit=100&after=00": keys,
            "GET /v1/keys?limit=100&after=000102030405060708": keys, "GET /v1/keys?limit=1000": keys,
            "GET /v1/approvals": .ok(#"{"items":[\#(approvals.joined(separator: ","))]}"#),
            "GET /v1/status": .ok(Sample.status()),
        ])
    }

    @Test("completes commands, merchants, HSM tokens, and keys and approvals in suitable states in bash")
    func bash() async throws {
        let daemon = try await daemon()
        #expect(try await offers(["key", "sus"], socket: daemon.path) == ["suspend"])
        let short = String(Sample.hex.prefix(16))
        #expect(try await offers(["key", "show", ""], socket: daemon.path).prefix(2) == [short, "abababababababab"])
        #expect(try await offers(["key", "show", "00"], socket: daemon.path) == [short])
        #expect(try await offers(["key", "show", "000102030405060708"], socket: daemon.path) == [Sample.hex])
        #expect(try await offers(["key", "suspend", "00"], socket: daemon.path) == [short])
        // The key is not suspended, so it cannot be resumed.
        #expect(try await offers(["key", "resume", "00"], socket: daemon.path) == [])
        #expect(
            try await offers(["audit", "list", "--merchant", "merchant.com.o"], socket: daemon.path)
                == ["merchant.com.other"])
        #expect(try await offers(["approval", "approve", "0"], socket: daemon.path) == ["0a1b2c3d4e5f6071"])
        for verb in ["import", "adopt"] {
            #expect(try await offers(["key", verb, "--approval", "f"], socket: daemon.path) == ["ffffffffffffffff"])
        }
        #expect(try await offers(["key", "import", "--token", "p"], socket: daemon.path) == ["primary"])
        #expect(try await offers(["key", "list", "--output", "j"], socket: daemon.path) == ["json"])
    }

    @Test("offers no completions and prints nothing if the daemon cannot be reached")
    func quiet() async throws {
        let directory = try FreshDirectory()
        let refusing = try await FakeDaemon([:])
        for socket in [directory.path("none"), refusing.path] {
            #expect(try await offers(["key", "show", "00"], socket: socket) == [])
            #expect(try await offers(["approval", "approve", "0"], socket: socket) == [])
            #expect(try await offers(["audit", "list", "--merchant", "m"], socket: socket) == [])
        }
    }

    @Test("prints scripts for zsh and fish, and refuses an unknown shell")
    func otherShells() async throws {
        for (shell, word) in [("zsh", "#compdef paytokenctl"), ("fish", "complete -c 'paytokenctl'")] {
            let script = try await Command.paytokenctl(["--generate-completion-script", shell])
            #expect(script.status == 0 && script.error == "")
            #expect(script.output.contains(word), "\(script.output.prefix(300))")
        }
        #expect(try await Command.paytokenctl(["--generate-completion-script", "cmd"]).status == 64)
    }
}
