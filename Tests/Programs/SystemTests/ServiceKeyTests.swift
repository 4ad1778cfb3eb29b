import Crypto
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The import of the key of Apple's App Store Connect API with the real programs: two people, and no certificate.
@Suite struct ServiceKeyTests {
    static let renewal = ["issuer: 57246542-96fe-1a63-e053-0824d011072a", "key_id: 2X9R4HXF34"]

    /// Writes a key as App Store Connect offers it for download.
    static func file(_ key: P256.Signing.PrivateKey, for staff: Staff? = nil) async throws -> FreshDirectory {
        let files = try FreshDirectory()
        let path = try files.write(key.pemRepresentation + "\n", to: "AuthKey_2X9R4HXF34.p8")
        guard let staff else { return files }
        for name in [files.path, path] { #expect(unsafe chown(name, staff.rawValue, staff.rawValue) == 0) }
        return files
    }

    private static func importing(_ files: FreshDirectory, _ more: [String] = []) -> [String] {
        ["key", "import", "--use", "service", "--private-key", files.path("AuthKey_2X9R4HXF34.p8")] + more
    }

    @Test(
        "imports a service key with two people, under the configured key id, and serves no payment and no request with it",
        .everyEngine, .enabled(Staff.needsRoot) { try await Staff.canAct() })
    func twoPeople() async throws {
        var configuration = Staff.configuration()
        configuration.renewal = Self.renewal
        let daemon = try await StaffedDaemon(configuration)
        let harness = daemon.harness
        let key = P256.Signing.PrivateKey()
        let hash = Data(SHA256.hash(data: key.publicKey.derRepresentation)).base64EncodedString()
        let files = try await Self.file(key, for: .alice)
        let approval = try await daemon.ask(.alice, Self.importing(files))
        let approved = try await harness.paytokenctl(["approval", "approve", approval], as: Staff.bob.identity)
        #expect(approved.status == 0, "\(approved)")
        let other = try await Self.file(P256.Signing.PrivateKey(), for: .alice)
        let substituted = try await harness.paytokenctl(
            Self.importing(other, ["--approval", approval]), as: Staff.alice.identity)
        #expect(substituted.status == 1 && substituted.error.hasPrefix("approval_invalid"), "\(substituted)")
        let done = try await harness.paytokenctl(
            Self.importing(files, ["--approval", approval, "--output", "json"]), as: Staff.alice.identity)
        #expect(done.status == 0, "\(done)")
        let shown = try #require(JSONValue(parsing: done.outputBytes).objectValue)
        #expect(shown["publicKeyHash"]?.stringValue == hash && shown["use"]?.stringValue == "service")
        #expect(shown["merchantIdentifier"]?.stringValue == "2X9R4HXF34" && shown["state"]?.stringValue == "active")
        #expect(shown["condition"]?.stringValue == "served" && shown["remark"]?.isNull == true)
        #expect(shown["notAfter"]?.isNull == true && shown["tier"]?.isNull == true)

        let request = try await harness.paytokenctl(["csr", "create", hash])
        #expect(request.status == 1 && request.error.contains("invalid_state"), "\(request)")
        let rotation = try await harness.paytokenctl(["rotate", "status", "2X9R4HXF34"])
        #expect(rotation.status == 1 && rotation.error.contains("key_not_found"), "\(rotation)")
        let record = try await harness.paytokenctl(["audit", "list", "--key", hash, "--output", "json"])
        let events = try (JSONValue(parsing: record.outputBytes).arrayValue ?? []).compactMap { $0.string("event") }
        #expect(events.contains("key_import") && events.contains("approval_request"), "\(events)")
    }

    @Test("refuses a second active service key under the key id, and any where the configuration names none")
    func refused() async throws {
        var configuration = DaemonConfiguration()
        configuration.renewal = Self.renewal
        let harness = try await DaemonHarness(configuration)
        let files = [
            try await Self.file(P256.Signing.PrivateKey()), try await Self.file(P256.Signing.PrivateKey()),
        ]
        let first = try await harness.paytokenctl(Self.importing(files[0]))
        #expect(first.status == 0, "\(first)")
        let second = try await harness.paytokenctl(Self.importing(files[1]))
        #expect(second.status == 1 && second.error.contains("Another service key is active"), "\(second)")

        let unnamed = try await DaemonHarness()
        let none = try await unnamed.paytokenctl(Self.importing(files[1]))
        #expect(none.status == 1 && none.error.contains("renewal.key_id"), "\(none)")
    }
}
