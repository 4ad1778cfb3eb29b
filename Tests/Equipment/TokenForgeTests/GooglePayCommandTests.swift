import Crypto
import Foundation
import TestSupport
import Testing
import TokenForge

/// The commands of token-forge for Google Pay.
@Suite struct GooglePayCommandTests {
    private let merchantKey = P256.KeyAgreement.PrivateKey()

    private func mint(_ directory: String, _ more: [String]) async throws -> ProgramResult {
        try await Program.run(
            Program.built("token-forge"),
            [
                "google-mint", directory, "--merchant-identifier", "BCR2DN4TEXAMPLE", "--public-key",
                merchantKey.publicKey.x963Representation.base64EncodedString(),
            ] + more)
    }

    private func authority(_ files: FreshDirectory) async throws -> String {
        let directory = files.path("forge")
        let made = try await Program.run(Program.built("token-forge"), ["google-authority", directory])
        #expect(made.status == 0, "\(made)")
        return directory
    }

    /// The members of each payment token's decrypted message.
    private func open(_ output: String) throws -> [[String: Any]] {
        try output.split(separator: "\n").map { line in
            let token = try object(Data(line.utf8))
            let message = try object(Data(try #require(token["signedMessage"] as? String).utf8))
            func bytes(_ name: String) throws -> [UInt8] {
                Array(try #require((message[name] as? String).flatMap { Data(base64Encoded: $0) }))
            }
            let plaintext = try GooglePaySealing.open(
                bytes("encryptedMessage"), tag: bytes("tag"), ephemeralPublicKey: bytes("ephemeralPublicKey"),
                with: merchantKey)
            return try object(Data(try #require(plaintext)))
        }
    }

    private func object(_ json: Data) throws -> [String: Any] {
        try #require(JSONSerialization.jsonObject(with: json) as? [String: Any])
    }

    @Test("mints several messages with each messageId, which expire a week after the given signing time")
    func severalWithOneMessageId() async throws {
        let files = try FreshDirectory()
        let directory = try await authority(files)
        let minted = try await mint(
            directory, ["--count", "4", "--per-message-id", "2", "--signing-time", "2026-01-31T12:00:00Z"])
        #expect(minted.status == 0, "\(minted)")
        #expect(Set(minted.output.split(separator: "\n")).count == 4)
        let messages = try open(minted.output)
        let identifiers = messages.map { $0["messageId"] as? String }
        #expect(identifiers[0] == identifiers[1])
        #expect(identifiers[2] == identifiers[3])
        #expect(Set(identifiers.compactMap(\.self)).count == 2)
        // 2026-02-07T12:00:00Z
        #expect(messages.allSatisfy { $0["messageExpiration"] as? String == "1770465600000" })
    }

    @Test("mints messages with different messageIds without end, until the reader closes the pipe")
    func endless() async throws {
        let files = try FreshDirectory()
        let directory = try await authority(files)
        let point = merchantKey.publicKey.x963Representation.base64EncodedString()
        let read = try await Program.run(
            Program.installed("bash"),
            [
                "-c",
                #"{ "$0" google-mint "$1" --merchant-identifier M --public-key "$2" --endless; echo "forge: $?" >&2; } | head -n 60"#,
                Program.built("token-forge"), directory, point,
            ])
        #expect(read.error == "forge: 0\n")
        #expect(Set(try open(read.output).compactMap { $0["messageId"] as? String }).count == 60)
    }

    @Test(
        "refuses a count that leaves a messageId with too few messages, and a time that is not RFC 3339",
        arguments: [
            (["--count", "3", "--per-message-id", "2"], "--per-message-id"),
            (["--endless", "--count", "2"], "--endless"), (["--signing-time", "today"], "--signing-time"),
        ])
    func usage(options: [String], named: String) async throws {
        let files = try FreshDirectory()
        let directory = try await authority(files)
        let refused = try await mint(directory, options)
        #expect(refused.status == 64)
        #expect(refused.error.contains(named))
    }

    @Test(
        "names the option for a public key that is no point, and the form that it expects",
        arguments: [
            ("", "base64 of 0 bytes"), ("BPhV", "base64 of 3 bytes"), ("9c1185a5…", "not base64"),
            (Data(repeating: 4, count: 65).base64EncodedString(), "not a point on P-256"),
            (P256.KeyAgreement.PrivateKey().publicKey.derRepresentation.base64EncodedString(), "base64 of 91 bytes"),
        ])
    func publicKey(text: String, found: String) async throws {
        let refused = try await Program.run(
            Program.built("token-forge"),
            ["google-mint", "nowhere", "--merchant-identifier", "BCR2DN4TEXAMPLE", "--public-key", text])
        #expect(refused.status == 64)
        #expect(refused.error.contains("--public-key"), "\(refused)")
        #expect(refused.error.contains("\(found); expected is base64 of the uncompressed point, 65 bytes"))
    }
}
