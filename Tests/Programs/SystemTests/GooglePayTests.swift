import Crypto
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

@Suite struct GooglePayTests {
    private static func verify(
        _ token: String, of merchant: String, at time: Date? = nil, by harness: DaemonHarness
    ) async throws -> CurlAnswer {
        let at = time.map { ",\"at\":\"\($0.formatted(.iso8601))\"" } ?? ""
        return try await Curl.request(
            "/v1/google-pay/verify", socket: harness.socket,
            body: Array("{\"token\":\(token),\"merchantIdentifier\":\"\(merchant)\"\(at)}".utf8))
    }

    private static func daemon(_ roots: [UInt8]) async throws -> DaemonHarness {
        var configuration = DaemonConfiguration()
        configuration.googlePay = "google.json"
        let harness = try await DaemonHarness(prepared: configuration)
        try harness.directory.write(roots, to: "google.json")
        try await harness.start()
        return harness
    }

    @Test("verifies a payment token for its merchant, and keeps the root keys in force when a new file is damaged")
    func reload() async throws {
        let (old, new) = (GooglePayForge(), GooglePayForge())
        let tomorrow = Date().addingTimeInterval(86_400)
        let tokens = try [old, new].map { forge in
            try forge.mint(
                GooglePayForge.plaintext(expiring: tomorrow), to: P256.KeyAgreement.PrivateKey().publicKey,
                recipient: "merchant:BCR2", expiration: tomorrow
            ).json
        }
        let harness = try await Self.daemon(old.rootKeys(expiration: tomorrow))
        func codes() async throws -> [String?] {
            var codes: [String?] = []
            for token in tokens { codes.append(try await Self.verify(token, of: "BCR2", by: harness).code) }
            return codes
        }
        #expect(try await codes() == [nil, "signature_invalid"])
        #expect(try await Self.verify(tokens[0], of: "BCR3", by: harness).code == "signature_invalid")
        #expect(try await harness.metric("paytokend_insecure_settings", "setting=\"google_pay_test_roots\"").isEmpty)

        var damaged = new.root.publicKey.derRepresentation
        damaged[90] ^= 1
        let entry = """
            {"keyValue":"\(damaged.base64EncodedString())","protocolVersion":"ECv2","keyExpiration":"9"}
            """
        try harness.directory.write("{\"keys\":[\(entry)]}", to: "google.json")
        try harness.daemon.signal(SIGHUP)
        try await wait(for: "the complaint") { try harness.daemon.error.contains("keys[0].keyValue is not base64") }
        #expect(try await codes() == [nil, "signature_invalid"])
        let check = try await Program.run(
            Program.built("paytokend"), ["--config", harness.configurationFile, "--check"], environment: [:])
        #expect(check.status == 78 && check.error.contains("trust.google_pay"), "\(check)")

        try harness.directory.write(new.rootKeys(expiration: tomorrow), to: "google.json")
        try harness.daemon.signal(SIGHUP)
        try await wait(for: "the new root key") { try await codes() == ["signature_invalid", nil] }
        let status = try await harness.paytokenctl(["status"])
        let digest = SHA256.hash(data: new.root.publicKey.derRepresentation).hexadecimal
        #expect(status.output.contains("Google Pay  ") && status.output.contains(digest.prefix(8)), "\(status)")

        let file = try harness.directory.write(tokens[1], to: "token.json")
        let verified = try await harness.paytokenctl(["verify", file, "--merchant-identifier", "BCR2"])
        #expect(verified.status == 0 && verified.output.contains(digest), "\(verified)")
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "verifies Google's TEST tokens until their intermediate key expires, and counts the TEST root as insecure",
        .enabled(if: Fixtures.directory != nil, "set PAYTOKEND_INTEROP_FIXTURES to a folder of real tokens"))
    func realTokens() async throws {
        let harness = try await Self.daemon(Fixtures.googlePayTestRoots)
        #expect(
            try await harness.metric("paytokend_insecure_settings", "setting=\"google_pay_test_roots\"") == [1])
        let merchant = Fixtures.googlePayMerchant
        for fixture in try Fixtures.googlePayTokens() {
            let token = String(decoding: fixture.json, as: UTF8.self)
            let expiry = Date(timeIntervalSince1970: Double(fixture.intermediateExpiration) / 1_000)
            let before = expiry.addingTimeInterval(-1)
            let valid = try await Self.verify(token, of: merchant, at: before, by: harness)
            #expect(valid.status == 200, "\(fixture.name): \(valid)")
            #expect(
                valid.member("chain")?.arrayValue?.last?.objectValue?["sha256"]?.stringValue
                    == "ae7746900a7fac6e132119106be290d9d67425989734d23e594e81685bab5f97")
            for time in [expiry.addingTimeInterval(1), nil] {
                let expired = try await Self.verify(token, of: merchant, at: time, by: harness)
                #expect(
                    expired.status == 422 && expired.code == "certificate_untrusted", "\(fixture.name): \(expired)")
            }
            #expect(try await Self.verify(token, of: "1", at: before, by: harness).code == "signature_invalid")
        }
        #expect(try await harness.stop().status == 0)
    }
}
