import Foundation
import NIOSSL
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Merchant sessions with all the real programs. The TLS key is in the HSM token, and paytokend signs each handshake
/// for the gateway. A simulated Apple requires the merchant's certificate.
@Suite struct MerchantSessionTests {
    private static let merchant = "merchant.com.example.sessions"

    /// paytokend with an identity key, and a gateway that uses it.
    private final class Gateway: Sendable {
        let harness: DaemonHarness
        let identity: ForgedMerchant
        let directory: FreshDirectory
        let key: String
        let program: RunningProgram

        /// - Parameter hsmTokens: the configured HSM tokens; empty for one HSM token on SoftHSM.
        init(_ apple: SimulatedApple, access: [String] = [], hsmTokens: [TokenEntry] = []) async throws {
            var configuration = DaemonConfiguration()
            configuration.hsmTokens = hsmTokens
            configuration.logLevel = "trace"
            configuration.access = access
            harness = try await DaemonHarness(configuration)
            identity = try ForgedMerchant(
                authority: SharedForge.authority, type: .rsa2048,
                profile: MerchantCertificateProfile(
                    merchantIdentifier: MerchantSessionTests.merchant, kind: .merchantIdentity))
            let imported = try await harness.importMerchant(identity)
            try #require(imported.status == 0, "\(imported)")

            directory = try FreshDirectory()
            let made = try await Program.run(
                Program.built("paytoken-gateway"), ["new-key", "--output", "json"])
            let newKey = try #require(try JSONValue(parsing: made.outputBytes).objectValue)
            key = try #require(newKey["key"]?.stringValue)
            try directory.write(
                """
                listener: { address: "unix:g" }
                admin: { socket: a }
                paytokend: { socket: "\(harness.socket)", timeout: 60s }
                sessions:
                  test_server: \(apple.address)
                  trust: ["\(try await SimulatedAppleCertificates.shared.value.root)"]
                clients:
                  - name: shop
                    key_sha256: "\(newKey["key_sha256"]?.stringValue ?? "")"
                    merchants: ["\(MerchantSessionTests.merchant)"]
                    operations: [session]
                    domains: [shop.example]
                log: { level: trace }
                """, to: "c.yaml")
            let program = try RunningProgram(
                Program.built("paytoken-gateway"), ["--config", directory.path("c.yaml")])
            self.program = program
            try await wait(for: "the gateway to serve") { program.error.contains("\"serving\"") || !program.isRunning }
        }

        func session(domain: String = "shop.example", headers: [String] = []) async throws -> CurlAnswer {
            try await Curl.request(
                "/merchant-sessions", socket: directory.path("g"),
                body: Array(
                    """
                    {"merchantIdentifier":"\(MerchantSessionTests.merchant)","displayName":"Shop","initiative":"web",\
                    "initiativeContext":"\(domain)"}
                    """.utf8),
                arguments: (headers + ["Authorization: Bearer \(key)"]).flatMap { ["--header", $0] })
        }

        func keyCommand(_ verb: String) async throws {
            let hash = Data(identity.merchant.publicKeyHash).base64EncodedString()
            let changed = try await harness.paytokenctl(["key", verb, hash, "--reason", "test"])
            try #require(changed.status == 0, "\(changed)")
        }

