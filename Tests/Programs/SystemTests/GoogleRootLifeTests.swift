import Crypto
import Foundation
import PortalSimulator
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// A root key of Google's from its first fetch to its end, with whole programs.
@Suite struct GoogleRootLifeTests {
    private let google = GooglePayDecryptionTests()
    private let next = GooglePayForge()

    private func mint(_ forge: GooglePayForge, to point: [UInt8], _ messageId: String) throws -> String {
        let week = google.nextWeek
        let plaintext = """
            {"messageExpiration":"\(GooglePayText.time(week))","messageId":"\(messageId)","paymentMethod":"CARD",\
            "paymentMethodDetails":{"pan":"4111111111111111","expirationMonth":12,"expirationYear":2030,\
            "authMethod":"CRYPTOGRAM_3DS","cryptogram":"AgAAAAAABk4DWZ4C28yUQAAAAAA="}}
            """
        return try forge.mint(
            Array(plaintext.utf8), to: P256.KeyAgreement.PublicKey(x963Representation: point),
            recipient: "merchant:\(GooglePayDecryptionTests.merchant)", expiration: week
        ).json
    }

    /// Adds `trust.google_pay_fetched` to the configuration file.
    private static func nameFetchedFile(_ harness: DaemonHarness) throws {
        let text = try String(contentsOfFile: harness.configurationFile, encoding: .utf8)
        let line = "  google_pay: google.json\n"
        try #require(text.contains(line))
        try text.replacing(line, with: line + "  google_pay_fetched: fetched.json\n")
            .write(toFile: harness.configurationFile, atomically: false, encoding: .utf8)
    }

    @Test("a new root key counts after a person accepted it, and no more at the reload after Google removed it")
    func life() async throws {
        let harness = try await google.daemon()
        try Self.nameFetchedFile(harness)
        #expect(try await harness.paytokenctl(["reload"]).status == 0)
        let (files, server) = try await GoogleRootKeyTests.server()
        let fetched = harness.directory.path("fetched.json")
        func fetch(_ forges: [GooglePayForge]) async throws {
            let time = GooglePayText.time(GoogleRootKeyTests.nextYear)
            server.set(GooglePayText.rootKeys(forges.map { ($0.root.publicKey, "ECv2", time) }))
            let result = try await harness.paytokenctl([
                "trust", "google-pay", "fetch", fetched, "--test-server", server.address, "--trust",
                files.path("root.crt"),
            ])
            #expect(result.status == 0, "\(result)")
        }
        func change(_ verb: String, _ forge: GooglePayForge, _ options: [String] = []) async throws -> ProgramResult {
            try await harness.paytokenctl(
                ["trust", "google-pay", verb, GoogleRootKeyTests.hex(forge), "--accepted"]
                    + [harness.directory.path("google.json")] + options)
        }
        let key = try await google.key(harness)
        func code(_ forge: GooglePayForge, _ id: String) async throws -> String? {
            try await google.decrypt(mint(forge, to: key.point, id), harness, reference: id).code
        }
        // There is no fetched file yet: the accepted key counts.
        #expect(try await code(google.forge, "1") == nil)
        #expect(
            try await harness.metric("paytokend_insecure_settings", "setting=\"google_pay_fetched_unusable\"") == [1])

        try await fetch([google.forge, next])
        #expect(try await harness.paytokenctl(["reload"]).status == 0)
        #expect(try await code(google.forge, "2") == nil)
        #expect(try await code(next, "3") == "signature_invalid")
        let status = try await harness.paytokenctl(["status"])
        #expect((status.output + status.error).contains(GoogleRootKeyTests.hex(next)), "\(status)")

        let dry = try await change("accept", next, ["--fetched", fetched, "--dry-run"])
        #expect(dry.status == 0, "\(dry)")
        let unknown = try await change("accept", GooglePayForge(), ["--fetched", fetched])
        #expect(unknown.status == 1, "\(unknown)")
        #expect(try await harness.paytokenctl(["reload"]).status == 0)
        #expect(try await code(next, "4") == "signature_invalid")
        let elsewhere = try await change(
            "accept", next, ["--fetched", fetched, "--accepted", harness.directory.path("elsewhere.json")])
        #expect(elsewhere.status == 1 && elsewhere.error.contains("does not trust it"), "\(elsewhere)")
        #expect(try await code(next, "4a") == "signature_invalid")
        let accepted = try await change("accept", next, ["--fetched", fetched])
        #expect(accepted.status == 0 && accepted.output.contains("trust.google_pay_roots"), "\(accepted)")
        #expect(try await code(next, "5") == nil)
        #expect(try await code(google.forge, "6") == nil)

        // A file that the configuration does not name changes nothing, and the command says so.
        let other = harness.directory.path("other.json")
        try FileManager.default.copyItem(atPath: harness.directory.path("google.json"), toPath: other)
        let ineffective = try await change("remove", next, ["--accepted", other])
        #expect(ineffective.status == 1 && ineffective.error.contains("still trusts it"), "\(ineffective)")
        #expect(try await code(next, "6a") == nil)

        try await fetch([next])
        #expect(try await code(google.forge, "7") == nil)
        #expect(try await harness.paytokenctl(["reload"]).status == 0)
        #expect(try await code(google.forge, "8") == "signature_invalid")
        #expect(try await code(next, "9") == nil)
        // The removal lasts when an older fetched file comes back.
        #expect(try await change("remove", google.forge).status == 0)
        try await fetch([google.forge, next])
        #expect(try await harness.paytokenctl(["reload"]).status == 0)
        #expect(try await code(google.forge, "10") == "signature_invalid")
        let last = try await change("remove", next)
        #expect(last.status == 1 && last.error.contains("the only accepted key"), "\(last)")

        let records = try await harness.paytokenctl(["audit", "list", "--output", "json"])
        let text = records.output
        #expect(text.contains("trust.google_pay_not_accepted") && text.contains(GoogleRootKeyTests.hex(next)))
        #expect(try await harness.stop().status == 0)
    }

    @Test("starts with the accepted keys if the fetched file is damaged, and not if the accepted one is")
    func starts() async throws {
        var configuration = DaemonConfiguration()
        configuration.googlePay = "google.json"
        let harness = try await DaemonHarness(prepared: configuration)
        try Self.nameFetchedFile(harness)
        try harness.directory.write("{", to: "fetched.json")
        try harness.directory.write(google.forge.rootKeys(expiration: google.nextWeek), to: "google.json")
        try await harness.start()
        let token = try mint(google.forge, to: Array(P256.KeyAgreement.PrivateKey().publicKey.x963Representation), "1")
        let answer = try await Curl.request(
            "/v1/google-pay/verify", socket: harness.socket,
            body: Array("{\"token\":\(token),\"merchantIdentifier\":\"\(GooglePayDecryptionTests.merchant)\"}".utf8))
        #expect(answer.status == 200, "\(answer)")
        #expect(try await harness.stop().status == 0)
        try harness.directory.write("{", to: "google.json")
        let check = try await Program.run(
            Program.built("paytokend"), ["--config", harness.configurationFile, "--check"], environment: [:])
        #expect(check.status == 78 && check.error.contains("trust.google_pay"), "\(check)")
    }
}
