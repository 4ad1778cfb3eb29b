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
    private let outboundConfiguration: String
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
        outboundConfiguration = try files.write(
            """
            paytokend: { socket: "\(harness.socket)" }
            app_store_connect: { test_server: "\(simulator.address)", trust: [\(trustsServer ? "root.crt" : "")] }
            log: { level: debug, format: json }

            """, to: "outbound.yaml")
        outbound = try Self.startOutbound(outboundConfiguration)
    }

    private static func startOutbound(_ configuration: String) throws -> RunningProgram {
        try RunningProgram(Program.built("paytoken-outbound"), ["--config", configuration], environment: [:])
    }

    /// Starts another outbound program, after the first was killed.
    func startOutbound() throws -> RunningProgram { try Self.startOutbound(outboundConfiguration) }

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
    /// A merchant with a key and its certificate.
    ///
    /// - Parameter isDue: true if the certificate ends in a month, so that `--yes` starts its renewal.
    static func forged(
        _ name: String, _ type: ForgeKeyType = .p256, kind: ForgedCertificateKind = .paymentProcessing,
        isDue: Bool = false
    ) throws -> ForgedMerchant {
        var profile = MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.\(name)", kind: kind)
        if isDue { profile.notAfter = Date().addingTimeInterval(30 * 86_400) }
        return try ForgedMerchant(authority: SharedForge.authority, type: type, profile: profile)
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

// MARK: Renewals

extension Portal {
    /// Returns the programs for a merchant whose certificate C1 wallets use.
    static func renewing(
        _ merchant: ForgedMerchant, type: String = "APPLE_PAY",
        configuration: DaemonConfiguration = DaemonConfiguration()
    ) async throws -> Portal {
        let portal = try await Portal([merchant], configuration: configuration)
        portal.simulator.set([
            listed(merchant, [.init(id: "C1", type: type, content: merchant.certificate, isActivated: true)])
        ])
        return portal
    }

    /// The methods of the requests that change something, in their order.
    var writes: [String] { simulator.requests.map(\.method).filter { $0 != "GET" } }

    /// The certificates of the portal's first merchant.
    var certificates: [PortalSimulator.Certificate] { simulator.merchants.first?.certificates ?? [] }

    /// Runs `rotate renew` without a terminal.
    func renew(
        _ merchant: ForgedMerchant, _ options: [String] = [], as who: Staff? = nil
    ) async throws -> ProgramResult {
        try await harness.paytokenctl(
            ["rotate", "renew", merchant.merchant.identifier, "--output", "json"] + options, as: who?.identity)
    }

    /// Sends `POST /v1/renewals`.
    ///
    /// - Parameter members: further members of the body, each with a comma before it.
    func post(_ merchant: ForgedMerchant, _ members: String = "", as who: Staff? = nil) async throws -> CurlAnswer {
        let body = #"{"merchantIdentifier":"\#(merchant.merchant.identifier)"\#(members)}"#
        return try await Curl.request(
            "/v1/renewals", socket: harness.adminSocket, body: Array(body.utf8), as: who?.identity)
    }

    /// Begins the next change at Apple, as a person does who has answered the command's question. Begins none if the next
    /// step is no change.
    @discardableResult
    func approve(_ merchant: ForgedMerchant, _ members: String = "") async throws -> JSONObject {
        let shown = try await state(merchant, members)
        guard let change = shown["nextChange"] else { return shown }
        return try await state(merchant, members + #","approve":"# + String(decoding: change.compact, as: UTF8.self))
    }

    func state(_ merchant: ForgedMerchant, _ members: String) async throws -> JSONObject {
        let answer = try await post(merchant, members)
        try #require(answer.status == 200, "\(answer)")
        return try #require(try JSONValue(parsing: answer.body).objectValue)
    }

    /// Goes on with the renewal until it is at a step.
    @discardableResult
    func reach(_ step: String, of merchant: ForgedMerchant, _ members: String = "") async throws -> JSONObject {
        var state = JSONObject()
        do {
            try await wait(for: "the step \(step)") {
                let answer = try await post(merchant, members)
                try #require(answer.status == 200 || answer.status == 201, "\(answer)")
                state = try #require(try JSONValue(parsing: answer.body).objectValue)
                if state["step"]?.stringValue == step { return true }
                try await Task.sleep(for: .milliseconds(200))
                return false
            }
        } catch let timeout as ConditionTimeout {
            Issue.record("\(timeout): \(state)")
            throw timeout
        }
        return state
    }

    /// Changes the ledger so that the attempts without a definite outcome are an hour older.
    func letAttemptsAge() async throws {
        try await harness.changeLedger(
            "UPDATE renewal_attempt SET intended_at = intended_at - 3600000 WHERE outcome IN ('intended', 'unknown')")
    }

    /// The records of the merchant's renewals, oldest first.
    func renewalSteps(_ merchant: ForgedMerchant) async throws -> [JSONObject] {
        try await records(merchant).filter { $0["event"]?.stringValue == "renewal_step" }
    }

    func records(_ merchant: ForgedMerchant) async throws -> [JSONObject] {
        let list = try await harness.paytokenctl([
            "audit", "list", "--merchant", merchant.merchant.identifier, "--limit", "1000", "--output", "json",
        ])
        return try (JSONValue(parsing: list.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
            .sorted { ($0["sequence"]?.numberValue?.int ?? 0) < ($1["sequence"]?.numberValue?.int ?? 0) }
    }

    func keyState(_ key: String) async throws -> String? {
        let shown = try await harness.paytokenctl(["key", "show", key, "--output", "json"])
        return try JSONValue(parsing: shown.outputBytes).objectValue?["state"]?.stringValue
    }
}
