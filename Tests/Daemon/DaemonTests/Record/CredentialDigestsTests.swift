import AuditChain
import Foundation
import TestSupport
import Testing

@testable import DaemonConfiguration

@Suite("Keyed digests of PINs and the database password")
struct CredentialDigestsTests {
    private let directory: FreshDirectory

    init() throws {
        directory = try FreshDirectory()
        for (file, secret) in [("pin", "1234"), ("other", "1234"), ("password", "correct horse")] {
            try directory.write("\(secret)\n", to: file)
        }
    }

    private func digests(in folder: String = "") -> [String: AuditDigest] {
        CredentialDigests(
            of: ["a.pin_digest": directory.path("pin"), "b.pin_digest": directory.path("other"), "c": "/nonexistent"],
            keyIn: directory.path(folder)
        ).values
    }

    @Test("stay equal until a secret changes, differ between equal secrets, and are no digests without the key")
    func changes() throws {
        let first = digests()
        #expect(Set(first.keys) == ["a.pin_digest", "b.pin_digest", "credentials.key"])
        #expect(first["a.pin_digest"] != first["b.pin_digest"] && digests() == first)
        for guess in ["1234", "1234\n", "\u{C}a.pin_digest1234"] {
            #expect(!first.values.contains(.of(Array(guess.utf8))))
        }
        try directory.write("4321\n", to: "pin")
        let second = digests()
        #expect(second["a.pin_digest"] != first["a.pin_digest"])
        #expect(
            second["b.pin_digest"] == first["b.pin_digest"] && second["credentials.key"] == first["credentials.key"])
    }

    @Test("have a key that only the daemon's user can read, and another one if its file is lost or damaged")
    func key() throws {
        let first = digests()
        let path = directory.path("credential-digest-key")
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        for damage in ["", "0011\n"] {
            try Data(damage.utf8).write(to: URL(filePath: path))
            let next = digests()
            #expect(
                next["credentials.key"] != first["credentials.key"] && next["a.pin_digest"] != first["a.pin_digest"])
        }
    }

    @Test("are absent if the key's file cannot be made or read; a file that cannot be read is kept")
    func noKey() throws {
        #expect(digests(in: "nonexistent").isEmpty)
        let first = digests()
        let path = directory.path("credential-digest-key")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        #expect(digests().isEmpty)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        #expect(digests() == first)
    }

    @Test("are recorded with the configuration, and name no secret")
    func recorded() throws {
        let fixture = try ConfigurationFixture()
        var configuration = try fixture.load(
            ConfigurationFixture.minimum + "ledger: { url: \"sqlite:\(fixture.directory.path("ledger.sqlite"))\" }\n")
        #expect(configuration.recordedValues["tokens.primary.pin_digest"] == nil)
        configuration.readCredentials()
        let digest = try #require(configuration.recordedValues["tokens.primary.pin_digest"])
        #expect(AuditDigest(hex: digest) != nil && configuration.recordedValues["credentials.key"] != nil)
    }
}
