import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Daemons with HSM tokens of every tier, and the tiers in answers, status and audit record.
@Suite struct TokenTiersTests {
    private static func harness(_ hsmTokens: [TokenEntry], untilReady: Bool = true) async throws -> DaemonHarness {
        var configuration = DaemonConfiguration()
        configuration.hsmTokens = hsmTokens
        let harness = try await DaemonHarness(prepared: configuration)
        let checked = try await Program.run(
            Program.built("paytokend"), ["--config", harness.configurationFile, "--check"])
        #expect(checked.status == 0, "\(checked)")
        try await harness.start(untilReady: untilReady)
        return harness
    }

    private func importBoth(_ harness: DaemonHarness, _ names: [String] = []) async throws {
        for merchant in [try SharedForge.ecMerchant, try SharedForge.rsaMerchant] {
            let result = try await harness.importMerchant(merchant, names.flatMap { ["--token", $0] })
            try #require(result.status == 0, "\(result)")
        }
    }

    private func status(_ harness: DaemonHarness) async throws -> [JSONObject] {
        try await harness.admin("/v1/status").member("tokens")?.arrayValue?.compactMap(\.objectValue) ?? []
    }

    /// Releases a new payment token of each version, and compares the tier in the answer and the audit record.
    private func expectTiers(_ harness: DaemonHarness, ec: String, rsa: String) async throws {
        for (merchant, tier) in [(try SharedForge.ecMerchant, ec), (try SharedForge.rsaMerchant, rsa)] {
            let paymentToken = try SharedForge.paymentToken(for: merchant.merchant)
            let answer = try await harness.decrypt(paymentToken, reference: "r")
            #expect(answer.status == 200, "\(answer)")
            #expect(answer.string("protection") == tier)
            #expect(answer.text.contains(String(decoding: paymentToken.plaintext, as: UTF8.self)))
            let transaction = try #require(answer.string("transactionId"))
            let records = try await StoredRecords.of(transaction: transaction, in: harness)
            #expect(records.map { $0.string("protection") } == [tier])
        }
    }

    @Test(
        "serves EC_v1 at tier B and RSA_v1 at tier A with the NSS sample, without extractable secrets and network",
        .enabled(if: NSSTokenDirectory.isInstalled, "needs Debian's libnss3 and libnss3-tools"))
    func nssSample() async throws {
        let hsmToken = try await NSSTokenDirectory()
        let entry = try TokenEntry(
            sample: "nss-softokn.yaml", hsmToken,
            [
                ("/usr/lib/x86_64-linux-gnu/libsoftokn3.so", hsmToken.libraryPath),
                ("/etc/paytokend/pin", hsmToken.pinFile),
                ("sql:/var/lib/paytokend/nss", "sql:" + hsmToken.directory.path("nss")),
                ("dbTokenDescription='paytokend'", "dbTokenDescription='paytokend nss'"),
                ("pkcs11:token=paytokend", hsmToken.uri),
            ])
        let harness = try await Self.harness([entry])
        try await importBoth(harness)
        let shown = try #require(try await status(harness).first)
        #expect(shown["tierECv1"]?.stringValue == "B" && shown["tierRSAv1"]?.stringValue == "A")
        #expect(shown["tierECv2"]?.stringValue == "B")
        try await expectTiers(harness, ec: "B", rsa: "A")
        // Seccomp mode 2 shows that the worker runs with a filter: the sample configuration's list of denied system
        // calls.
        let process = try String(contentsOfFile: "/proc/\(harness.worker())/status", encoding: .utf8)
        #expect(process.contains("Seccomp:\t2\n"))
        #expect(try await harness.stop().status == 0)
    }

