import Crypto
import Foundation
import GRDB
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The import of existing Google Pay keys, which have no certificate.
extension GooglePayDecryptionTests {
    private static func importing(_ files: FreshDirectory, _ more: [String] = []) -> [String] {
        [
            "key", "import", "--wallet", "google-pay", "--private-key", files.path("AuthKey_2X9R4HXF34.p8"),
            "--merchant-identifier",
        ] + (more.first?.hasPrefix("-") == false ? more : [merchant] + more)
    }

    @Test(
        "imports a key with two people for the merchant that both saw, and opens messages to it",
        .everyEngine, .enabled(Staff.needsRoot) { try await Staff.canAct() })
    func importedByTwo() async throws {
        var configuration = Staff.configuration([
            "{ name: shop, user: \"1\", roles: [decrypt], wallets: [google-pay], google_pay: { merchants: [\(Self.merchant)] } }"
        ])
        configuration.googlePay = "google.json"
        let harness = try await DaemonHarness(prepared: configuration)
        try harness.directory.write(forge.rootKeys(expiration: nextWeek), to: "google.json")
        try FileManager.default.setAttributes([.posixPermissions: 0o711], ofItemAtPath: harness.directory.path)
        try await harness.start()
        func alice(_ arguments: [String]) async throws -> ProgramResult {
            try await harness.paytokenctl(arguments, as: Staff.alice.identity)
        }
        let key = P256.Signing.PrivateKey()
        let hash = Data(SHA256.hash(data: key.publicKey.derRepresentation)).base64EncodedString()
        let files = try await ServiceKeyTests.file(key, for: .alice)
        let asked = try await alice(Self.importing(files))
        #expect(asked.status == 75, "\(asked)")
        let words = asked.error.split(whereSeparator: \.isWhitespace).map(String.init)
        let place = try #require(words.firstIndex(of: "approve"), "\(asked)")
        let approval = try #require(words.dropFirst(place + 1).first)
        let listed = try await harness.paytokenctl(["approval", "list"], as: Staff.bob.identity)
        #expect(listed.output.contains("Google Pay key import for \(Self.merchant) into primary"), "\(listed)")
        let alone = try await alice(["approval", "approve", approval])
        #expect(alone.status == 1 && alone.error.contains("a second person must"), "\(alone)")
        let approved = try await harness.paytokenctl(["approval", "approve", approval], as: Staff.bob.identity)
        #expect(approved.status == 0, "\(approved)")
        // The approval is for this merchant.
        let other = try await alice(Self.importing(files, ["BCR2OTHER", "--approval", approval]))
        #expect(other.status == 1 && other.error.hasPrefix("approval_invalid"), "\(other)")
        let done = try await alice(Self.importing(files, ["--approval", approval, "--output", "json"]))
        #expect(done.status == 0, "\(done)")
        let shown = try #require(JSONValue(parsing: done.outputBytes).objectValue)
        #expect(shown["publicKeyHash"]?.stringValue == hash && shown["use"]?.stringValue == "google-pay")
        #expect(
            shown["merchantIdentifier"]?.stringValue == Self.merchant && shown["state"]?.stringValue == "pre-activation"
        )
        #expect(shown["condition"]?.stringValue == "served" && shown["tier"]?.stringValue == "C")
        let printed = try await harness.paytokenctl(["key", "public-key", hash])
        #expect(
            printed.output.trimmingCharacters(in: .newlines)
                == key.publicKey.x963Representation.base64EncodedString(), "\(printed)")
        let certified = try await harness.paytokenctl(["audit", "list", "--key", hash, "--output", "json"])
        let records = try JSONValue(parsing: certified.outputBytes).arrayValue ?? []
        #expect(records.contains { $0.string("event") == "key_import" && $0.string("merchant") == Self.merchant })
        #expect(try await harness.stop().status == 0)
    }

    @Test("opens messages to an imported key, refuses it for Apple Pay's merchants, and makes no second wallet of it")
    func imported() async throws {
        let harness = try await daemon()
        let key = P256.Signing.PrivateKey()
        let files = try await ServiceKeyTests.file(key)
        let apple = try await harness.paytokenctl(Self.importing(files, ["merchant.com.example"]))
        #expect(apple.status == 1 && apple.error.contains("identifier at Google"), "\(apple)")
        let dry = try await harness.paytokenctl(Self.importing(files, [Self.merchant, "--dry-run"]))
        #expect(dry.status == 0, "\(dry)")
        let done = try await harness.paytokenctl(Self.importing(files, ["--output", "json"]))
        #expect(done.status == 0, "\(done)")
        let hash = try JSONValue(parsing: done.outputBytes).string("publicKeyHash") ?? ""
        let early = try message(to: Array(key.publicKey.x963Representation), messageId: "early")
        #expect(try await decrypt(early.json, harness).code == "key_not_active")
        try await activate(hash, harness)
        let paid = try message(to: Array(key.publicKey.x963Representation), messageId: "one")
        let opened = try await decrypt(paid.json, harness)
        #expect(opened.status == 200, "\(opened)")
        #expect(opened.member("paymentData") == (try JSONValue(parsing: paid.plaintext)))
        let moved = try await harness.paytokenctl(Self.importing(files, ["BCR2OTHER"]))
        #expect(moved.status == 1 && moved.error.contains("another merchant"), "\(moved)")
        // Another host imports the same file later.
        let again = try await harness.paytokenctl(Self.importing(files, ["--output", "json"]))
        #expect(again.status == 0 && again.output.contains("\"state\":\"active\""), "\(again)")
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        let late = try message(to: Array(key.publicKey.x963Representation), messageId: "two")
        #expect(try await decrypt(late.json, harness).status == 200)
        #expect(try await harness.stop().status == 0)
    }

    @Test("leaves no key in the HSM token that the ledger refuses, and takes one file from two commands at once")
    func refusedByLedger() async throws {
        let harness = try await daemon()
        let files = try await ServiceKeyTests.file(P256.Signing.PrivateKey())
        let ledger = try DatabaseQueue(path: harness.directory.path("ledger.sqlite"))
        try await ledger.write {
            try $0.execute(
                sql: "CREATE TRIGGER refuse BEFORE INSERT ON merchant_key BEGIN SELECT RAISE(ABORT, 'refused'); END")
        }
        let refused = try await harness.paytokenctl(Self.importing(files))
        #expect(refused.status != 0 && !refused.error.contains("pkcs11-tool"), "\(refused)")
        try await ledger.write { try $0.execute(sql: "DROP TRIGGER refuse") }
        try ledger.close()
        // The next worker lists what the HSM token has.
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        let listed = try await harness.paytokenctl(["key", "list", "--output", "json"])
        #expect(listed.output == "[]\n", "\(listed)")
        async let first = harness.paytokenctl(Self.importing(files))
        async let second = harness.paytokenctl(Self.importing(files))
        for done in [try await first, try await second] {
            #expect(done.status == 0 && done.output.contains("google-pay"), "\(done)")
        }
        let keys = try await harness.paytokenctl(["key", "list", "--output", "json"])
        let conditions = try (JSONValue(parsing: keys.outputBytes).arrayValue ?? []).map { $0.string("condition") }
        #expect(conditions == ["served"])
        #expect(try await harness.stop().status == 0)
    }
}
