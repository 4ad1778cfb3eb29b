import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Keys generated inside the HSM token with the real programs, from the certificate request to the first payment.
@Suite(.everyEngine) struct KeyGenerationTests {
    private static let started = OncePerLedger { try await DaemonHarness() }

    private static let authority = Result {
        let directory = try FreshDirectory()
        try SharedForge.authority.write(to: directory.url)
        return directory
    }

    /// Issues a merchant's certificate for a request with the forge's program, in place of Apple's portal.
    private func issue(
        _ request: String, _ merchant: String, out: String, _ arguments: [String] = []
    ) async throws {
        let made = try await Program.run(
            Program.built("token-forge"),
            ["certify", Self.authority.get().path, "--csr", request, "--merchant-identifier", merchant, "--out", out]
                + arguments)
        try #require(made.status == 0, "\(made)")
    }

    /// Issues a certificate, and returns the recipient for payment tokens.
    private func certify(_ request: String, _ merchant: String, out: String) async throws -> Merchant {
        try await issue(request, merchant, out: out)
        return try Merchant(certificate: Array(Data(contentsOf: URL(filePath: out))))
    }

    private func object(_ result: ProgramResult) throws -> JSONObject {
        try #require(result.status == 0, "\(result)")
        return try #require(try JSONValue(parsing: result.outputBytes).objectValue)
    }

    @Test(
        "decrypts the first payment with a generated key after it was certified by its request",
        arguments: ["ec", "rsa"])
    func fromRequestToPayment(type: String) async throws {
        let harness = try await Self.started.value
        let files = try FreshDirectory()
        let name = "merchant.com.example.generated.\(type)"
        let dry = try await harness.paytokenctl([
            "key", "generate", "--merchant-identifier", name, "--type", type, "--dry-run", "--output", "json",
        ])
        #expect(try object(dry)["token"]?.stringValue == "primary")
        let key = try object(
            try await harness.paytokenctl([
                "key", "generate", "--merchant-identifier", name, "--type", type, "--output", "json",
            ]))
        #expect(key["state"]?.stringValue == "pre-activation")
        #expect(key["merchantIdentifier"]?.stringValue == name)
        #expect(key["algorithm"]?.stringValue == type.uppercased())
        #expect(key["condition"]?.stringValue == "served" && key["notAfter"]?.isNull == true)
        let hash = try #require(key["publicKeyHash"]?.stringValue)
        // The dry run made no key.
        let list = try await harness.paytokenctl(["key", "list", "--output", "json"])
        let mine = try (JSONValue(parsing: list.outputBytes).arrayValue ?? [])
            .filter { $0.string("merchantIdentifier") == name }
        #expect(mine.count == 1)

        let request = files.path("new.certSigningRequest")
        let made = try await harness.paytokenctl(["csr", "create", hash, "--out", request])
        #expect(made.status == 0, "\(made)")
        let read = try await Program.run(
            Program.installed("openssl"), ["req", "-verify", "-noout", "-text", "-in", request])
        #expect(read.status == 0 && (read.output + read.error).contains("verify OK"), "\(read)")
        #expect(read.output.contains("CN = \(name)") || read.output.contains("CN=\(name)"), "\(read)")
        let signature = type == "ec" ? "ecdsa-with-SHA256" : "sha256WithRSAEncryption"
        #expect(read.output.contains(signature), "\(read)")
        #expect(read.output.contains(type == "ec" ? "prime256v1" : "(2048 bit)"), "\(read)")
        // Apple's portal accepts only PKCS#10 in PEM.
        let text = try String(contentsOfFile: request, encoding: .utf8)
        #expect(text.hasPrefix("-----BEGIN CERTIFICATE REQUEST-----\n"))
        #expect(text.hasSuffix("-----END CERTIFICATE REQUEST-----\n"))

        let merchant = try await certify(request, name, out: files.path("apple_pay.cer"))
        let paymentToken = try SharedForge.paymentToken(for: merchant)
        #expect(try await harness.decrypt(paymentToken).code == "key_not_active")
        let imported = try await harness.paytokenctl([
            "certificate", "import", files.path("apple_pay.cer"), "--output", "json",
        ])
        #expect(try object(imported)["state"]?.stringValue == "active")
        let answer = try await harness.decrypt(paymentToken)
        #expect(answer.status == 200 && answer.string("publicKeyHash") == hash, "\(answer)")

        let record = try await harness.paytokenctl(["audit", "list", "--key", hash, "--output", "json"])
        let events = try (JSONValue(parsing: record.outputBytes).arrayValue ?? []).compactMap { $0.string("event") }
        for event in ["key_generate", "csr_create", "certificate_import", "decrypt"] {
            #expect(events.contains(event), "\(events)")
        }
    }

