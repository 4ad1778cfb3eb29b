import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Access rules for callers, whom the daemon identifies by the peer that the kernel reports.
@Suite(.everyEngine) struct AccessTests {
    private static let checkout = PeerIdentity(uid: 12345, gid: 12345)
    private static let member = PeerIdentity(uid: 12346, gid: 12346, supplementaryGroups: [23456])
    private static let monitor = PeerIdentity(uid: 12347, gid: 12347)
    private static let unlisted = PeerIdentity(uid: 12348, gid: 12348)

    /// A daemon that has rules for several accounts, and whose sockets all accounts may use.
    private static let started = Task {
        var configuration = DaemonConfiguration()
        configuration.listener = ["mode: \"0666\"", "admin_mode: \"0666\""]
        configuration.access = [
            "{ name: checkout, user: \"12345\", roles: [decrypt], merchants: [\"merchant.com.example.shop\"] }",
            "{ name: backend, group: \"23456\", roles: [decrypt], require_expected: [currencyCode, transactionAmount] }",
            "{ user: \"12347\", roles: [monitor] }",
            "{ user: root, roles: [decrypt, admin, audit] }",
        ]
        let harness = try await DaemonHarness(
            configuration, merchants: [SharedForge.ecMerchant, SharedForge.rsaMerchant])
        try harness.directory.open()
        return harness
    }

    private func decrypt(
        _ merchant: ForgedMerchant, as identity: PeerIdentity, expected: String? = nil
    ) async throws -> CurlAnswer {
        let paymentToken = try SharedForge.paymentToken(for: merchant.merchant)
        return try await Curl.request(
            "/v1/decrypt", socket: Self.started.value.socket, body: paymentToken.decryptBody(expected: expected),
            as: identity)
    }

    private func ask(_ path: String, as identity: PeerIdentity) async throws -> CurlAnswer {
        try await Curl.request(path, socket: Self.started.value.adminSocket, as: identity)
    }

    private static let needsRoot: Comment = "only root can connect as other accounts"

    @Test(
        "refuses a caller the merchants that its access rule does not name",
        .enabled(if: PeerIdentity.available, needsRoot))
    func refusesOtherMerchants() async throws {
        #expect(try await decrypt(SharedForge.ecMerchant, as: Self.checkout).status == 200)
        let other = try await decrypt(SharedForge.rsaMerchant, as: Self.checkout)
        #expect(other.status == 403 && other.code == "forbidden", "\(other)")
    }

    @Test(
        "matches an access rule by a supplementary group, and requires the expectations of that rule",
        .enabled(if: PeerIdentity.available, needsRoot))
    func supplementaryGroup() async throws {
        let without = try await decrypt(SharedForge.ecMerchant, as: Self.member)
        #expect(without.status == 400 && without.code == "malformed_request", "\(without)")
        let with = try await decrypt(
            SharedForge.ecMerchant, as: Self.member, expected: "{\"currencyCode\":\"840\",\"transactionAmount\":1099}")
        #expect(with.status == 200, "\(with)")
    }

    @Test(
        "lets the role monitor read metrics, status and keys, but not decrypt",
        .enabled(if: PeerIdentity.available, needsRoot))
    func monitorRole() async throws {
        for path in ["/metrics", "/v1/status", "/v1/keys"] {
            let answer = try await ask(path, as: Self.monitor)
            #expect(answer.status == 200, "\(path): \(answer)")
        }
        let decrypted = try await decrypt(SharedForge.ecMerchant, as: Self.monitor)
        #expect(decrypted.status == 403 && decrypted.code == "forbidden", "\(decrypted)")
        for path in ["/v1/keys/import", "/v1/certificates"] {
            let answer = try await Curl.request(
                path, socket: Self.started.value.adminSocket, body: Array("{}".utf8), as: Self.monitor)
            #expect(answer.status == 403 && answer.code == "forbidden", "\(path): \(answer)")
        }
        let caller = try await ask("/v1/status", as: Self.checkout)
        #expect(caller.status == 403, "\(caller)")
    }

    @Test(
        "answers only health requests, without reasons, from a caller without an access rule",
        .enabled(if: PeerIdentity.available, needsRoot))
    func unlisted() async throws {
        let answer = try await decrypt(SharedForge.ecMerchant, as: Self.unlisted)
        #expect(answer.status == 403 && answer.code == "forbidden", "\(answer)")
        #expect(try await ask("/v1/status", as: Self.unlisted).status == 403)
        #expect(try await ask("/healthz", as: Self.unlisted).status == 200)
        #expect(try await ask("/readyz", as: Self.unlisted).status == 200)
    }

