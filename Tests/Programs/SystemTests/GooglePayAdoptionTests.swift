import Crypto
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The adoption of Google Pay keys that pkcs11-tool made in the HSM token.
extension GooglePayDecryptionTests {
    private func tool(_ harness: DaemonHarness, _ arguments: [String]) async throws {
        let done = try await Program.run(
            Program.installed("pkcs11-tool"),
            [
                "--module", SoftHSM.libraryPath, "--token-label", "paytokend", "--login", "--pin", DaemonHarness.pin,
            ] + arguments, environment: ["SOFTHSM2_CONF": harness.directory.path("softhsm2.conf")])
        try #require(done.status == 0, "\(done)")
    }

    /// Makes a key pair in the HSM token without the daemon, and names it as the daemon does.
    private func foreignKey(
        _ harness: DaemonHarness, type: String = "EC:prime256v1"
    ) async throws -> (hash: String, point: [UInt8]) {
        let file = harness.directory.path("foreign.der")
        try await tool(
            harness,
            ["--keypairgen", "--key-type", type, "--sensitive", "--private", "--usage-derive", "--id", "01"])
        try await tool(harness, ["--read-object", "--type", "pubkey", "--id", "01", "--output-file", file])
        let publicKey = try Data(contentsOf: URL(filePath: file))
        let hash = Array(SHA256.hash(data: publicKey)).hexadecimal
        for type in ["privkey", "pubkey"] { try await tool(harness, ["--set-id", hash, "--id", "01", "--type", type]) }
        return (hash, Array(publicKey.suffix(65)))
    }

    private static func adopting(_ hash: String, _ more: [String] = []) -> [String] {
        [
            "key", "adopt", hash, "--wallet", "google-pay", "--reason", "made by its tool", "--merchant-identifier",
        ] + (more.first?.hasPrefix("-") == false ? more : [merchant] + more)
    }

    @Test("adopts a key that another program made, knows it after a restart, and opens messages once it was added")
    func adopted() async throws {
        let harness = try await daemon()
        #expect(try await harness.stop().status == 0)
        let made = try await foreignKey(harness)
        let rsa = try await foreignKey(harness, type: "rsa:2048")
        try await harness.start()
        let apple = try await harness.paytokenctl(["key", "adopt", made.hash, "--reason", "r"])
        #expect(apple.status == 1 && apple.error.contains("no certificate in the HSM token"), "\(apple)")
        let otherKind = try await harness.paytokenctl(Self.adopting(rsa.hash))
        #expect(otherKind.status == 1 && otherKind.error.contains("not EC on P-256 with CKA_DERIVE"), "\(otherKind)")
        let otherCompany = try await harness.paytokenctl(Self.adopting(made.hash, ["merchant.com.example"]))
        #expect(otherCompany.status == 1 && otherCompany.error.contains("identifier at Google"), "\(otherCompany)")
        for members in [
            #""use":"google-pay""#, "\"use\":\"processing\",\"merchantIdentifier\":\"\(Self.merchant)\"",
            "\"merchantIdentifier\":\"\(Self.merchant)\"", #""approval":"0a1b2c3d4e5f6071""#,
        ] {
            let body = Array(#"{"reason":"r",\#(members)}"#.utf8)
            let answer = try await harness.admin("/v1/keys/\(made.hash)/adopt", body: body)
            #expect(answer.status == 400 && answer.code == "malformed_request", "\(answer)")
        }
        let dry = try await harness.paytokenctl(Self.adopting(made.hash, ["--dry-run", "--output", "json"]))
        #expect(dry.status == 0 && dry.output.contains(#""state":"pre-activation""#), "\(dry)")
        let early = try message(to: made.point, messageId: "early")
        #expect(try await decrypt(early.json, harness).code == "unknown_public_key_hash")

        let done = try await harness.paytokenctl(Self.adopting(made.hash, ["--output", "json"]))
        #expect(done.status == 0, "\(done)")
        let shown = try JSONValue(parsing: done.outputBytes)
        #expect(shown.string("use") == "google-pay" && shown.string("state") == "pre-activation")
        #expect(shown.string("merchantIdentifier") == Self.merchant && shown.string("condition") == "served")
        #expect(try await decrypt(early.json, harness).code == "key_not_active")
        let again = try await harness.paytokenctl(Self.adopting(made.hash, ["BCR2OTHER"]))
        #expect(again.status == 1 && again.error.contains("this one is served"), "\(again)")
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        try await activate(made.hash, harness)
        let paid = try message(to: made.point, messageId: "one")
        let opened = try await decrypt(paid.json, harness)
        #expect(opened.status == 200, "\(opened)")
        #expect(opened.member("paymentData") == (try JSONValue(parsing: paid.plaintext)))
        let records = try await harness.paytokenctl(["audit", "list", "--key", made.hash, "--output", "json"])
        let adoption = try #require(
            JSONValue(parsing: records.outputBytes).arrayValue?.last {
                $0.string("event") == "key_adopt" && $0.string("outcome") == "ok"
            })
        #expect(adoption.string("wallet") == "google-pay" && adoption.string("merchant") == Self.merchant)
        let verified = try await harness.paytokenctl(["audit", "verify"])
        #expect(verified.status == 0, "\(verified)")
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "adopts a key with two people, for the merchant that both saw",
        .everyEngine, .enabled(Staff.needsRoot) { try await Staff.canAct() })
    func adoptedByTwo() async throws {
        let daemon = try await StaffedDaemon(Staff.configuration())
        let harness = daemon.harness
        #expect(try await harness.stop().status == 0)
        let made = try await foreignKey(harness)
        try await harness.start()
        let approval = try await daemon.ask(.alice, Self.adopting(made.hash))
        let listed = try await daemon.run(.bob, "approval", "list")
        #expect(listed.output.contains("key_adopt_google_pay"), "\(listed)")
        #expect(
            listed.output.contains("Google Pay key adoption for \(Self.merchant): made by its tool"), "\(listed)")
        let alone = try await daemon.run(.alice, "approval", "approve", approval)
        #expect(alone.status == 1 && alone.error.contains("a second person must"), "\(alone)")
        func adopt(_ staff: Staff, _ more: [String]) async throws -> ProgramResult {
            try await harness.paytokenctl(Self.adopting(made.hash, more), as: staff.identity)
        }
        let early = try await adopt(.alice, ["--approval", approval])
        #expect(early.status == 1 && early.error.contains("not approved yet"), "\(early)")
        let approved = try await daemon.run(.bob, "approval", "approve", approval)
        #expect(approved.status == 0, "\(approved)")
        #expect(approved.output.contains("repeats the same key adopt with --approval \(approval)"), "\(approved)")
        let waiting = try await harness.paytokenctl(["key", "show", made.hash, "--output", "json"])
        #expect(try JSONValue(parsing: waiting.outputBytes).string("condition") == "external")
        let other = try await adopt(.alice, ["BCR2OTHER", "--approval", approval])
        #expect(other.status == 1 && other.error.hasPrefix("approval_invalid"), "\(other)")
        let another = try await adopt(.bob, ["--approval", approval])
        #expect(another.status == 1 && another.error.hasPrefix("approval_invalid"), "\(another)")
        let done = try await adopt(.alice, ["--approval", approval, "--output", "json"])
        #expect(done.status == 0, "\(done)")
        let shown = try JSONValue(parsing: done.outputBytes)
        #expect(shown.string("merchantIdentifier") == Self.merchant && shown.string("state") == "pre-activation")
        #expect(try await daemon.isIntact())
        #expect(try await harness.stop().status == 0)
    }
}