    @Test("refuses each wrong certificate for a generated key with the reason, and accepts the right one")
    func wrongCertificates() async throws {
        let harness = try await Self.started.value
        let files = try FreshDirectory()
        let name = "merchant.com.example.wrong"
        let key = try object(
            try await harness.paytokenctl(["key", "generate", "--merchant-identifier", name, "--output", "json"]))
        let hash = try #require(key["publicKeyHash"]?.stringValue)
        let request = files.path("r.csr")
        #expect(try await harness.paytokenctl(["csr", "create", hash, "--out", request]).status == 0)
        let cases: [(merchant: String, arguments: [String], says: String)] = [
            (name, ["--kind", "merchant-identity"], "Merchant Identity"),
            (name, ["--expired"], "has expired"),
            ("merchant.com.example.other", [], "belongs to another merchant"),
        ]
        for (number, wrong) in cases.enumerated() {
            let file = files.path("\(number).cer")
            try await issue(request, wrong.merchant, out: file, wrong.arguments)
            for command in [["certificate", "import", file], ["rotate", "import", file]] {
                let result = try await harness.paytokenctl(command)
                #expect(result.status == 1 && result.error.hasPrefix("certificate_unsuitable"), "\(result)")
                #expect(result.error.contains(wrong.says), "\(result)")
            }
        }
        // This certificate belongs to another key.
        let outsider = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256, profile: MerchantCertificateProfile(merchantIdentifier: name)
        )
        try outsider.write(to: files.url, prefix: "outsider")
        for command in ["certificate", "rotate"] {
            let result = try await harness.paytokenctl([command, "import", files.path("outsider.pem")])
            #expect(result.status == 1 && result.error.hasPrefix("key_not_found"), "\(result)")
        }
        let shown = try await harness.paytokenctl(["key", "show", hash, "--output", "json"])
        #expect(try object(shown)["state"]?.stringValue == "pre-activation")
        try await issue(request, name, out: files.path("right.p7b"))
        let right = try await harness.paytokenctl(["certificate", "import", files.path("right.p7b")])
        #expect(right.status == 0 && right.error.contains("signed by Forge Worldwide"), "\(right)")
    }

    @Test("refuses an invalid merchant identifier, key type or HSM token name, and makes no key")
    func refusals() async throws {
        let harness = try await Self.started.value
        let long = String(repeating: "m", count: 256)
        for (body, code) in [
            ("{\"merchantIdentifier\":\"\(long)\"}", "malformed_request"),
            ("{\"merchantIdentifier\":\"\"}", "malformed_request"),
            ("{\"merchantIdentifier\":\"a\\nb\"}", "malformed_request"),
            ("{\"merchantIdentifier\":\"m\",\"type\":\"P256\"}", "malformed_request"),
            ("{\"merchantIdentifier\":\"m\",\"token\":\"none\"}", "malformed_request"), ("{}", "malformed_request"),
        ] {
            let answer = try await harness.admin("/v1/keys", body: Array(body.utf8))
            #expect(answer.code == code, "\(body): \(answer)")
        }
        let mistyped = try await harness.admin(
            "/v1/keys?dryrun=true", body: Array("{\"merchantIdentifier\":\"m\"}".utf8))
        #expect(mistyped.code == "malformed_request", "\(mistyped)")
        let none = try await harness.paytokenctl(["csr", "create", "0123456789abcdef"])
        #expect(none.status == 1 && none.error.hasPrefix("key_not_found"), "\(none)")
        let list = try await harness.paytokenctl(["key", "list", "--output", "json"])
        #expect(
            try (JSONValue(parsing: list.outputBytes).arrayValue ?? [])
                .allSatisfy { $0.string("merchantIdentifier")?.hasPrefix("merchant.com.") == true })
    }

    @Test("requires the name of one of two HSM tokens, and generates the key only there")
    func twoTokens() async throws {
        var configuration = DaemonConfiguration()
        configuration.furtherHSMTokens = ["second"]
        let harness = try await DaemonHarness(configuration)
        try await wait(for: "both tokens to be open") {
            let hsmTokens = try await harness.admin("/v1/status").member("tokens")?.arrayValue ?? []
            return hsmTokens.allSatisfy { $0.string("condition") == "ready" }
        }
        let arguments = ["key", "generate", "--merchant-identifier", "merchant.com.example.two", "--output", "json"]
        let unnamed = try await harness.paytokenctl(arguments)
        #expect(unnamed.status == 1 && unnamed.error.contains("several HSM tokens (primary, second)"), "\(unnamed)")
        let key = try object(try await harness.paytokenctl(arguments + ["--token", "second"]))
        #expect(key["tokens"]?.arrayValue?.compactMap(\.stringValue) == ["second"])
        #expect(key["remark"]?.stringValue?.contains("in HSM token second only") == true)
        // A rotation generates the new key in the HSM token that holds the old one.
        let hash = try #require(key["publicKeyHash"]?.stringValue)
        let files = try FreshDirectory()
        #expect(try await harness.paytokenctl(["csr", "create", hash, "--out", files.path("r.csr")]).status == 0)
        let merchant = try await certify(files.path("r.csr"), "merchant.com.example.two", out: files.path("a.cer"))
        #expect(try await harness.paytokenctl(["rotate", "import", files.path("a.cer")]).status == 0)
        #expect(try await harness.decrypt(SharedForge.paymentToken(for: merchant)).status == 200)
        let next = try object(
            try await harness.paytokenctl(["rotate", "start", "merchant.com.example.two", "--output", "json"]))
        #expect(
            next["rotation"]?.objectValue?["newKey"]?.objectValue?["tokens"]?.arrayValue?.compactMap(\.stringValue)
                == ["second"])
        let elsewhere = try await harness.paytokenctl([
            "rotate", "start", "merchant.com.example.two", "--token", "primary",
        ])
        #expect(elsewhere.status == 1 && elsewhere.error.hasPrefix("invalid_state"), "\(elsewhere)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("keeps a generated key without a certificate across a restart, and makes its request again")
    func restart() async throws {
        let harness = try await DaemonHarness()
        let key = try object(
            try await harness.paytokenctl([
                "key", "generate", "--merchant-identifier", "merchant.com.example.later", "--output", "json",
            ]))
        let hash = try #require(key["publicKeyHash"]?.stringValue)
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        let files = try FreshDirectory()
        let request = try await harness.paytokenctl(["rotate", "start", "merchant.com.example.later"])
        #expect(request.status == 0 && request.error.contains("No key was made"), "\(request)")
        try files.write(request.outputBytes, to: "r.csr")
        let merchant = try await certify(files.path("r.csr"), "merchant.com.example.later", out: files.path("a.cer"))
        #expect(Data(merchant.publicKeyHash).base64EncodedString() == hash)
        #expect(try await harness.stop().status == 0)
    }
}