    @Test(
        "refuses a caller without an access rule before it reads the body",
        .enabled(if: PeerIdentity.available, needsRoot))
    func beforeTheBody() async throws {
        let answer = try await Curl.request(
            "/v1/decrypt", socket: Self.started.value.socket, body: Array("nonsense".utf8), as: Self.unlisted)
        #expect(answer.status == 403 && answer.code == "forbidden", "\(answer)")
    }

    @Test(
        "repeats a release only for the same caller, and refuses the same reference of another caller as a replay",
        .enabled(if: PeerIdentity.available, needsRoot))
    func repeatsByCaller() async throws {
        let paymentToken = try SharedForge.paymentToken()
        let socket = try await Self.started.value.socket
        let body = paymentToken.decryptBody(reference: "order-1")
        let first = try await Curl.request("/v1/decrypt", socket: socket, body: body, as: Self.checkout)
        #expect(first.status == 200, "\(first)")
        let other = try await Curl.request("/v1/decrypt", socket: socket, body: body)
        #expect(other.status == 409 && other.code == "transaction_replayed", "\(other)")
        let again = try await Curl.request("/v1/decrypt", socket: socket, body: body, as: Self.checkout)
        #expect(again.status == 200 && again.member("repeated")?.boolValue == true, "\(again)")
    }

    @Test("gives the daemon's own account every role if there are no access rules")
    func withoutRules() async throws {
        let harness = try await SharedDaemon.harness
        #expect(try await harness.admin("/v1/status").status == 200)
        #expect(try await harness.admin("/v1/keys").status == 200)
    }

    @Test("creates the sockets with the configured modes, or with the default modes")
    func modes() async throws {
        func mode(_ path: String) throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        }
        let harness = try await SharedDaemon.harness
        #expect(try mode(harness.socket) == 0o660)
        #expect(try mode(harness.adminSocket) == 0o600)
        if PeerIdentity.available { #expect(try await mode(Self.started.value.socket) == 0o666) }
    }

    @Test("names the changed sections that need a restart at SIGHUP, and keeps their old values")
    func reloadOfFixedSections() async throws {
        let harness = try await DaemonHarness()
        func insecure() async throws -> [Substring] {
            try await harness.admin("/metrics").text.split(separator: "\n").filter {
                $0.hasPrefix("paytokend_insecure_settings{")
            }
        }
        let before = try await insecure()
        #expect(before.contains { $0.contains("one_person") && $0.hasSuffix(" 1") })
        var configuration = DaemonConfiguration()
        configuration.listener = ["idle_timeout: 5s"]
        try harness.configure(configuration)
        let text = try String(contentsOfFile: harness.configurationFile, encoding: .utf8)
        try harness.directory.write(text.replacing("people: 1", with: "people: 2"), to: "paytokend.yaml")
        try harness.daemon.signal(SIGHUP)
        try await wait(for: "the names") { try harness.daemon.error.contains("listener, approvals") }
        // A reload does not change `approvals.people`, so the metrics still report the insecure setting.
        #expect(try await insecure() == before)
        #expect(try await harness.stop().status == 0)
    }

    @Test("applies new access rules to open connections at SIGHUP, and ignores a faulty configuration")
    func reload() async throws {
        let me = geteuid()
        var configuration = DaemonConfiguration()
        configuration.access = ["{ user: \"\(me)\", roles: [decrypt, admin] }"]
        let harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        let open = try await RawConnection(harness.socket)
        func status(over connection: RawConnection) async throws -> Int {
            let body = try SharedForge.paymentToken().verifyBody()
            try await connection.send(Array(RawConnection.head("/v1/verify", length: body.count).utf8) + body)
            return try await connection.answer().status
        }
        #expect(try await status(over: open) == 200)

        var broken = configuration
        broken.access = ["{ user: \"\(me)\", roles: [decrypt], colour: blue }"]
        try harness.configure(broken)
        try harness.daemon.signal(SIGHUP)
        try await wait(for: "the complaint") { try harness.daemon.error.contains("colour") }
        #expect(try await status(over: open) == 200)

        configuration.access = ["{ user: \"\(me)\", roles: [monitor] }"]
        try harness.configure(configuration)
        try harness.daemon.signal(SIGHUP)
        try await wait(for: "the new rule") {
            let connection = try await RawConnection(harness.socket)
            defer { Task { await connection.close() } }
            return try await status(over: connection) == 403
        }
        #expect(try await status(over: open) == 403)
        await open.close()
        #expect(try await harness.stop().status == 0)
    }
}
