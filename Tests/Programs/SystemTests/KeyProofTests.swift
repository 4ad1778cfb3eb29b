import Crypto
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Proofs of keys with the real programs: the daemon has each HSM token that shows a key use it, and returns nothing of
/// the result.
@Suite(.everyEngine) struct KeyProofTests {
    private static let started = OncePerLedger { try await DaemonHarness() }

    private static let authority = Result {
        let directory = try FreshDirectory()
        try SharedForge.authority.write(to: directory.url)
        return directory
    }

    private func merchant(_ name: String, type: ForgeKeyType = .p256) throws -> ForgedMerchant {
        try ForgedMerchant(
            authority: SharedForge.authority, type: type,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.proof.\(name)"))
    }

    private func prove(
        _ key: String, _ harness: DaemonHarness, status: Int32 = 0
    ) async throws -> (answer: JSONObject, result: ProgramResult) {
        let result = try await harness.paytokenctl(["key", "prove", key, "--output", "json"])
        try #require(result.status == status, "\(result)")
        return (try #require(try JSONValue(parsing: result.outputBytes).objectValue), result)
    }

    /// Returns the proofs of a key in the record, the oldest first.
    private func recorded(_ key: String, _ harness: DaemonHarness) async throws -> [JSONObject] {
        let list = try await harness.paytokenctl([
            "audit", "list", "--key", key, "--limit", "1000", "--output", "json",
        ])
        return try (JSONValue(parsing: list.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
            .filter { $0["event"]?.stringValue == "key_proof" }
            .sorted { ($0["sequence"]?.numberValue?.int ?? 0) < ($1["sequence"]?.numberValue?.int ?? 0) }
    }

    private static func digest(_ certificate: [UInt8]) -> String { Array(SHA256.hash(data: certificate)).hexadecimal }

    private func items(_ answer: JSONObject) -> [JSONObject] {
        (answer["items"]?.arrayValue ?? []).compactMap(\.objectValue)
    }

    @Test("proves an imported key, records the proof, and counts no release", arguments: [ForgeKeyType.p256, .rsa2048])
    func imported(type: ForgeKeyType) async throws {
        let harness = try await Self.started.value
        let merchant = try merchant("imported-\(type.rawValue)", type: type)
        #expect(try await harness.importMerchant(merchant).status == 0)
        let (answer, _) = try await prove(merchant.hex, harness)
        #expect(answer["proved"]?.boolValue == true && answer["withoutKey"]?.arrayValue?.isEmpty == true)
        #expect(answer["merchantIdentifier"]?.stringValue == merchant.merchant.identifier)
        let certificate = Self.digest(merchant.certificate)
        #expect(answer["certificateSha256"]?.stringValue == certificate)
        let item = try #require(items(answer).first)
        #expect(item["token"]?.stringValue == "primary" && item["tier"]?.stringValue == "C")

        let record = try #require(try await recorded(merchant.hex, harness).first)
        #expect(record["outcome"]?.stringValue == "ok" && record["token"]?.stringValue == "primary")
        #expect(record["certificateSha256"]?.stringValue == certificate && record["protection"]?.stringValue == "C")
        #expect(record["sequence"] == item["audit"]?.objectValue?["sequence"])
        #expect(record["merchant"]?.stringValue == merchant.merchant.identifier)
        let shown = try await harness.paytokenctl(["key", "show", merchant.hex, "--output", "json"])
        #expect(try JSONValue(parsing: shown.outputBytes).objectValue?["uses"]?.numberValue?.int == 0)
        // The key still opens payments.
        #expect(try await harness.decrypt(SharedForge.paymentToken(for: merchant.merchant)).status == 200)
    }

    @Test("proves a generated key before it has a certificate, and again with the certificate")
    func generated() async throws {
        let harness = try await Self.started.value
        let name = "merchant.com.example.proof.generated"
        let made = try await harness.paytokenctl([
            "key", "generate", "--merchant-identifier", name, "--output", "json",
        ])
        let key = try #require(try JSONValue(parsing: made.outputBytes).objectValue?["publicKeyHash"]?.stringValue)
        let (before, _) = try await prove(key, harness)
        #expect(before["proved"]?.boolValue == true && before["certificateSha256"]?.isNull == true)

        let certificate = try await certify(key, name, "payment-processing", harness)
        let (after, _) = try await prove(key, harness)
        #expect(after["certificateSha256"]?.stringValue == certificate)
        let records = try await recorded(key, harness)
        #expect(records.map { $0["certificateSha256"]?.stringValue } == [nil, certificate])
        #expect(records.allSatisfy { $0["outcome"]?.stringValue == "ok" })
    }

    @Test("has an identity key prove itself by a signature, which it does not return")
    func identity() async throws {
        let harness = try await Self.started.value
        let name = "merchant.com.example.proof.identity"
        let made = try await harness.paytokenctl([
            "key", "generate", "--merchant-identifier", name, "--use", "identity", "--output", "json",
        ])
        let key = try #require(try JSONValue(parsing: made.outputBytes).objectValue?["publicKeyHash"]?.stringValue)
        let (before, _) = try await prove(key, harness)
        #expect(before["proved"]?.boolValue == true && items(before).first?["tier"]?.isNull == true)
        let certificate = try await certify(key, name, "merchant-identity", harness)
        let (after, result) = try await prove(key, harness)
        #expect(after["certificateSha256"]?.stringValue == certificate)
        // A signature has 256 bytes.
        #expect(result.outputBytes.count < 1024)
        let records = try await recorded(key, harness)
        #expect(records.count == 2 && records.allSatisfy { $0["protection"] == nil })
    }

    /// Has Apple's stand-in certify a key, and imports the certificate. Returns its SHA-256 in hexadecimal.
    private func certify(_ key: String, _ name: String, _ kind: String, _ harness: DaemonHarness) async throws -> String
    {
        let files = try FreshDirectory()
        let (request, certificate) = (files.path("key.csr"), files.path("key.cer"))
        let made = try await harness.paytokenctl(["csr", "create", key, "--out", request])
        try #require(made.status == 0, "\(made)")
        let certified = try await Program.run(
            Program.built("token-forge"),
            [
                "certify", Self.authority.get().path, "--csr", request, "--merchant-identifier", name, "--out",
                certificate, "--kind", kind,
            ])
        try #require(certified.status == 0, "\(certified)")
        let imported = try await harness.paytokenctl(["certificate", "import", certificate])
        try #require(imported.status == 0, "\(imported)")
        return Self.digest(Array(try Data(contentsOf: URL(filePath: certificate))))
    }

    @Test("refuses suspended and compromised keys, records the refusal, and needs the role admin")
    func refused() async throws {
        let harness = try await Self.started.value
        let merchant = try merchant("refused")
        #expect(try await harness.importMerchant(merchant).status == 0)
        for (command, state) in [("suspend", "suspended"), ("compromise", "compromised")] {
            let changed = try await harness.paytokenctl(["key", command, merchant.hex, "--reason", "test"])
            #expect(changed.status == 0 || changed.status == 75, "\(changed)")
            let result = try await harness.paytokenctl(["key", "prove", merchant.hex])
            #expect(result.status == 1 && result.error.contains("invalid_state"), "\(result)")
            #expect(result.error.contains(changed.status == 75 ? "suspended" : state), "\(result)")
        }
        let records = try await recorded(merchant.hex, harness)
        #expect(records.map { $0["outcome"]?.stringValue } == ["invalid_state", "invalid_state"])
        #expect(records.allSatisfy { $0["token"] == nil })

        let payments = try await Curl.request(
            "/v1/keys/\(merchant.hex)/proofs", socket: harness.socket, body: Array("{}".utf8))
        #expect(payments.status == 404, "\(payments)")
        let body = try await harness.admin("/v1/keys/\(merchant.hex)/proofs", body: Array(#"{"data":"AAAA"}"#.utf8))
        #expect(body.status == 400, "\(body)")
    }

    @Test("is verified by both verifiers, and is in the CSV")
    func verified() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        _ = try await prove(SharedForge.ecMerchant.hex, harness)
        let live = try await harness.paytokenctl(["audit", "verify"])
        #expect(live.status == 0, "\(live)")
        let (export, key) = (harness.directory.path("export.jsonl"), harness.directory.path("audit.pem"))
        for arguments in [
            ["audit", "export", "--out", export],
            ["audit", "export", "--format", "csv", "--out", harness.directory.path("export.csv")],
        ] {
            let made = try await harness.paytokenctl(arguments)
            try #require(made.status == 0, "\(made)")
        }
        try harness.directory.write(
            try await harness.paytokenctl(["audit", "public-key"]).outputBytes, to: "audit.pem")
        // Both exit with 2: nothing outside the export shows that it is complete.
        let offline = try await harness.paytokenctl(["audit", "verify", "--export", export, "--public-key", key])
        #expect(offline.status == 2, "\(offline)")
        let script = try await Program.run(ProjectFiles.path("scripts/verify-audit"), [export, key])
        #expect(script.status == 2, "\(script)")
        let csv = try String(contentsOfFile: harness.directory.path("export.csv"), encoding: .utf8)
        let line = try #require(csv.split(separator: "\n").first { $0.contains("key_proof") })
        #expect(try line.contains(Self.digest(SharedForge.ecMerchant.certificate)), "\(line)")
        #expect(try await harness.stop().status == 0)
    }
}

/// Proofs with two HSM tokens, and with an HSM token that counts the uses of its keys.
@Suite struct KeyProofTokenTests {
    private func tokens(_ answer: JSONObject, _ member: String) -> [String] {
        (answer["items"]?.arrayValue ?? []).compactMap { $0.objectValue?[member]?.stringValue }
    }

    @Test("asks each HSM token that shows the key, names those without it, and fails while one is away")
    func severalTokens() async throws {
        var configuration = DaemonConfiguration()
        configuration.furtherHSMTokens = ["second"]
        let harness = try await DaemonHarness(configuration, merchants: [])
        func conditions() async throws -> [String] {
            try await harness.admin("/v1/status").member("tokens")?.arrayValue?
                .compactMap { $0.objectValue?["condition"]?.stringValue } ?? []
        }
        try await wait(for: "both tokens to be open") { try await conditions() == ["ready", "ready"] }
        let both = try SharedForge.ecMerchant
        #expect(try await harness.importMerchant(both, ["--token", "primary", "--token", "second"]).status == 0)
        let alone = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.alone"))
        #expect(try await harness.importMerchant(alone, ["--token", "primary"]).status == 0)
        func prove(_ merchant: ForgedMerchant) async throws -> (ProgramResult, JSONObject) {
            let result = try await harness.paytokenctl(["key", "prove", merchant.hex, "--output", "json"])
            return (result, try #require(try JSONValue(parsing: result.outputBytes).objectValue, "\(result)"))
        }

        let (proved, answer) = try await prove(both)
        #expect(proved.status == 0 && tokens(answer, "token") == ["primary", "second"], "\(proved)")
        let (lonely, named) = try await prove(alone)
        #expect(lonely.status == 0 && tokens(named, "token") == ["primary"])
        #expect(lonely.error.contains("not in: second"), "\(lonely)")

        // A library that has already read the keys may not notice the move, so the workers are killed.
        let store = harness.directory.path(DaemonHarness.store(of: "second"))
        try FileManager.default.moveItem(atPath: store, toPath: harness.directory.path("away"))
        for worker in try harness.workers() { kill(worker, SIGKILL) }
        try await wait(for: "the token to be missed") {
            _ = try await harness.decrypt(SharedForge.paymentToken())
            return try await conditions() == ["ready", "unavailable"]
        }
        let (failed, without) = try await prove(both)
        #expect(failed.status == 1 && without["proved"]?.boolValue == false, "\(failed)")
        #expect(tokens(without, "token") == ["primary", "second"])
        #expect(tokens(without, "code") == ["hsm_unavailable"])
        let list = try await harness.paytokenctl([
            "audit", "list", "--key", both.hex, "--limit", "100", "--output", "json",
        ])
        let records = try (JSONValue(parsing: list.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
            .filter { $0["event"]?.stringValue == "key_proof" && $0["token"]?.stringValue == "second" }
        #expect(Set(records.map { $0["outcome"]?.stringValue }) == ["ok", "hsm_unavailable"], "\(records)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("is one use of the key in the HSM token's own log")
    func useLog() async throws {
        let directory = try FreshDirectory()
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let uses = directory.path("uses")
        try hsmToken.play("uses \(uses)")
        var configuration = DaemonConfiguration()
        configuration.hsmTokens = [TokenEntry("primary", hsmToken)]
        let harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        func count() throws -> Int { try String(contentsOfFile: uses, encoding: .utf8).split(separator: "\n").count }
        let before = try count()
        for proofs in 1...3 {
            let proved = try await harness.paytokenctl(["key", "prove", SharedForge.ecMerchant.hex])
            #expect(proved.status == 0, "\(proved)")
            #expect(try count() == before + proofs)
        }
        #expect(try await harness.stop().status == 0)
    }
}
