import Crypto
import Foundation
import PortalSimulator
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// `rotate check` end to end: paytokenctl, the daemon, the worker with SoftHSM, the outbound program, and a simulator
/// of Apple's API over TLS with a root of its own.
@Suite struct RotateCheckTests {
    @Test(
        "compares Apple's list with the keys, finds payments that fail, and says when the list was not read",
        .everyEngine)
    func checks() async throws {
        let (clean, failing, away) = (try Portal.forged("good"), try Portal.forged("fail"), try Portal.forged("away"))
        let unknown = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: failing.merchant.identifier))
        let portal = try await Portal([clean, failing, away])
        portal.simulator.set([
            Portal.listed(clean, [.init(id: "C1", content: clean.certificate, isActivated: true)]),
            Portal.listed(
                failing,
                [
                    .init(id: "C2", content: failing.certificate, isActivated: false),
                    .init(id: "C3", content: unknown.certificate, isActivated: true),
                ]),
        ])
        portal.simulator.change { $0.hidesPrefix = true }

        // The test has one HSM token for all keys, which is an insecure setting.
        let insecure = try await portal.harness.metric(
            "paytokend_insecure_settings", #"setting="portal_key_beside_merchant_keys""#)
        #expect(insecure == [1])

        // Every merchant with a key has an age before the first read, and no list yet.
        var ages = try await portal.harness.metric("paytokend_portal_read_age_seconds")
        #expect(ages.count == 3 && ages.allSatisfy { $0 >= 0 }, "\(ages)")
        #expect(try await portal.harness.metric("paytokend_portal_findings").isEmpty)
        #expect(try await portal.harness.metric("paytokend_portal_requests_remaining").isEmpty)

        let good = try await portal.check(clean)
        #expect(good.status == 0, "\(good)")
        #expect(good.answer?["findings"]?.arrayValue?.isEmpty == true && good.answer?["readAt"]?.stringValue != nil)
        #expect(good.answer?["certificates"]?.arrayValue?.first?.string("certificateId") == "C1")

        let bad = try await portal.check(failing)
        #expect(bad.status == 1, "\(bad)")
        let findings = (bad.answer?["findings"]?.arrayValue ?? []).compactMap { $0.string("kind") }
        #expect(findings == ["active_unknown_here", "active_here_only"])
        let missing = try await portal.check(away)
        #expect(missing.status == 1, "\(missing)")
        #expect(missing.answer?["findings"]?.arrayValue?.first?.string("kind") == "merchant_not_listed")

        // The reads are less than a minute old, so nothing is read again.
        let all = try await portal.harness.paytokenctl(["rotate", "check", "--all", "--output", "json"])
        let shown = (try JSONValue(parsing: all.outputBytes).arrayValue ?? []).map { $0.string("merchantIdentifier") }
        #expect(all.status == 1 && shown == [away, failing, clean].map(\.merchant.identifier), "\(all)")

        for (merchant, kind) in [
            (failing, "active_unknown_here"), (failing, "active_here_only"), (away, "merchant_not_listed"),
        ] {
            let found = try await portal.harness.metric(
                "paytokend_portal_findings", "merchant=\"\(merchant.merchant.identifier)\"", "kind=\"\(kind)\"",
                "severity=\"\(kind == "active_unknown_here" ? "critical" : "warning")\"")
            #expect(found == [1], "\(kind)")
        }
        // A name that has no key here is read, and has no series.
        let mistyped = try await portal.check("merchant.com.example.mistyped")
        #expect(mistyped.status == 1, "\(mistyped)")
        #expect(try await portal.harness.metric("paytokend_portal_findings").count == 3)
        ages = try await portal.harness.metric("paytokend_portal_read_age_seconds")
        #expect(ages.count == 3 && ages.allSatisfy { $0 >= 0 }, "\(ages)")
        #expect(try await portal.harness.metric("paytokend_portal_requests_total", #"outcome="unauthorized""#) == [1])
        let answered = try await portal.harness.metric("paytokend_portal_requests_total", #"outcome="ok""#)
        #expect(answered.count == 1 && answered.allSatisfy { $0 >= 6 }, "\(answered)")
        #expect(try await portal.harness.metric("paytokend_portal_requests_remaining") == [3400])
        #expect(try await portal.harness.metric("paytokend_portal_work_age_seconds").count == 1)

        // Without the prefix it is the same merchant, under the name that the ledger has.
        let short = try await portal.check(String(clean.merchant.identifier.dropFirst("merchant.".count)))
        #expect(short.status == 0, "\(short)")
        #expect(short.answer?["merchantIdentifier"]?.stringValue == clean.merchant.identifier)

        portal.simulator.change { $0.fault = (500, "") }
        let unread = try await portal.check()
        #expect(unread.status == 75 && unread.error.contains("500"), "\(unread)")

        // The simulator accepts scopes without /v1 only, so the first form was refused once, and never used again.
        let requests = portal.simulator.requests
        #expect(requests.allSatisfy { $0.method == "GET" && $0.scope?.count == 1 && $0.lifetime == 100 })
        #expect(requests.map(\.status).filter { $0 == 401 }.count == 1 && requests.first?.status == 401)

        // Each token's signature is recorded, and no token is in the record or in a log.
        let record = try await portal.harness.paytokenctl([
            "audit", "list", "--merchant", clean.merchant.identifier, "--output", "json",
        ])
        let signatures = try (JSONValue(parsing: record.outputBytes).arrayValue ?? [])
            .filter { $0.string("event") == "jwt_signature" }
        #expect(signatures.count == 3, "\(signatures)")
        #expect(signatures.allSatisfy { $0.string("access") == "read" && $0.string("keyId") == "2X9R4HXF34" })
        #expect(signatures.allSatisfy { $0.string("outcome") == "ok" && $0.string("token") == "primary" })
        portal.outbound.signal(SIGTERM)
        let ended = try await portal.outbound.result(within: 30)
        #expect(ended.status == 0, "\(ended)")
        #expect(!ended.error.contains("eyJ"), "a JSON Web Token is in the log")
        let daemon = try await portal.harness.stop()
        #expect(!daemon.error.contains("eyJ"), "a JSON Web Token is in the log")
        for (path, bytes) in try portal.harness.files() {
            #expect(bytes.firstRange(of: Array("eyJhbGciOiJFUzI1NiI".utf8)) == nil, "\(path)")
        }
    }

    @Test(
        "tries both forms of a scope, each with the query, whether or not the API compares it",
        arguments: [(true, true, 0), (false, true, 1), (true, false, 0), (false, false, 1)])
    func scopes(_ hasVersion: Bool, _ comparesQuery: Bool, _ refused: Int) async throws {
        let portal = try await Portal()
        portal.simulator.change { ($0.scopeHasVersion, $0.comparesQuery) = (hasVersion, comparesQuery) }
        let found = try await portal.check()
        #expect(found.status == 1, "\(found)")
        #expect(found.answer?["findings"]?.arrayValue?.first?.string("kind") == "merchant_not_listed")
        let requests = portal.simulator.requests
        #expect(requests.map(\.status) == [Int](repeating: 401, count: refused) + [200])
        #expect(Set(requests.map(\.scope)).count == requests.count && requests.allSatisfy { $0.scope?.count == 1 })
        #expect(requests.allSatisfy { $0.scope?.first?.contains("?filter[identifier]=") == true })
    }

    @Test("compares no list that is incomplete by Apple's own count, and none whose id is not one of Apple's")
    func incomplete() async throws {
        let (short, odd) = (try Portal.forged("part"), try Portal.forged("oddi"))
        let portal = try await Portal([short, odd])
        var foreign = Portal.listed(odd, [.init(id: "C1", content: odd.certificate, isActivated: true)])
        foreign.id = "id.of.odd"
        portal.simulator.set([
            Portal.listed(short, [.init(id: "C2", content: short.certificate, isActivated: true)]), foreign,
        ])
        let refused = try await portal.check(odd)
        #expect(refused.status == 75 && refused.error.contains("10 capital letters"), "\(refused)")
        portal.simulator.change { $0.unlisted = 1 }
        let unread = try await portal.check(short)
        #expect(unread.status == 75 && unread.error.contains("answer_not_understood"), "\(unread)")
        #expect(portal.simulator.requests.allSatisfy { !$0.target.contains("id.of.odd") })
    }

    @Test("says that it is unknown if wallets use a certificate of which Apple does not say so")
    func unsaid() async throws {
        let merchant = try Portal.forged("mute")
        let portal = try await Portal([merchant])
        portal.simulator.set([
            Portal.listed(merchant, [.init(id: "C1", content: merchant.certificate, isActivated: nil)])
        ])
        let found = try await portal.check(merchant)
        #expect(found.status == 1, "\(found)")
        let finding = found.answer?["findings"]?.arrayValue?.first
        #expect(finding?.string("kind") == "activation_unknown" && finding?.string("severity") == "warning")
        let certificate = found.answer?["certificates"]?.arrayValue?.first?.objectValue
        #expect(certificate?["certificateId"]?.stringValue == "C1" && certificate?["activated"] == nil)
        let text = try await portal.harness.paytokenctl(["rotate", "check", merchant.merchant.identifier])
        #expect(text.output.contains("unknown"), "\(text)")
    }

    @Test("says that there is nothing to compare if no merchant has a key here, and checks those of compromised keys")
    func allMerchants() async throws {
        let none = try await Portal()
        let nothing = try await none.harness.paytokenctl(["rotate", "check", "--all"])
        #expect(nothing.status == 1 && nothing.error.contains("No merchant has a key in this ledger"), "\(nothing)")

        let merchant = try Portal.forged("lost")
        let portal = try await Portal([merchant])
        portal.simulator.set([
            Portal.listed(merchant, [.init(id: "C1", content: merchant.certificate, isActivated: true)])
        ])
        let reported = try await portal.harness.paytokenctl(["key", "compromise", merchant.hex, "--reason", "stolen"])
        try #require(reported.status == 0, "\(reported)")
        let all = try await portal.harness.paytokenctl(["rotate", "check", "--all", "--output", "json"])
        let kinds = try (JSONValue(parsing: all.outputBytes).arrayValue ?? [])
            .flatMap { $0.objectValue?["findings"]?.arrayValue ?? [] }.map { $0.string("kind") }
        #expect(all.status == 1 && kinds == ["active_not_active_here"], "\(all)")
    }

    @Test("reads nothing from an API that knows another key, and asks twice only")
    func otherKey() async throws {
        let portal = try await Portal(isKnown: false)
        let unread = try await portal.check()
        #expect(
            unread.status == 75 && unread.error.contains("Apple refused the API key: 401 NOT_AUTHORIZED"), "\(unread)")
        #expect(portal.simulator.requests.map(\.status) == [401, 401])
    }

    @Test("sends no token to a server whose certificate is of no trusted root")
    func otherServer() async throws {
        let portal = try await Portal(trustsServer: false)
        let unread = try await portal.check()
        #expect(unread.status == 75 && unread.error.contains("handshake_failed"), "\(unread)")
        #expect(portal.simulator.requests.isEmpty)
    }

    @Test("reads nothing without an active service key, and gives no role but portal-read to the outbound program")
    func refused() async throws {
        let merchant = try Portal.forged("nokey")
        let portal = try await Portal([merchant], importsKey: false)
        let unread = try await portal.check(merchant)
        #expect(unread.status == 75 && unread.error.contains("was not signed"), "\(unread)")
        #expect(portal.simulator.requests.isEmpty)
        // People's endpoints are on the admin socket only, and the program's on the payments socket only.
        let work = try await Curl.request("/v1/portal/work", socket: portal.harness.adminSocket, body: Array("{}".utf8))
        #expect(work.status == 404)
        let unnamed = try await Curl.request(
            "/v1/portal/work/0123456789abcdef", socket: portal.harness.socket, body: Array(#"{"status":200}"#.utf8))
        #expect(unnamed.status == 404, "\(unnamed)")
    }

    // MARK: rotate plan

    /// A merchant's new key with a certificate for its request, as Apple would issue it. It is not imported yet.
    private func begin(_ merchant: ForgedMerchant, _ portal: Portal) async throws -> (
        new: Merchant, certificate: [UInt8], file: String
    ) {
        let name = merchant.merchant.identifier
        let (request, file) = (portal.files.path("\(name).csr"), portal.files.path("\(name).cer"))
        let start = try await portal.harness.paytokenctl(["rotate", "start", name, "--out", request])
        try #require(start.status == 0, "\(start)")
        let der = try #require(
            ForgePEM.bytes(of: try Data(contentsOf: URL(filePath: request)), label: "CERTIFICATE REQUEST"))
        let certificate = try SharedForge.authority.merchantCertificate(
            certificateSigningRequest: der, profile: MerchantCertificateProfile(merchantIdentifier: name))
        try Data(certificate).write(to: URL(filePath: file))
        return (try Merchant(certificate: certificate), certificate, file)
    }

    private func plan(
        _ merchant: ForgedMerchant, _ portal: Portal, excluding node: String? = nil, status: Int32 = 0
    ) async throws -> JSONObject {
        let result = try await portal.harness.paytokenctl(
            ["rotate", "plan", merchant.merchant.identifier, "--output", "json"]
                + (node.map { ["--exclude-node", $0] } ?? []))
        try #require(result.status == status, "\(result)")
        let plans = try JSONValue(parsing: result.outputBytes).arrayValue ?? []
        try #require(plans.count == 1, "\(result)")
        return try #require(plans[0].objectValue)
    }

    private func prove(_ key: String, _ portal: Portal) async throws {
        let proved = try await portal.harness.paytokenctl(["key", "prove", key])
        try #require(proved.status == 0, "\(proved)")
    }

    @Test("plans a renewal by the keys, their recorded proofs and Apple's list", .everyEngine)
    func plans() async throws {
        let (renewed, first, issued) = (try Portal.forged("plan"), try Portal.forged("none"), try Portal.forged("live"))
        let portal = try await Portal([renewed, first, issued])
        let certified = try await begin(issued, portal)
        portal.simulator.set([
            Portal.listed(renewed, [.init(id: "C1", content: renewed.certificate, isActivated: true)]),
            Portal.listed(first, []),
            Portal.listed(
                issued,
                [
                    .init(id: "C2", content: issued.certificate, isActivated: true),
                    .init(id: "C3", content: certified.certificate, isActivated: false),
                ]),
        ])

        // Until the certificate is requested.
        var plan = try await plan(renewed, portal)
        #expect(plan["step"]?.stringValue == "generate" && plan["steps"]?.arrayValue == [])
        let new = try await begin(renewed, portal).new
        plan = try await self.plan(renewed, portal)
        #expect(
            plan["step"]?.stringValue == "prove"
                && plan["publicKeyHash"]?.stringValue == Data(new.publicKeyHash).base64EncodedString())
        let nodes = plan["nodes"]?.arrayValue?.compactMap(\.objectValue) ?? []
        let node = try #require(nodes.first?["node"]?.stringValue)
        #expect(nodes.count == 1 && nodes[0]["proved"]?.boolValue == false)
        // No proof would be needed without the only node.
        plan = try await self.plan(renewed, portal, excluding: node, status: 1)
        #expect(plan["step"]?.stringValue == "stop")
        try await prove(new.publicKeyHash.hexadecimal, portal)
        plan = try await self.plan(renewed, portal)
        #expect(plan["step"]?.stringValue == "create" && plan["next"]?.stringValue?.contains("certificate C1") == true)
        #expect(plan["nodes"]?.arrayValue?.first?.objectValue?["proved"]?.boolValue == true)

        // Wallets use no certificate, so they may use the new one as soon as it exists.
        let alone = try await begin(first, portal).new
        try await prove(alone.publicKeyHash.hexadecimal, portal)
        plan = try await self.plan(first, portal)
        #expect(plan["step"]?.stringValue == "create" && plan["next"]?.stringValue?.contains("at once") == true)

        // From the certificate to its activation.
        try await prove(certified.new.publicKeyHash.hexadecimal, portal)
        plan = try await self.plan(issued, portal)
        #expect(plan["step"]?.stringValue == "import" && plan["next"]?.stringValue?.contains("C3") == true)
        let imported = try await portal.harness.paytokenctl(["rotate", "import", certified.file])
        try #require(imported.status == 0, "\(imported)")
        plan = try await self.plan(issued, portal)
        #expect(plan["step"]?.stringValue == "prove_with_certificate")
        try await prove(certified.new.publicKeyHash.hexadecimal, portal)
        plan = try await self.plan(issued, portal)
        #expect(plan["step"]?.stringValue == "activate" && plan["next"]?.stringValue?.contains("C3") == true)
        #expect(plan["nodes"]?.arrayValue?.first?.objectValue?["provedWithCertificate"]?.boolValue == true)
        let text = try await portal.harness.paytokenctl(["rotate", "plan", issued.merchant.identifier])
        let words = text.output.split(separator: "\n").map { $0.split(separator: " ").prefix(2) }
        #expect(text.status == 0 && words.contains(["activate", "NEXT"]), "\(text)")

        // A suspended key gets no certificate.
        let suspended = try await portal.harness.paytokenctl([
            "key", "suspend", certified.new.publicKeyHash.hexadecimal, "--reason", "test",
        ])
        try #require(suspended.status == 0, "\(suspended)")
        plan = try await self.plan(issued, portal)
        #expect(plan["step"]?.stringValue == "generate")
        #expect(portal.simulator.requests.allSatisfy { $0.method == "GET" })
    }
}
