import AccessControl
import ConfigurationFile
import Foundation
import HTTPListener
import TestSupport
import Testing

@testable import Gateway

@Suite("The gateway's configuration file")
struct GatewayConfigurationTests {
    let directory: FreshDirectory

    init() throws {
        directory = try FreshDirectory()
    }

    /// A configuration with one client on lines 1 to 6.
    static let minimum = """
        clients:
          - name: shop
            key_sha256: "\(String(repeating: "0a", count: 32))"
            merchants: ["*"]
            operations: [session]
            domains: [shop.example]

        """

    func load(_ text: String) throws(ConfigurationProblems) -> GatewayConfiguration {
        do {
            try directory.write(text, to: "c.yaml")
        } catch {
            throw ConfigurationProblems(problems: [])
        }
        return try GatewayConfiguration.load(path: directory.path("c.yaml"), environment: [:])
    }

    /// Returns the problems of the file, each as `LINE KEY: message`.
    func problems(_ text: String) -> [String] {
        do throws(ConfigurationProblems) {
            _ = try load(text)
            return []
        } catch {
            return error.problems.map { "\($0.line.map(String.init) ?? "-") \($0.key): \($0.message)" }
        }
    }

    @Test("fills the shortest configuration with the documented defaults")
    func defaults() throws {
        let configuration = try load(Self.minimum)
        #expect(configuration.listener.address == .network(ip: "127.0.0.1", port: 8443))
        #expect(configuration.listener.tls == nil && configuration.listener.maxRequestBytes == 131_072)
        #expect(configuration.paytokend.socket == "/run/paytokend/paytokend.sock")
        #expect(configuration.paytokend.timeout == .seconds(5) && configuration.paytokend.maxConnections == 100)
        #expect(configuration.admin.socket == "/run/paytoken-gateway/admin.sock" && configuration.admin.mode == 0o600)
        #expect(configuration.sessions.environment == .production)
        #expect(configuration.sessions.environment.host.name == "apple-pay-gateway.apple.com")
        #expect(configuration.limits.maxConnections == 1_024 && configuration.limits.maxConnectionsPerAddress == 64)
        #expect(configuration.limits.requests == .init(perSecond: 100, burst: 200))
        #expect(configuration.limits.maxPaymentsPerClient == 128)
        #expect(configuration.warnings.map(\.setting) == [.noTLS])
        let client = try #require(configuration.clients.first)
        #expect(client.credentials == [.bearerKey(sha256: [UInt8](repeating: 0x0A, count: 32))] && client.since == nil)
        #expect(client.operations == [.session] && client.domains == ["shop.example"])
    }

    @Test("warns if the clients may open more connections than there are places")
    func clientConnections() throws {
        let two =
            Self.minimum + """
                  - name: other
                    key_sha256: "\(String(repeating: "0b", count: 32))"
                    merchants: ["*"]
                    operations: [session]
                    domains: [other.example]

                """
        #expect(try load(two + "limits: { max_connections_per_client: 384 }\n").warnings.count == 1)
        let warnings = try load(two + "limits: { max_connections_per_client: 385 }\n").warnings
        #expect(warnings.map(\.setting) == [.noTLS, .clientConnections])
        #expect(warnings.last?.message.hasPrefix("max_connections leaves 768 connections") == true)
        #expect(warnings.last?.place.hasSuffix("limits") == true)
    }

    @Test("lets a single client have all connections without a warning")
    func singleClientConnections() throws {
        #expect(try load(Self.minimum + "limits: { max_connections_per_client: 769 }\n").warnings.count == 1)
    }

    @Test("loads the sample unchanged, and finds each default in it correct")
    func sample() throws {
        let file = ProjectFiles.path("hsm-config/paytoken-gateway.yaml")
        let sample = try GatewayConfiguration.load(path: file, environment: [:])
        let least = try load(Self.minimum)
        #expect(sample.listener == least.listener && sample.limits == least.limits)
        #expect(sample.paytokend == least.paytokend && sample.admin == least.admin)
        #expect(sample.sessions == least.sessions && sample.log == least.log)
        #expect(sample.clients.count == 1)
    }

