import Crypto
import Foundation
import PortalSimulator
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The programs and the simulator of one test.
struct Portal {
    let harness: DaemonHarness
    let simulator: PortalSimulator
    let outbound: RunningProgram
    let key = P256.Signing.PrivateKey()
    let files: FreshDirectory

    /// - Parameters:
    ///   - importsKey: false to leave out the import of the service key.
    ///   - isKnown: false for a simulator that knows another key.
    ///   - trustsServer: false for an outbound program that trusts the system's roots.
    ///   - configuration: the daemon's, to which the section `renewal` is added.
    init(
        _ merchants: [ForgedMerchant] = [], importsKey: Bool = true, isKnown: Bool = true, trustsServer: Bool = true,
        configuration: DaemonConfiguration = DaemonConfiguration()
    ) async throws {
        var configuration = configuration
        configuration.renewal = ServiceKeyTests.renewal
        harness = try await DaemonHarness(configuration, merchants: merchants)
        if importsKey {
            let file = try await ServiceKeyTests.file(key)
            let imported = try await harness.paytokenctl([
                "key", "import", "--use", "service", "--private-key", file.path("AuthKey_2X9R4HXF34.p8"),
            ])
            try #require(imported.status == 0, "\(imported)")
        }
        files = try FreshDirectory()
        try await files.writeServerCertificate(for: PortalSimulator.host)
        simulator = try await PortalSimulator(
            key: PortalSimulator.Key(
                issuer: "57246542-96fe-1a63-e053-0824d011072a", keyId: "2X9R4HXF34",
                publicKey: isKnown ? key.publicKey : P256.Signing.PrivateKey().publicKey),
            certificate: files.path("server.crt"), privateKey: files.path("server.key"),
            authority: SharedForge.authority)
        let yaml = try files.write(
            """
            paytokend: { socket: "\(harness.socket)" }
            app_store_connect: { test_server: "\(simulator.address)", trust: [\(trustsServer ? "root.crt" : "")] }
            log: { level: debug, format: json }

            """, to: "outbound.yaml")
        outbound = try RunningProgram(Program.built("paytoken-outbound"), ["--config", yaml], environment: [:])
    }

    func check(
        _ merchant: String = "merchant.com.example.absent"
    ) async throws -> (status: Int32, answer: JSONObject?, error: String) {
        let result = try await harness.paytokenctl(["rotate", "check", merchant, "--output", "json"])
        let answers = (try? JSONValue(parsing: result.outputBytes))?.arrayValue ?? []
        #expect(answers.count == 1, "\(result)")
        return (result.status, answers.first?.objectValue, result.error)
    }

    func check(_ merchant: ForgedMerchant) async throws -> (status: Int32, answer: JSONObject?, error: String) {
        try await check(merchant.merchant.identifier)
    }
}

extension Portal {
    /// A merchant with an EC key and its certificate.
    static func forged(_ name: String) throws -> ForgedMerchant {
        try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.\(name)"))
    }

    /// The merchant at the portal.
    static func listed(
        _ merchant: ForgedMerchant, _ certificates: [PortalSimulator.Certificate]
    ) -> PortalSimulator.Merchant {
        PortalSimulator.Merchant(
            id: "IDS0FT" + merchant.merchant.identifier.suffix(4).uppercased(),
            identifier: merchant.merchant.identifier,
            certificates: certificates)
    }
}
