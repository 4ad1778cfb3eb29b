import Foundation
import TestSupport
import Testing
import TokenForge

/// The program token-forge, run as a process.
@Suite struct CommandTests {
    private func forge(_ arguments: String...) async throws -> ProgramResult {
        try await Program.run(Program.built("token-forge"), arguments)
    }

    @Test("makes an authority, a merchant's files, and a payment token with the given signing time")
    func wholeWay() async throws {
        let files = try FreshDirectory()
        let directory = files.path("forge")
        #expect(try await forge("authority", directory).status == 0)
        let root = try Data(contentsOf: URL(filePath: directory + "/root.pem"))
        #expect(try await forge("authority", directory).output.hasPrefix("kept"))
        #expect(try Data(contentsOf: URL(filePath: directory + "/root.pem")) == root)

        let id = "merchant.com.example.cli"
        #expect(try await forge("merchant", directory, "--merchant-identifier", id).status == 0)
        for name in ["\(id).pem", "\(id).der", "\(id).key.pem", "\(id).key.der"] {
            #expect(FileManager.default.fileExists(atPath: "\(directory)/\(name)"))
        }
        let minted = try await forge(
            "mint", directory, "--certificate", "\(directory)/\(id).pem", "--amount", "12.50", "--signing-time",
            "2026-01-31T12:00:00Z", "--transaction-id", String(repeating: "ab", count: 32))
        #expect(minted.status == 0, "\(minted)")
        let paymentToken = try #require(JSONSerialization.jsonObject(with: Data(minted.outputBytes)) as? [String: Any])
        #expect(paymentToken["transactionIdentifier"] as? String == String(repeating: "ab", count: 32))
        let paymentData = try #require(paymentToken["paymentData"] as? [String: Any])
        let signature = try #require((paymentData["signature"] as? String).flatMap { Data(base64Encoded: $0) })
        try files.write(Array(signature), to: "signature")
        let shown = try await Program.run(
            Program.installed("openssl"), ["asn1parse", "-inform", "DER", "-in", files.path("signature")])
        #expect(shown.output.contains("260131120000Z"))
    }

    @Test("lists every deviation, and mints each for the versions to which it applies")
    func deviations() async throws {
        let listing = try await forge("deviations").output.split(separator: "\n")
        #expect(listing.count == Deviation.allCases.count)
        for version in ["EC_v1", "RSA_v1"] {
            let merchant = try (version == "EC_v1" ? SharedForge.ecMerchant : SharedForge.rsaMerchant).merchant
            let genuine = TokenRecipe(merchant: merchant, applicationData: [1])
            for deviation in Deviation.allCases {
                var recipe = genuine
                recipe.deviations = [deviation]
                if deviation.applies(to: version) {
                    let paymentToken = try SharedForge.mint.mint(recipe)
                    #expect(!paymentToken.paymentToken.isEmpty)
                } else {
                    #expect(throws: ForgeFailure.self) { try SharedForge.mint.mint(recipe) }
                }
            }
        }
    }

    @Test(
        "mints a payment token for each line of payloads, and opens those whose tag is valid"
    )
    func payloads() async throws {
        let files = try FreshDirectory()
        let directory = files.path("forge")
        #expect(try await forge("authority", directory).status == 0)
        let payloads = "{\"n\":1}\n{ \"name\" : \"é\\u00e9\", \"amount\":1099.0 }\n{}\n"
        try files.write(payloads, to: "payloads")
        for type in ["ec", "rsa"] {
            let made = try await forge(
                "merchant", directory, "--merchant-identifier", "merchant.\(type)", "--type", type, "--name", type)
            #expect(made.status == 0, "\(made)")
            let certificate = "\(directory)/\(type).pem"
            let mint = ["mint", directory, "--certificate", certificate, "--payloads", files.path("payloads")]
            let open = ["open", "--certificate", certificate, "--private-key", "\(directory)/\(type).key.pem"]
            for (deviation, opened) in [([], payloads), (["--deviation", "bad-tag"], "\n\n\n")] {
                let minted = try await Program.run(Program.built("token-forge"), mint + deviation)
                #expect(minted.status == 0, "\(minted)")
                let result = try await Program.run(Program.built("token-forge"), open, input: minted.outputBytes)
                #expect(result.output == opened)
            }
        }
    }

    @Test("mints different payment tokens with --endless until the reader closes the pipe")
    func endless() async throws {
        let files = try FreshDirectory()
        let directory = files.path("forge")
        #expect(try await forge("authority", directory).status == 0)
        let made = try await forge("merchant", directory, "--merchant-identifier", "merchant.endless", "--name", "ec")
        #expect(made.status == 0, "\(made)")
        // The shell reports token-forge's exit status. token-forge inherits an ignored SIGPIPE in the first run, and
        // the default action in the second.
        for sigpipe in ["trap '' PIPE", "trap - PIPE"] {
            let script = """
                \(sigpipe); { "$0" mint "$1" --certificate "$1/ec.pem" --endless; echo "forge: $?" >&2; } | head -n 60
                """
            let read = try await Program.run(
                Program.installed("bash"), ["-c", script, Program.built("token-forge"), directory])
            #expect(read.error == "forge: 0\n")
            let paymentTokens = read.output.split(separator: "\n")
            let identifiers = try paymentTokens.map { line -> String? in
                let paymentToken = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
                return paymentToken?["transactionIdentifier"] as? String
            }
            #expect(Set(identifiers.compactMap(\.self)).count == 60)
        }
        // With the option for payloads, each line also contains the payload, with which a reader can compare the
        // decrypted plaintext.
        let both = try await Program.run(
            Program.installed("bash"),
            [
                "-c", #""$0" mint "$1" --certificate "$1/ec.pem" --endless --with-payloads | head -n 8"#,
                Program.built("token-forge"), directory,
            ])
        let lines = both.output.split(separator: "\n").map(String.init)
        let (held, minted) = (
            stride(from: 0, to: 8, by: 2).map { lines[$0] }, stride(from: 1, to: 8, by: 2).map { lines[$0] }
        )
        let opened = try await Program.run(
            Program.built("token-forge"),
            ["open", "--certificate", "\(directory)/ec.pem", "--private-key", "\(directory)/ec.key.pem"],
            input: Array(minted.joined(separator: "\n").utf8))
        #expect(opened.output.split(separator: "\n").map(String.init) == held)
        // A write to a full device is a failure, unlike a pipe that the reader has closed.
        let full = try await Program.run(
            Program.installed("bash"),
            [
                "-c", #""$0" mint "$1" --certificate "$1/ec.pem" --endless >/dev/full"#, Program.built("token-forge"),
                directory,
            ])
        #expect(full.status != 0)
    }

    @Test("exits with 64 for usage errors, and names the remedy")
    func usage() async throws {
        let files = try FreshDirectory()
        let missing = try await forge("mint", files.path)
        #expect(missing.status == 64)
        #expect(missing.error.contains("--certificate"))
        let both = try await forge("mint", files.path, "--certificate", "none.pem", "--endless", "--count", "2")
        #expect(both.status == 64)
        #expect(both.error.contains("--endless"))
        let help = try await forge("--help")
        #expect(help.status == 0)
        #expect(help.output.contains("SUBCOMMANDS"))
    }
}