    @Test("warns about an unreachable rule of admin.access; an empty list is the default")
    func adminAccess() throws {
        let empty = try load(Self.minimum + "admin: { access: [] }\n")
        let least = try load(Self.minimum)
        #expect(empty.admin == least.admin)
        let configuration = try load(
            Self.minimum
                + "admin: { access: [{ group: \"0\", roles: [monitor] }, { user: root, roles: [resolve] }, "
                + "{ user: \"77\", group: \"78\", roles: [support] }] }\n")
        let rules = configuration.admin.access.rules
        #expect(rules.map(\.roles) == [[.monitor], [.resolve], [.support]])
        #expect(rules.last?.user?.id == 77 && rules.last?.group?.id == 78)
        let warnings = configuration.warnings.filter { $0.setting == .unreachedRule }
        #expect(warnings.map(\.place).count == 1 && warnings[0].place.hasSuffix("admin.access[1].user"))
    }

    @Test(
        "warns about a server certificate that has expired or expires within thirty days, not as an insecure setting",
        arguments: [(-1.0, "ended on "), (29, "ends on "), (31, nil)] as [(Double, String?)])
    func certificateEnd(days: Double, part: String?) throws {
        let certificates = try TestCertificates(in: directory)
        let ends = Date(timeIntervalSinceNow: days * 86_400)
        try certificates.write(certificates.issue("localhost", names: ["localhost"], ends: ends), to: "ending")
        let configuration = try load(
            Self.minimum + "listener: { tls: { certificate: ending.pem, private_key: ending.key } }\n")
        let warnings = configuration.warnings
        #expect(warnings.count == (part == nil ? 0 : 1))
        #expect(warnings.allSatisfy { $0.place.hasSuffix(":7: listener.tls.certificate") && !$0.setting.isInsecure })
        #expect(warnings.allSatisfy { $0.message.contains(part ?? "") })
        let instruments = GatewayInstruments()
        instruments.show(configuration)
        #expect(!instruments.exposition().contains("certificate_end"))
    }