        func records() async throws -> [JSONObject] {
            let record = try await harness.paytokenctl(["audit", "list", "--limit", "1000", "--output", "json"])
            return try (JSONValue(parsing: record.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
                .filter { $0["event"]?.stringValue == "tls_signature" }
        }
    }

    @Test(
        "opens sessions with each TLS version and padding, and records one signature for each handshake",
        arguments: [(3...3, "rsa_pss_rsae_sha256"), (2...2, "rsa_pss_rsae_sha256"), (2...2, "rsa_pkcs1_sha256")])
    func sessions(versions: ClosedRange<Int>, algorithm: String) async throws {
        try await expectSessions(versions, algorithm)
    }

    @Test(
        "opens the same sessions with a key in NSS's softoken",
        .enabled(if: NSSTokenDirectory.isInstalled, "needs Debian's libnss3 and libnss3-tools"),
        arguments: [(3...3, "rsa_pss_rsae_sha256"), (2...2, "rsa_pss_rsae_sha256"), (2...2, "rsa_pkcs1_sha256")])
    func sessionsByNSS(versions: ClosedRange<Int>, algorithm: String) async throws {
        let hsmToken = try await NSSTokenDirectory()
        try await expectSessions(versions, algorithm, with: [TokenEntry("primary", hsmToken)])
    }

    @Test(
        "opens the same sessions with an HSM token without RSA-PSS, for which paytokend pads",
        arguments: [(3...3, "rsa_pss_rsae_sha256"), (2...2, "rsa_pkcs1_sha256")])
    func sessionsWithoutPSS(versions: ClosedRange<Int>, algorithm: String) async throws {
        let hsmToken = try ScriptedToken(
            try await TokenDirectory(), "refuse-mechanism C_SignInit 0x43", "refuse-mechanism C_SignInit 0xD")
        try await expectSessions(versions, algorithm, with: [TokenEntry("primary", hsmToken)])
    }

    /// - Parameter hsmTokens: the configured HSM tokens; empty for one HSM token on SoftHSM.
    private func expectSessions(
        _ versions: ClosedRange<Int>, _ algorithm: String, with hsmTokens: [TokenEntry] = []
    ) async throws {
        let apple = try await SimulatedApple(
            versions: versions,
            signatureAlgorithms: algorithm == "rsa_pkcs1_sha256" ? [.rsaPkcs1Sha256, .ecdsaSecp256R1Sha256] : nil)
        let gateway = try await Gateway(apple, hsmTokens: hsmTokens)
        for _ in 0..<3 {
            let answer = try await gateway.session()
            #expect(answer.status == 200 && answer.body == Array(SimulatedApple.session.utf8), "\(answer)")
        }
        #expect(apple.requests.count == 3)
        #expect(apple.requests.allSatisfy { $0.merchantIdentifier == Self.merchant })
        #expect(apple.requests.allSatisfy { $0.serverName == SimulatedAppleCertificates.hostName })
        // All sessions use one connection, so there is one signature.
        let records = try await gateway.records()
        #expect(records.map { $0["outcome"]?.stringValue } == ["ok"])
        #expect(records.first?["algorithm"]?.stringValue == algorithm)
        #expect(records.first?["merchant"]?.stringValue == Self.merchant)
        gateway.program.signal(SIGTERM)
        #expect(try await gateway.program.result().status == 0)
    }

    @Test("logs the caller's trace in both programs, and ignores a malformed trace")
    func trace() async throws {
        let apple = try await SimulatedApple()
        let gateway = try await Gateway(apple)
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        #expect(try await gateway.session(headers: ["traceparent: 00-\(trace)-00f067aa0ba902b7-01"]).status == 200)
        let nonsense = try await Curl.request(
            "/v1/decrypt", socket: gateway.harness.socket, body: [],
            arguments: ["--header", "traceparent: 00-nonsense-01"])
        #expect(nonsense.status == 400)
        gateway.program.signal(SIGTERM)
        let ended = try await gateway.program.result()
        let daemon = try await gateway.harness.stop()
        func lines(_ log: String, _ endpoint: String) -> [String] {
            log.split(separator: "\n").map(String.init).filter { $0.contains(endpoint) && $0.contains(trace) }
        }
        #expect(lines(ended.error, "/merchant-sessions").count == 1, "\(ended)")
        #expect(lines(daemon.error, "/v1/tls-identities").count == 1, "\(daemon)")
        #expect(lines(daemon.error, "/v1/tls-signatures").count == 1)
        #expect(!daemon.error.contains("nonsense"))
    }

    @Test("opens no session while the key is suspended, and opens sessions after a resume")
    func suspended() async throws {
        let apple = try await SimulatedApple()
        let gateway = try await Gateway(apple)
        #expect(try await gateway.session().status == 200)
        try await gateway.keyCommand("suspend")
        try await apple.endConnections()
        let refused = try await gateway.session()
        #expect(refused.status == 422 && refused.code == "no_active_identity", "\(refused)")
        #expect(apple.requests.count == 1)
        try await gateway.keyCommand("resume")
        // The gateway caches paytokend's list of identity keys for some seconds.
        try await wait(for: "a session again") { try await gateway.session().status == 200 }
    }

    @Test("refuses a signature without the role session, and names the missing role")
    func withoutRole() async throws {
        let apple = try await SimulatedApple()
        let gateway = try await Gateway(apple, access: ["{ user: root, roles: [decrypt, admin, audit] }"])
        let refused = try await gateway.session()
        #expect(refused.status == 503 && refused.code == "paytokend_forbids", "\(refused)")
        #expect(apple.requests.isEmpty)
        #expect(try await gateway.records().isEmpty)
    }

    @Test("shows each step of paytokenctl session check, and the step that fails")
    func sessionCheck() async throws {
        let apple = try await SimulatedApple([.session, .answer(417)])
        let gateway = try await Gateway(apple)
        let command = [
            "session", "check", Self.merchant, "--domain", "shop.example", "--socket", gateway.directory.path("a"),
        ]
        let good = try await Program.run(Program.built("paytokenctl"), command)
        #expect(good.status == 0, "\(good)")
        for step in ["identity", "connection", "tls", "signature", "answer"] {
            #expect(good.output.contains(step), "\(good)")
        }
        let refused = try await Program.run(Program.built("paytokenctl"), command)
        #expect(refused.status == 1 && refused.error.hasPrefix("merchant_not_accepted"), "\(refused)")
    }

    @Test("opens a session for each of thirty simultaneous requests, and decrypts payments at the same time")
    func thirtySimultaneousSessions() async throws {
        let apple = try await SimulatedApple()
        let gateway = try await Gateway(apple)
        let shop = try SharedForge.rsaMerchant
        try #require(try await gateway.harness.importMerchant(shop).status == 0)
        let answers = try await withThrowingTaskGroup(of: (Bool, CurlAnswer).self) { group in
            for _ in 0..<30 {
                group.addTask {
                    // The gateway limits the sessions that one client may open at the same time.
                    var answer = try await gateway.session()
                    while answer.code == "rate_limited" { answer = try await gateway.session() }
                    return (true, answer)
                }
                group.addTask {
                    (false, try await gateway.harness.decrypt(SharedForge.paymentToken(for: shop.merchant)))
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers.count == 60)
        for (_, answer) in answers { #expect(answer.status == 200, "\(answer)") }
    }

    @Test("keeps bearer keys, sessions and private keys out of logs, records and metrics of both programs")
    func secrecy() async throws {
        let apple = try await SimulatedApple([.session, .session, .answer(417), .raw("HTTP/1.1 200 OK\r\n\r\nSSHX")])
        let gateway = try await Gateway(apple)
        for _ in 0..<3 { _ = try await gateway.session() }
        _ = try await gateway.session(domain: "other.example")
        _ = try await Curl.request(
            "/merchant-sessions", socket: gateway.directory.path("g"), body: Array("{}".utf8),
            arguments: ["--header", "Authorization: Bearer \(gateway.key)x"])
        var written: [(String, [UInt8])] = []
        for path in ["/metrics", "/v1/status", "/readyz"] {
            written.append((path, try await Curl.request(path, socket: gateway.directory.path("a")).body))
        }
        gateway.program.signal(SIGTERM)
        let ended = try await gateway.program.result()
        let daemon = try await gateway.harness.stop()
        written += [("the gateway's log", ended.errorBytes), ("paytokend's log", daemon.errorBytes)]
        #expect(ended.errorBytes.count > 500 && daemon.errorBytes.count > 500, "too short to tell anything")
        // The search includes SoftHSM's store, which is encrypted.
        written += try gateway.harness.files().filter { !$0.path.hasSuffix("pin") }.map { ($0.path, $0.bytes) }
        let secret = Array(gateway.identity.key.pkcs8[700..<800])
        let needles: [(String, [UInt8])] = [
            ("a bearer key", Array(gateway.key.utf8)), ("a session", Array("merchantSessionIdentifier".utf8)),
            ("a session", Array("SSH".utf8)), ("a private key", secret),
            ("a private key", Array(Data(secret).base64EncodedString().utf8)),
        ]
        for (place, bytes) in written {
            let data = Data(bytes)
            for (what, needle) in needles where !(what == "a session" && place.contains("/tokens/")) {
                #expect(data.range(of: Data(needle)) == nil, "\(what) in \(place)")
            }
        }
    }
}
