import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import StrictJSON
import Testing

@testable import paytokenctl

@Suite("Command-line arguments")
struct ArgumentsTests {
    @Test("prefers the socket option to the environment variable, and the variable to the default")
    func sockets() {
        let environment = ["PAYTOKEND_SOCKET": "/p", "PAYTOKEND_ADMIN_SOCKET": "/a"]
        #expect(DaemonSocket.payments.path(option: "/o", environment: environment) == "/o")
        #expect(DaemonSocket.payments.path(option: nil, environment: environment) == "/p")
        #expect(DaemonSocket.admin.path(option: nil, environment: environment) == "/a")
        #expect(DaemonSocket.payments.path(option: nil, environment: [:]) == "/run/paytokend/paytokend.sock")
        #expect(DaemonSocket.admin.path(option: nil, environment: [:]) == "/run/paytokend/admin.sock")
        #expect(
            DaemonSocket.admin.path(option: nil, environment: ["PAYTOKEND_ADMIN_SOCKET": ""])
                == "/run/paytokend/admin.sock")
    }

    @Test("accepts a key in base64, in hex of either case, or by a prefix")
    func keys() {
        #expect(KeyReference(Sample.hash)?.hex == Sample.hex)
        #expect(KeyReference(Sample.hex.uppercased())?.hex == Sample.hex)
        #expect(KeyReference("00010203")?.hex == "00010203")
    }

    @Test(
        "refuses a text that is not a key's name",
        arguments: [
            "", "0001020", "0001020g", String(repeating: "0", count: 65), String(repeating: "!", count: 44),
            // A text of 44 characters is base64 even if it could be hexadecimal. This one has 33 bytes.
            String(repeating: "0", count: 44),
        ])
    func noKeys(text: String) {
        #expect(KeyReference(text) == nil)
    }

    @Test("reads durations in the format of the configuration")
    func durations() {
        let expected = ["60d": 5_184_000, "12h": 43_200, "5m": 300, "30s": 30, "0d": 0, "500ms": 0.5]
        for (text, seconds) in expected { #expect(ShortDuration(argument: text)?.seconds == seconds) }
        for text in ["", "60", "d", "-1d", "1.5d", "60 d", "60D", "60w", "99999999999d", "9999999999999d"] {
            #expect(ShortDuration(argument: text) == nil, "\(text)")
        }
    }

    @Test("imports into the HSM tokens named, or by default into the only one")
    func recipients() throws {
        let key = Data([1, 2, 3]).base64EncodedString()
        let first = HSMTokenStatus(name: "first", condition: "ready", importKey: key)
        let second = HSMTokenStatus(name: "second", condition: "ready", importKey: key)
        let absent = HSMTokenStatus(name: "absent", condition: "unavailable", message: "No such token.")
        func names(_ hsmTokens: [HSMTokenStatus], _ named: [String] = []) throws -> [String] {
            try KeyImportCommand.recipients(in: hsmTokens, named: named).map(\.name)
        }
        #expect(try names([first]) == ["first"])
        #expect(try names([first, second], ["second"]) == ["second"])
        #expect(try names([first, second, absent], ["second", "first"]) == ["second", "first"])
        #expect(try KeyImportCommand.recipients(in: [first], named: []).map(\.importKey) == [[1, 2, 3]])
        let refusals: [(hsmTokens: [HSMTokenStatus], names: [String], status: DaemonAPI.ExitStatus, part: String)] = [
            ([first, second], [], .usage, "several HSM tokens: first, second"),
            ([first], ["first", "other"], .usage, "no HSM token other"),
            ([], ["other"], .usage, "but none"),
            ([absent], [], .tryAgainLater, "absent is unavailable: No such token."),
            ([first, absent], ["first", "absent"], .tryAgainLater, "absent is unavailable: No such token."),
        ]
        for refusal in refusals {
            let failure = try #require(throws: CommandFailure.self) {
                _ = try KeyImportCommand.recipients(in: refusal.hsmTokens, named: refusal.names)
            }
            #expect(failure.status == refusal.status)
            #expect(failure.message?.contains(refusal.part) == true, "\(failure.message ?? "")")
        }
    }

    @Test("sends the payment token of decrypt unchanged, with exactly the requested members")
    func requests() throws {
        let paymentToken = Array(#"{ "data" : "x", "n": 1.0 }"#.utf8)
        let plain = try DecryptCommand.parse(["f"])
        #expect(
            String(decoding: plain.requestBody(paymentToken: paymentToken, applicationData: nil), as: UTF8.self)
                == #"{"token":{ "data" : "x", "n": 1.0 }}"#)
        let full = try DecryptCommand.parse([
            "f", "--reference", #"o"1"#, "--expect-currency", "840", "--expect-amount", "10.990", "--expect-merchant",
            "m",
        ])
        #expect(
            String(
                decoding: full.requestBody(paymentToken: Array("{}".utf8), applicationData: [0, 255]), as: UTF8.self)
                == #"{"token":{},"expected":{"currencyCode":"840","transactionAmount":10.990,"applicationData":"AP8=","merchantIdentifier":"m"},"reference":"o\"1"}"#
        )
    }

    @Test(
        "refuses values outside their limits",
        arguments: [
            ["decrypt", "f", "--expect-amount", "10,99"], ["decrypt", "f", "--expect-amount", "1e"],
            ["decrypt", "f", "--reference", ""], ["decrypt", "f", "--reference", String(repeating: "r", count: 129)],
            ["decrypt", "f", "--reference", "ordér"], ["verify", "f", "--at", "yesterday"],
            ["key", "list", "--expiring", "soon"], ["key", "show", "abc"], ["key", "list", "--output", "yaml"],
            ["key", "import", "--private-key", "k"], ["key", "import", "--certificate", "c"],
            ["key", "import", "--private-key", "k", "--certificate", "c", "--token", "a", "--token", "a"],
            ["key", "import", "--pkcs12", "f", "--private-key", "k"], ["key", "generate"], ["unknown"],
            ["key", "generate", "--merchant-identifier", ""],
            ["key", "generate", "--merchant-identifier", " \t"], ["csr", "create"], ["csr", "create", "short"],
            ["key", "generate", "--merchant-identifier", "m", "--type", "ed25519"], ["rotate", "start"],
            ["rotate", "finish", "m", "--cut-off", "soon"], ["rotate", "finish", "m", "--reason", ""],
            ["token", "init", "--module", "m", "--label", "", "--so-pin-file", "f", "--pin-file", "f"],
            [
                "token", "init", "--module", "m", "--label", String(repeating: "l", count: 33), "--so-pin-file", "f",
                "--pin-file", "f",
            ],
            ["trust", "google-pay", "fetch", "f", "--proxy", "socks://proxy:1080"],
            ["trust", "google-pay", "fetch", "f", "--test-server", "payments.example.com:443"],
        ])
    func usage(arguments: [String]) throws {
        let error = try #require(throws: (any Error).self) { _ = try Paytokenctl.parseAsRoot(arguments) }
        #expect(Paytokenctl.exitCode(for: error).rawValue == DaemonAPI.ExitStatus.usage.rawValue)
    }

    @Test("every command's help shows how it is called")
    func help() {
        for command in [
            TokenInitCommand.self, TokenTestKeysCommand.self, KeyImportCommand.self, KeyListCommand.self,
            KeyShowCommand.self,
            CertificateImportCommand.self, DecryptCommand.self,
            VerifyCommand.self, StatusCommand.self, ReloadCommand.self, AuditListCommand.self, AuditVerifyCommand.self,
            AuditExportCommand.self, AuditPublicKeyCommand.self,
            AuditChangeKeyCommand.self,
            LedgerBackupCommand.self, LedgerAcceptRestoreCommand.self, LedgerAcceptClockCommand.self,
            KeyGenerateCommand.self, CSRCreateCommand.self,
            RotateCommand.self,
            RotateStartCommand.self, RotateImportCommand.self, RotateStatusCommand.self, RotateFinishCommand.self,
        ] as [any ParsableCommand.Type] {
            let text = Paytokenctl.helpMessage(for: command, columns: 200)
            #expect(text.contains("  paytokenctl "), "\(command)")
            // ArgumentParser wraps lines at 80 columns, which would split an example command.
            let examples = text.split(separator: "\n").filter {
                $0.hasPrefix("  paytokenctl") || $0.hasPrefix("      --")
            }
            #expect(examples.allSatisfy { $0.count <= 80 }, "\(command)")
        }
        #expect(Paytokenctl.helpMessage().contains("--generate-completion-script"))
        #expect(Paytokenctl.helpMessage().contains("PAYTOKEND_ADMIN_SOCKET"))
    }
}
