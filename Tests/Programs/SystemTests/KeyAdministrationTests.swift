import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Import and listing of keys with paytokenctl and a running daemon.
@Suite(.everyEngine) struct KeyAdministrationTests {
    /// A daemon without keys. Each test imports the keys of different merchants.
    private static let started = OncePerLedger { try await DaemonHarness() }

    private func merchant(
        _ name: String, type: ForgeKeyType = .p256, kind: ForgedCertificateKind = .paymentProcessing,
        change: (inout MerchantCertificateProfile) -> Void = { _ in }
    ) throws -> ForgedMerchant {
        var profile = MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.\(name)", kind: kind)
        change(&profile)
        return try ForgedMerchant(authority: SharedForge.authority, type: type, profile: profile)
    }

    private func keys(_ harness: DaemonHarness) async throws -> [JSONObject] {
        let list = try await harness.paytokenctl(["key", "list", "--output", "json"])
        #expect(list.status == 0, "\(list)")
        return try (JSONValue(parsing: list.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
    }

    @Test("lists and shows an imported key with all members of the contract, and counts its uses")
    func listedImport() async throws {
        let harness = try await Self.started.value
        let merchant = try merchant("listed")
        let imported = try await harness.importMerchant(merchant)
        #expect(imported.status == 0, "\(imported)")
        let hash = Data(merchant.merchant.publicKeyHash).base64EncodedString()
        for _ in 0..<2 {
            let paymentToken = try SharedForge.paymentToken(for: merchant.merchant)
            #expect(try await harness.decrypt(paymentToken).status == 200)
        }
        let entry = try #require(try await keys(harness).first { $0["publicKeyHash"]?.stringValue == hash })
        #expect(entry["merchantIdentifier"]?.stringValue == "merchant.com.example.listed")
        #expect(entry["algorithm"]?.stringValue == "EC")
        #expect(entry["state"]?.stringValue == "active")
        #expect(entry["tier"]?.stringValue == "C")
        #expect(entry["uses"]?.numberValue?.int == 2)
        #expect((750...760).contains(entry["daysLeft"]?.numberValue?.int ?? 0))
        #expect(entry["lastUse"]?.stringValue != nil && entry["notAfter"]?.stringValue != nil)
        let hex = merchant.merchant.publicKeyHash.hexadecimal
        for key in [hash, hex, String(hex.prefix(10))] {
            let shown = try await harness.paytokenctl(["key", "show", key, "--output", "json"])
            #expect(shown.status == 0, "\(shown)")
            #expect(try JSONValue(parsing: shown.outputBytes).objectValue?["publicKeyHash"]?.stringValue == hash)
        }
        let absent = try await harness.paytokenctl(["key", "show", "0123456789abcdef"])
        #expect(absent.status == 1 && absent.error.contains("key_not_found"), "\(absent)")
    }

    @Test("imports a key and a certificate in DER")
    func filesInDER() async throws {
        let harness = try await Self.started.value
        let merchant = try merchant("der", type: .rsa2048)
        let files = try FreshDirectory()
        try merchant.write(to: files.url, prefix: "m")
        let imported = try await harness.paytokenctl([
            "key", "import", "--private-key", files.path("m.key.der"), "--certificate", files.path("m.der"),
            "--merchant-identifier", "merchant.com.example.der",
        ])
        #expect(imported.status == 0, "\(imported)")
        let paymentToken = try SharedForge.paymentToken(for: merchant.merchant)
        #expect(try await harness.decrypt(paymentToken).status == 200)
    }

    @Test("imports a merchant identifier that makes the common name longer than 64 characters")
    func longIdentifier() async throws {
        let harness = try await Self.started.value
        let merchant = try merchant(String(repeating: "long.", count: 12) + "shop")
        let imported = try await harness.importMerchant(merchant)
        #expect(imported.status == 0, "\(imported)")
        let paymentToken = try SharedForge.paymentToken(for: merchant.merchant)
        let answer = try await harness.decrypt(paymentToken)
        #expect(answer.string("merchantIdentifier") == merchant.merchant.identifier, "\(answer)")
    }

    @Test("refuses an unsuitable certificate, names the reason, and leaves no key")
    func unsuitable() async throws {
        let harness = try await Self.started.value
        let cases: [(name: String, merchant: ForgedMerchant, says: [String])] = [
            ("identity", try merchant("identity", kind: .merchantIdentity), ["Merchant Identity"]),
            (
                "expired",
                try merchant("expired") {
                    $0 = MerchantCertificateProfile(merchantIdentifier: $0.merchantIdentifier, expired: true)
                }, ["expired"]
            ),
            (
                "anonymous", try merchant("anonymous") { ($0.omitsUserID, $0.omitsExtension) = (true, true) },
                ["merchant identifier"]
            ),
            (
                "disagreeing",
                try merchant("disagreeing") { $0.extensionMerchantIdentifier = "merchant.com.example.x" }, []
            ),
        ]
        for (name, merchant, says) in cases {
            let result = try await harness.importMerchant(merchant)
            #expect(result.status == 1, "\(name): \(result)")
            #expect(result.error.contains("certificate_unsuitable"), "\(name): \(result)")
            for text in says { #expect(result.error.localizedCaseInsensitiveContains(text), "\(name): \(result)") }
            let paymentToken = try SharedForge.paymentToken(for: merchant.merchant)
            #expect(try await harness.decrypt(paymentToken).code == "unknown_public_key_hash", "\(name)")
        }
        // With --allow-expired, the command imports an expired certificate.
        #expect(try await harness.importMerchant(cases[1].merchant, ["--allow-expired"]).status == 0)
        let paymentToken = try SharedForge.paymentToken(for: cases[1].merchant.merchant)
        #expect(try await harness.decrypt(paymentToken).status == 200)
    }

    @Test("refuses a certificate of another key, and the name of another merchant")
    func mismatched() async throws {
        let harness = try await Self.started.value
        let one = try merchant("one")
        let other = try merchant("other")
        let files = try FreshDirectory()
        try one.write(to: files.url, prefix: "one")
        try other.write(to: files.url, prefix: "other")
        for arguments in [[], ["--dry-run"]] {
            let crossed = try await harness.paytokenctl(
                ["key", "import", "--private-key", files.path("one.key.pem"), "--certificate", files.path("other.pem")]
                    + arguments)
            #expect(crossed.status == 1 && crossed.error.hasPrefix("certificate_unsuitable"), "\(crossed)")
        }
        let misnamed = try await harness.importMerchant(one, ["--merchant-identifier", "merchant.com.example.other"])
        #expect(misnamed.status != 0, "\(misnamed)")
        let paymentToken = try SharedForge.paymentToken(for: one.merchant)
        #expect(try await harness.decrypt(paymentToken).code == "unknown_public_key_hash")
    }

    @Test("imports nothing with --dry-run, accepts a repeated import, and keeps keys across a restart")
    func dryRunAndRestart() async throws {
        let harness = try await DaemonHarness()
        let merchant = try SharedForge.ecMerchant
        func paymentToken() throws -> MintedToken { try SharedForge.paymentToken(for: merchant.merchant) }
        #expect(try await harness.importMerchant(merchant, ["--dry-run"]).status == 0)
        #expect(try await harness.decrypt(paymentToken()).code == "unknown_public_key_hash")
        #expect(try await harness.importMerchant(merchant).status == 0)
        _ = try await harness.importMerchant(merchant)
        #expect(try await keys(harness).count == 1)
        #expect(try await harness.decrypt(paymentToken()).status == 200)
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        #expect(try await keys(harness).count == 1)
        #expect(try await harness.decrypt(paymentToken()).status == 200)
        #expect(try await harness.stop().status == 0)
    }

    @Test("imports a renewed certificate for an existing key without its private key")
    func certificateAlone() async throws {
        let harness = try await Self.started.value
        let first = try merchant("renewed") {
            $0 = MerchantCertificateProfile(merchantIdentifier: $0.merchantIdentifier, expired: true)
        }
        #expect(try await harness.importMerchant(first, ["--allow-expired"]).status == 0)
        let renewed = try SharedForge.authority.merchantCertificate(
            subjectPublicKeyInfo: first.key.subjectPublicKeyInfo,
            profile: MerchantCertificateProfile(merchantIdentifier: first.merchant.identifier))
        let files = try FreshDirectory()
        try files.write(ForgePEM.text(renewed, label: "CERTIFICATE"), to: "renewed.pem")
        let result = try await harness.paytokenctl(["certificate", "import", files.path("renewed.pem")])
        #expect(result.status == 0, "\(result)")
        let hash = Data(first.merchant.publicKeyHash).base64EncodedString()
        let entry = try #require(try await keys(harness).first { $0["publicKeyHash"]?.stringValue == hash })
        #expect((entry["daysLeft"]?.numberValue?.int ?? 0) > 700)
        // The daemon refuses a certificate for a key that no HSM token holds.
        let outsider = try merchant("nobody")
        try files.write(ForgePEM.text(outsider.certificate, label: "CERTIFICATE"), to: "outsider.pem")
        let refused = try await harness.paytokenctl(["certificate", "import", files.path("outsider.pem")])
        #expect(refused.status == 1 && refused.error.contains("key_not_found"), "\(refused)")
    }

    @Test("masks the output of decrypt without --reveal, and shows the certificate chain with verify")
    func decryptAndVerify() async throws {
        let harness = try await SharedDaemon.harness
        let files = try FreshDirectory()
        var payload = PayloadRecipe()
        payload.accountNumber = "5204245250001488"
        let recipe = TokenRecipe(merchant: try SharedForge.ecMerchant.merchant, payload: payload.json)
        let paymentToken = try SharedForge.mint.mint(recipe)
        try files.write(paymentToken.paymentToken, to: "token.json")
        let verified = try await harness.paytokenctl(["verify", files.path("token.json")])
        #expect(verified.status == 0 && verified.output.contains("Forge Root CA - G3"), "\(verified)")
        let masked = try await harness.paytokenctl(
            ["decrypt", "-", "--reference", "r", "--expect-amount", "1099", "--expect-currency", "840"],
            input: paymentToken.paymentToken)
        #expect(masked.status == 0, "\(masked)")
        #expect(masked.output.contains("1488"))
        for secret in payload.secrets { #expect(!masked.output.contains(secret) && !masked.error.contains(secret)) }
        let revealed = try await harness.paytokenctl(
            ["decrypt", files.path("token.json"), "--reference", "r", "--reveal", "--output", "json"])
        #expect(revealed.status == 0 && revealed.outputBytes.holds(paymentToken.plaintext), "\(revealed)")
        let replayed = try await harness.paytokenctl(["decrypt", files.path("token.json")])
        #expect(replayed.status == 1 && replayed.error.contains("transaction_replayed"), "\(replayed)")
    }
}