    @Test("reports with --check the paths that a start refuses, with their lines; a reload does not check them")
    func places() throws {
        try directory.write("", to: "file.sock")
        let text =
            Self.minimum + """
                listener: { address: "unix:absent/g.sock" }
                admin: { socket: file.sock }
                store: { url: "sqlite:~/p.sqlite" }
                processors: [{ name: a, kind: simulator, url: "unix:/s", merchants: ["*"] }]

                """
        _ = try load(text)
        let refused = #expect(throws: ConfigurationProblems.self) {
            _ = try GatewayConfiguration.load(path: directory.path("c.yaml"), environment: [:], examinesPlaces: true)
        }
        let problems = (refused?.problems ?? []).map { "\($0.line ?? 0) \($0.key): \($0.message)" }
        #expect(problems.count == 3)
        #expect(
            problems.contains { $0.hasPrefix("7 listener.address: the directory ") && $0.contains("cannot be opened") })
        #expect(problems.contains { $0.hasPrefix("8 admin.socket: ") && $0.contains("exists and is not a socket") })
        #expect(problems.contains { $0.hasPrefix("9 store.url: ") && $0.contains("~ is not expanded") })
    }

    @Test(
        "reports each problem with its line",
        arguments: [
            ("listner: {}", "7 listner: unknown key; did you mean listener?"),
            ("listener: { adress: 127.0.0.1:1 }", "7 listener.adress: unknown key; did you mean address?"),
            ("log: { level: info, level: debug }", "7 level: duplicate key"),
            ("listener: { address: localhost:8443 }", "7 listener.address: must be an IP address and a port"),
            ("listener: { address: \"127.0.0.1\" }", "7 listener.address: must be an IP address and a port"),
            ("listener: { address: \"127.0.0.1:08\" }", "7 listener.address: must be an IP address and a port"),
            ("listener: { address: \"::1:8443\" }", "7 listener.address: must be an IP address and a port"),
            ("listener: { address: \"0.0.0.0:8443\" }", "7 listener.address: needs listener.tls"),
            ("listener: { address: \"[::]:8443\" }", "7 listener.address: needs listener.tls"),
            ("listener: { mode: \"0600\" }", "7 listener.mode: is for unix:PATH only"),
            ("listener: { tls: }", "7 listener.tls: has no value"),
            ("admin: { mode: \"777\" }", "7 admin.mode: must be a socket's permission bits"),
            ("admin: { access: }", "7 admin.access: has no value"),
            ("admin: { access: [{ roles: [monitor] }] }", "7 admin.access[0].user: is missing, and so is group"),
            (
                "admin: { access: [{ user: root }] }",
                "7 admin.access[0].roles: is missing; list one or more of monitor,"
            ),
            ("admin: { access: [{ user: root, roles: [] }] }", "7 admin.access[0].roles: is empty"),
            ("admin: { access: [{ user: root, roles: [admin] }] }", "7 admin.access[0].roles[0]: “admin” is not known"),
            ("admin: { access: [{ user: nosuch-1, roles: [resolve] }] }", "7 admin.access[0].user: there is no user"),
            (
                "admin: { access: [{ group: nosuch-1, roles: [resolve] }] }",
                "7 admin.access[0].group: there is no group"
            ),
            ("admin: { access: [{ user: root, uid: 0, roles: [resolve] }] }", "7 admin.access[0].uid: unknown key"),
            ("limits: { burst: 0 }", "7 limits.burst: is out of range"),
            ("paytokend: { max_connections: 0 }", "7 paytokend.max_connections: is out of range"),
            ("limits: { max_payments_per_client: 0 }", "7 limits.max_payments_per_client: is out of range"),
            ("paytokend: { timeout: 5 }", "7 paytokend.timeout: must be a whole number and a unit"),
            ("sessions: { environment: prod }", "7 sessions.environment: must be one of"),
            ("sessions: { test_server: \"10.0.0.1:9443\" }", "7 sessions.test_server: must be a loopback address"),
            ("sessions: { test_server: \"localhost:9443\" }", "7 sessions.test_server: must be a loopback address"),
            ("sessions: { proxy: \"https://p:1\" }", "7 sessions.proxy: must be http://HOST:PORT"),
            ("sessions: { proxy: \"http://u:p@h:1\" }", "7 sessions.proxy: must be http://HOST:PORT"),
            ("sessions: { trust: [absent.pem] }", "7 sessions.trust[0]: "),
            ("deadline: 25s", "7 deadline: is for payments, and there are no processors"),
            ("store: { url: \"sqlite:p\" }", "7 store: is for payments, and there are no processors"),
            ("store:", "7 store: is for payments, and there are no processors"),
            ("processors: []", "7 processors: is empty"),
            ("processors: [{ name: a, url: \"unix:/s\", merchants: [\"*\"] }]", "7 processors[0].kind: is missing"),
            (
                "processors: [{ name: a, kind: bank, url: \"unix:/s\", merchants: [\"*\"] }]",
                "7 processors[0].kind: must be one of"
            ),
            (
                "processors: [{ name: a, kind: simulator, url: \"https://pay.example\", merchants: [\"*\"] }]",
                "7 processors[0].url: must be unix:PATH or http:// with a loopback"
            ),
            (
                "processors: [{ name: a, kind: simulator, url: \"http://10.0.0.1\", merchants: [\"*\"] }]",
                "7 processors[0].url: must be https://HOST/PATH"
            ),
            (
                "processors: [{ name: a, kind: simulator, url: \"unix:/s\" }]",
                "7 processors[0].merchants: is missing or empty"
            ),
            (
                "store: { url: \"postgresql://a:secret@db/x\" }\nprocessors: [{ name: a, kind: simulator, url: \"unix:/s\", merchants: [\"*\"] }]",
                "7 store.url: must not contain a password"
            ),
            (
                "store: { url: \"mysql://db/x\" }\nprocessors: [{ name: a, kind: simulator, url: \"unix:/s\", merchants: [\"*\"] }]",
                "7 store.url: must be sqlite:PATH, or a connection URI that begins with postgresql://"
            ),
            (
                "store: { url: \"postgresql://db/x?sslrootcert=ca.pem\" }\nprocessors: [{ name: a, kind: simulator, url: \"unix:/s\", merchants: [\"*\"] }]",
                "7 store.url: the file of its sslrootcert"
            ),
            (
                "store: { url: \"sqlite:/s\", password_file: /p }\nprocessors: [{ name: a, kind: simulator, url: \"unix:/s\", merchants: [\"*\"] }]",
                "7 store.password_file: is for a store in PostgreSQL"
            ),
            (
                "processors: [{ name: a, kind: radial, url: \"http://127.0.0.1:80\", headers_file: key, merchants: [\"*\"] }]",
                "7 processors[0].url: must be https://HOST/v1.0/stores/STORE/payments"
            ),
            (
                "processors: [{ name: a, kind: radial, url: \"unix:/s\", headers_file: key, merchants: [\"*\"] }]",
                "7 processors[0].url: must be https://HOST/v1.0/stores/STORE/payments"
            ),
            (
                "processors: [{ name: a, kind: radial, url: \"https://r.example/\", headers_file: key, merchants: [\"*\"] }]",
                "7 processors[0].url: must be https://HOST/v1.0/stores/STORE/payments"
            ),
            (
                "processors: [{ name: a, kind: radial, url: \"https://r.example/p\", merchants: [\"*\"] }]",
                "7 processors[0].headers_file: is missing or empty; Radial identifies a store by its key"
            ),
            (
                "processors: [{ name: a, kind: radial, url: \"https://r.example/p\", headers_file: key, merchants: [\"*\"], beside_real: true }]",
                "7 processors[0].beside_real: is for a simulator"
            ),
            (
                "deadline: 5s\nprocessors: [{ name: a, kind: radial, url: \"https://r.example/p\", headers_file: key, merchants: [\"*\"] }]",
                "7 deadline: is shorter than 6s"
            ),
            (
                "processors: [{ name: a, kind: simulator, url: \"unix:/s\", merchants: [\"*\"], trust: [none.pem] }]",
                "7 processors[0].trust: is for an https:// URL"
            ),
            (
                "processors: [{ name: a, kind: radial, url: \"https://r.example/p\", headers_file: key, merchants: [\"*\"], trust: [none.pem] }]",
                "7 processors[0].trust[0]: "
            ),
        ])
    func says(section: String, problem: String) throws {
        try directory.write("apikey: k-1\n", to: "key", mode: 0o600)
        let found = problems(Self.minimum + section + "\n")
        #expect(found.count == 1, "\(found)")
        #expect(found.first?.hasPrefix(problem) == true, "\(found)")
    }

    @Test("accepts a loopback address, a Unix socket and a test server, and warns about what weakens the service")
    func taken() throws {
        let ipv6 = try load(Self.minimum + "listener: { address: \"[::1]:0\" }\n")
        #expect(ipv6.listener.address == .network(ip: "::1", port: 0))
        let unix = try load(Self.minimum + "listener: { address: \"unix:g.sock\", mode: \"0666\" }\n")
        #expect(unix.listener.address == .unix(path: directory.path("g.sock"), mode: 0o666, group: nil))
        #expect(unix.warnings.isEmpty)
        let test = try load(
            Self.minimum + "sessions: { test_server: \"127.0.0.1:9443\", proxy: \"http://p.example:8080/\" }\n")
        #expect(test.sessions.testServer?.text == "127.0.0.1:9443")
        #expect(test.sessions.proxy == .init(host: "p.example", port: 8080))
        #expect(test.warnings.map(\.setting) == [.noTLS, .testServer])
    }

    @Test("warns that Radial was never tried, and accepts a simulator with it only if the entry says so")
    func radial() throws {
        let radial =
            "processors:\n  - { name: r, kind: radial, url: \"https://r.example/v1.0/stores/S/payments\", headers_file: key, merchants: [a] }\n"
        try directory.write("apikey: k-1\n", to: "key", mode: 0o600)
        let alone = try load(Self.minimum + radial)
        #expect(alone.payments?.processors.first?.headers == [.init(name: "apikey", value: "k-1")])
        #expect(alone.warnings.map(\.setting) == [.untriedProcessor, .noTLS])
        #expect(alone.payments?.processors.first?.endpoint.basePath == "/v1.0/stores/S/payments")
        func simulator(_ more: String) -> String {
            radial + "  - { name: s, kind: simulator, url: \"unix:/s\", merchants: [\"*\"]\(more) }\n"
        }
        for more in ["", ", beside_real: false"] {
            let found = problems(Self.minimum + simulator(more))
            #expect(found.count == 1, "\(found)")
            #expect(
                found.first?.hasPrefix("9 processors[1].kind: is a simulator next to a processor that moves") == true)
        }
        let both = try load(Self.minimum + simulator(", beside_real: true"))
        #expect(
            both.warnings.map(\.setting) == [.untriedProcessor, .simulator, .simulatorWithReal, .noTLS])
        _ = try TestCertificates(in: directory)
        let trusting = try load(Self.minimum + radial.replacing("merchants:", with: "trust: [ca.pem], merchants:"))
        #expect(trusting.warnings.map(\.setting) == [.processorTrust, .untriedProcessor, .noTLS])
        #expect(trusting.payments?.processors.first?.trust == [directory.path("ca.pem")])
    }

    @Test("refuses a key that others can read, or of another certificate")
    func keys() async throws {
        let certificates = try TestCertificates(in: directory)
        let tls = "listener: { tls: { certificate: server.pem, private_key: server.key } }\n"
        #expect(try load(Self.minimum + tls).listener.tls?.certificates.count == 1)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: directory.path("server.key"))
        #expect(problems(Self.minimum + tls).first?.contains("has mode 0644, so others can access it") == true)
        try certificates.write(certificates.other, to: "other")
        let crossed = tls.replacing("server.key", with: "other.key")
        #expect(problems(Self.minimum + crossed).first?.contains("is not the key of the certificate") == true)
        let swapped = tls.replacing("server.pem", with: "other.key").replacing("server.key }", with: "other.pem }")
        #expect(problems(Self.minimum + swapped).count == 2)
    }

    @Test(
        "orders addresses in network byte order",
        arguments: [
            ("192.0.2.1", [192, 0, 2, 1]), ("::1", [UInt8](repeating: 0, count: 15) + [1]),
            ("2001:db8::ff00:42:8329", [0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0xFF, 0, 0, 0x42, 0x83, 0x29]),
            ("::ffff:192.0.2.1", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1]),
        ])
    func packs(text: String, bytes: [UInt8]) {
        #expect(NetworkAddress.packed(text) == bytes)
    }

    @Test("counts an IPv6 network as one source, and each IPv4 address as its own")
    func sources() throws {
        func source(_ ip: String) throws -> NetworkPeer {
            try NetworkPeer(.address(try #require(NetworkAddress.packed(ip))))
        }
        #expect(try source("2001:db8:1:2::1").source == source("2001:db8:1:2:ffff::9").source)
        #expect(try source("2001:db8:1:2::1").source != source("2001:db8:1:3::1").source)
        #expect(try source("192.0.2.1").source != source("192.0.2.2").source)
        #expect(try source("::ffff:192.0.2.1").source != source("::ffff:192.0.2.2").source)
        // A Unix socket has no addresses, so all processes of an account are one source.
        #expect(try NetworkPeer(.user(7)).source == .user(7))
    }
}
