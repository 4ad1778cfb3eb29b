import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Every attack and fault that the forge can make, sent to a running daemon.
// The cases run one at a time, because payment tokens would expire while hundreds of cases wait for each other.
@Suite(.serialized, .everyEngine) struct DeviationTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let deviation: Deviation
        let version: String
        var testDescription: String { "\(deviation.rawValue) \(version)" }
    }

    static let refused = ["EC_v1", "RSA_v1"].flatMap { version in
        Deviation.allCases.filter { $0.refusal != nil && $0.applies(to: version) }
            .map { Case(deviation: $0, version: version) }
    }

    /// Returns the HTTP status of a refusal code according to the contract's table.
    static func status(_ code: String) -> Int {
        ["malformed_token", "unsupported_version", "malformed_request"].contains(code) ? 400 : 422
    }

    static func recipe(_ version: String, _ deviations: Set<Deviation>) throws -> TokenRecipe {
        let merchant = try (version == "EC_v1" ? SharedForge.ecMerchant : SharedForge.rsaMerchant).merchant
        return TokenRecipe(
            merchant: merchant,
            // The deviation adds applicationData, so the recipe must have none.
            applicationData: deviations.contains(.applicationDataAdded) ? nil : Array("order 7".utf8),
            deviations: deviations)
    }

    @Test("refuses each deviation with exactly the documented code", arguments: refused)
    func refusal(_ tested: Case) async throws {
        let code = try #require(tested.deviation.refusal)
        let paymentToken = try SharedForge.mint.mint(Self.recipe(tested.version, [tested.deviation]))
        let answer = try await SharedDaemon.harness.decrypt(paymentToken)
        #expect(answer.code == code, "\(answer)")
        #expect(answer.status == Self.status(code), "\(answer)")
        #expect(answer.string("message")?.isEmpty == false)
        #expect(answer.member("paymentData") == nil)
    }

    @Test("returns the same answer for every failed decryption, byte for byte")
    func equalDecryptionFailures() async throws {
        let failing = Self.refused.filter { $0.deviation.refusal == "decryption_failed" }
        #expect(failing.count > 10)
        var answers: [[UInt8]: [String]] = [:]
        for tested in failing {
            let paymentToken = try SharedForge.mint.mint(Self.recipe(tested.version, [tested.deviation]))
            let answer = try await SharedDaemon.harness.decrypt(paymentToken)
            // The answers differ only in the sequence number of the audit record, which reveals only the order of
            // arrival.
            let place = try #require(answer.member("audit")?.objectValue?["sequence"]?.numberValue?.text)
            let body = String(decoding: answer.body, as: UTF8.self)
                .replacing("\"sequence\":\(place)", with: "\"sequence\":0")
            answers[Array(body.utf8), default: []].append(tested.testDescription)
        }
        #expect(answers.count == 1, "\(answers.values)")
    }

    /// The codes of the deviations that `/v1/verify` detects in steps 2 to 4.
    static let seenByVerify: Set<String> = [
        "malformed_token", "unsupported_version", "signature_invalid", "certificate_untrusted", "marker_oid_missing",
    ]

    @Test("refuses in verify each deviation that can be detected without a key, with the same code", arguments: refused)
    func refusalByVerify(_ tested: Case) async throws {
        let code = try #require(tested.deviation.refusal)
        let paymentToken = try SharedForge.mint.mint(Self.recipe(tested.version, [tested.deviation]))
        let answer = try await SharedDaemon.harness.verify(paymentToken)
        if Self.seenByVerify.contains(code) {
            #expect(answer.code == code, "\(answer)")
            #expect(answer.status == Self.status(code), "\(answer)")
        } else {
            #expect(answer.status == 200, "\(answer)")
        }
    }

    /// One deviation for each step of the contract, in the order of the steps.
    static let inOrder: [Deviation] = [
        .unsupportedVersion, .publicKeyHashTooShort, .flippedSignature, .leafIsCA, .intermediateMarkerMissing,
        .unknownPublicKeyHash, .badTag,
    ]

    @Test(
        "reports the deviation that the contract checks first if a payment token has two",
        arguments: inOrder.indices.dropLast())
    func firstFailureWins(index: Int) async throws {
        for later in Self.inOrder[(index + 1)...] {
            let paymentToken = try SharedForge.mint.mint(Self.recipe("EC_v1", [Self.inOrder[index], later]))
            let answer = try await SharedDaemon.harness.decrypt(paymentToken)
            #expect(answer.code == Self.inOrder[index].refusal, "\(later.rawValue): \(answer)")
        }
    }

    @Test("checks the signing time after the marker OIDs and before it looks up the key")
    func orderOfWindowCheck() async throws {
        for (deviation, code) in [
            (Deviation.leafMarkerMissing, "marker_oid_missing"),
            (.unknownPublicKeyHash, "signing_time_outside_window"), (.badTag, "signing_time_outside_window"),
        ] {
            var recipe = try Self.recipe("EC_v1", [deviation])
            recipe.signingTime = recipe.signingTime.addingTimeInterval(-3600)
            let answer = try await SharedDaemon.harness.decrypt(SharedForge.mint.mint(recipe))
            #expect(answer.code == code, "\(deviation.rawValue): \(answer)")
        }
    }

    @Test(
        "refuses a payment token signed outside the window, and accepts one inside it",
        arguments: [-600, 600, -120, 120])
    func signingTimeWindow(offset: Int) async throws {
        var recipe = try Self.recipe("EC_v1", [])
        recipe.signingTime = recipe.signingTime.addingTimeInterval(Double(offset))
        let answer = try await SharedDaemon.harness.decrypt(SharedForge.mint.mint(recipe))
        if abs(offset) > 300 {
            #expect(answer.status == 422 && answer.code == "signing_time_outside_window", "\(answer)")
        } else {
            #expect(answer.status == 200, "\(answer)")
        }
    }

    @Test("refuses a distrusted leaf or intermediate certificate at once")
    func distrusted() async throws {
        let authority = try SharedForge.authority
        let harness = try await DaemonHarness(prepared: DaemonConfiguration())
        var configuration = DaemonConfiguration()
        configuration.distrusted = [Fingerprint.hex(authority.leafEC.certificate)]
        try harness.configure(configuration)
        try await harness.start()
        let ec = try SharedForge.mint.mint(Self.recipe("EC_v1", []))
        let rsa = try SharedForge.mint.mint(Self.recipe("RSA_v1", []))
        #expect(try await harness.verify(ec).code == "certificate_untrusted")
        #expect(try await harness.verify(rsa).status == 200)
        // The reload distrusts the intermediate certificate. The daemon must then refuse a chain that it has
        // accepted and cached.
        configuration.distrusted = [Fingerprint.hex(authority.intermediate.certificate)]
        try harness.configure(configuration)
        try harness.daemon.signal(1)
        try await wait(for: "the reload") { try await harness.verify(rsa).code == "certificate_untrusted" }
        #expect(try await harness.verify(ec).code == "certificate_untrusted")
        #expect(try await harness.stop().status == 0)
    }
}