    @Test("serves EC_v1 at tier A and RSA_v1 at tier C on an HSM that derives AES keys")
    func tierA() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "one-step-kdf", "refuse-null-kdf")
        let harness = try await Self.harness([TokenEntry("primary", hsmToken)])
        try await importBoth(harness)
        let shown = try #require(try await status(harness).first)
        #expect(shown["tierECv1"]?.stringValue == "A" && shown["tierRSAv1"]?.stringValue == "C")
        // Google Pay needs the plain ECDH that this HSM refuses. Only a daemon that serves Google Pay mentions it.
        #expect(shown["tierECv2"] == nil && shown["shortcomings"]?.arrayValue?.isEmpty == true)
        try await expectTiers(harness, ec: "A", rsa: "C")
        let listed = try await harness.admin("/v1/keys").member("items")?.arrayValue?.compactMap(\.objectValue) ?? []
        #expect(Set(listed.compactMap { $0["tier"]?.stringValue }) == ["A", "C"])
        #expect(try await harness.stop().status == 0)
    }

    @Test("reports an HSM that serves nothing as unavailable, with the reasons")
    func servesNothing() async throws {
        // The first HSM token works and seals the record, so that the daemon can be ready.
        let useless = try ScriptedToken(
            try await TokenDirectory(), "fault C_CreateObject always return=0x54",
            "fault C_GenerateKeyPair always return=0x54")
        let harness = try await Self.harness([
            TokenEntry("primary", try await TokenDirectory()), TokenEntry("useless", useless),
        ])
        try await wait(for: "the HSM token's opening") {
            try await status(harness).last?["condition"]?.stringValue == "unavailable"
        }
        let shown = try #require(try await status(harness).last)
        #expect(shown["message"]?.stringValue?.hasPrefix("serves nothing: ") == true, "\(shown)")
        let shortcomings = shown["shortcomings"]?.arrayValue?.compactMap(\.stringValue) ?? []
        #expect(shortcomings.contains { $0.contains("CKR_FUNCTION_NOT_SUPPORTED") }, "\(shown)")
        #expect(try await status(harness).first?["condition"]?.stringValue == "ready")
        #expect(try await harness.stop().status == 0)
    }

    @Test("records the test keys that an HSM keeps, once, and shows them")
    func storedTestKeys() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "stored-keys-only")
        let harness = try await Self.harness([TokenEntry("primary", hsmToken)])
        for _ in 0..<2 {
            let shown = try #require(try await status(harness).first?["testKeys"]?.arrayValue)
            #expect(Set(shown.compactMap(\.stringValue)) == ["EC_v1", "RSA_v1", "TLS"])
            let listed = try await harness.paytokenctl(["audit", "list", "--limit", "1000", "--output", "json"])
            let made = try (JSONValue(parsing: listed.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
                .filter { $0["event"]?.stringValue == "test_keys_create" }
            #expect(made.count == 1 && made.first?["token"]?.stringValue == "primary")
            #expect(listed.output.contains("\"count\":3"), "\(listed.output)")
            #expect(try await harness.stop().status == 0)
            try await harness.start()
            try await harness.waitUntilReady()
        }
        #expect(try await harness.stop().status == 0)
    }

    @Test("removes the stored test keys on request, and records the person, the HSM token and their number")
    func removedTestKeys() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "stored-keys-only")
        let harness = try await Self.harness([TokenEntry("primary", hsmToken)])
        func remove(_ name: String, _ options: String...) async throws -> ProgramResult {
            try await harness.paytokenctl(["token", "remove-test-keys", "--token", name] + options)
        }
        let unknown = try await remove("other")
        #expect(unknown.status == 1 && unknown.error.contains("HSM tokens: primary"), "\(unknown)")
        #expect(try await remove("primary", "--dry-run").status == 0)
        for pairs in [3, 0] {
            let removed = try await remove("primary", "--output", "json")
            #expect(removed.status == 0 && removed.output.contains("\"pairs\":\(pairs)"), "\(removed)")
        }
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        try await harness.waitUntilReady()
        try hsmToken.play("stored-keys-only", "fault C_DestroyObject always return=0x30")
        let failed = try await remove("primary")
        try hsmToken.play("stored-keys-only")
        #expect(failed.status != 0 && failed.error.contains("C_DestroyObject: CKR_DEVICE_ERROR"), "\(failed)")
        let listed = try await harness.paytokenctl(["audit", "list", "--limit", "1000", "--output", "json"])
        let records = try (JSONValue(parsing: listed.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
            .filter { $0["event"]?.stringValue?.hasPrefix("test_keys_") == true }
        let shown = records.map { record in
            [
                record["event"]?.stringValue, record["outcome"]?.stringValue, record["token"]?.stringValue,
                (record["count"]?.numberValue?.int).map(String.init),
                (record["caller"]?.objectValue?["uid"]?.numberValue?.int).map(String.init),
            ].map { $0 ?? "-" }.joined(separator: " ")
        }
        #expect(
            Set(shown) == [
                "test_keys_create ok primary 3 -", "test_keys_remove not_found - - \(getuid())",
                "test_keys_remove ok primary 3 \(getuid())", "test_keys_remove ok primary 0 \(getuid())",
                "test_keys_remove hsm_unavailable primary - \(getuid())",
            ], "\(shown)")
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "loses no request if an HSM returns with other tiers, and reports the new tiers"
    )
    func otherTiers() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "one-step-kdf")
        let harness = try await Self.harness([TokenEntry("primary", hsmToken)])
        try await importBoth(harness)
        try await expectTiers(harness, ec: "A", rsa: "C")
        try hsmToken.play("fault C_DeriveKey nth=1 logout once")
        try await expectTiers(harness, ec: "C", rsa: "C")
        #expect(try await status(harness).first?["tierECv1"]?.stringValue == "C")
        try hsmToken.play("one-step-kdf", "fault C_DeriveKey nth=1 logout once")
        try await expectTiers(harness, ec: "A", rsa: "C")
        #expect(try await status(harness).first?["tierECv1"]?.stringValue == "A")
        #expect(try await harness.stop().status == 0)
    }

    @Test("is not ready if extractable secrets are forbidden on an HSM of tier C, and names what the HSM lacks")
    func forbiddenSecrets() async throws {
        let hsmToken = try await TokenDirectory()
        let harness = try await Self.harness(
            [TokenEntry("primary", hsmToken, allowExtractableSecret: false)], untilReady: false)
        try await wait(for: "the token to be open") {
            try await status(harness).first?["condition"]?.stringValue == "ready"
        }
        let ready = try await Curl.request("/readyz", socket: harness.socket)
        #expect(ready.status == 503)
        let reason = try #require(
            ready.member("reasons")?.arrayValue?.first { $0.string("component") == "token primary" })
        #expect(reason.string("code") == "hsm_unavailable")
        #expect(
            reason.string("message")?.hasPrefix(
                "Set allow_extractable_secret: true for this HSM token, or use another HSM token: EC_v1") == true,
            "\(reason)")
        for word in [
            "EC_v1: the HSM token lacks", "CKD_SHA256_KDF_SP800", "RSA_v1: the HSM token lacks", "C_UnwrapKey",
            "allow_extractable_secret is false",
        ] {
            #expect(reason.string("message")?.contains(word) == true, "\(reason)")
        }
        let shown = try #require(try await status(harness).first)
        #expect(shown["tierECv1"] == nil && shown["tierRSAv1"] == nil)
        #expect(shown["shortcomings"]?.arrayValue?.count == 2)
        let command = try await harness.paytokenctl(["status"])
        #expect(command.status == 1 && command.output.contains("allow_extractable_secret"), "\(command)")
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "returns equal results from HSM tokens of two vendors with the same keys, each at its tiers",
        .enabled(if: NSSTokenDirectory.isInstalled, "needs Debian's libnss3 and libnss3-tools"))
    func sideBySide() async throws {
        let (softHSM, nss) = (try await TokenDirectory(), try await NSSTokenDirectory())
        let harness = try await Self.harness([TokenEntry("soft", softHSM), TokenEntry("nss", nss)])
        try await wait(for: "both tokens to be open") {
            try await status(harness).allSatisfy { $0["condition"]?.stringValue == "ready" }
        }
        try await importBoth(harness, ["soft", "nss"])
        #expect(try await status(harness).compactMap { $0["keys"]?.numberValue?.int } == [2, 2])
        let tiers = ["soft": ["EC_v1": "C", "RSA_v1": "C"], "nss": ["EC_v1": "B", "RSA_v1": "A"]]
        var seen: Set<String> = []
        for number in 0..<16 {
            let merchant = number.isMultiple(of: 2) ? try SharedForge.ecMerchant : try SharedForge.rsaMerchant
            let paymentToken = try SharedForge.paymentToken(for: merchant.merchant)
            let answer = try await harness.decrypt(paymentToken)
            #expect(answer.status == 200, "\(answer)")
            #expect(answer.text.contains(String(decoding: paymentToken.plaintext, as: UTF8.self)))
            let transaction = try #require(answer.string("transactionId"))
            let record = try #require(try await StoredRecords.of(transaction: transaction, in: harness).first)
            let name = try #require(record.string("token"))
            #expect(record.string("protection") == tiers[name]?[answer.string("version") ?? ""])
            #expect(record.string("protection") == answer.string("protection"))
            seen.insert(name)
        }
        #expect(seen == ["soft", "nss"])
        #expect(try await harness.stop().status == 0)
    }
}
