import Foundation
import NIOCore
import NIOSSL
import Processors
import Telemetry
import TestSupport
import Testing

@testable import Gateway
@testable import HTTPListener

/// The listener over TLS, with curl and openssl s_client as clients. swift-nio-ssl produces the faults that they cannot
/// produce.
@Suite("TLS and client certificates")
struct TLSTests {
    let directory: FreshDirectory
    let certificates: TestCertificates

    init() throws {
        directory = try FreshDirectory()
        certificates = try TestCertificates(in: directory)
    }

    private static let listens =
        "{ address: \"127.0.0.1:0\", tls: { certificate: server.pem, private_key: server.key, client_ca: ca.pem } }"

    /// A gateway with the clients `shop` (by its key), `pinned` (by a self-signed certificate) and `issued` (by a name
    /// in a certificate of the authority).
    func gateway(sections: String = "") async throws -> GatewayFixture {
        let more = """
              - name: pinned
                certificate_sha256: "\(try certificates.other.sha256)"
                merchants: ["*"]
                operations: [session]
                domains: [shop.example]
              - name: issued
                certificate_san: [backend.shop.example, "spiffe://shop.example/backend"]
                merchants: ["*"]
                operations: [session]
                domains: [shop.example]

            """
        return try await GatewayFixture(
            in: directory, listens: Self.listens, clients: GatewayFixture.clients(more), sections: sections)
    }

    /// - Returns: curl's exit status and its output: the body, then the HTTP status on a separate line.
    private func curl(
        _ gateway: GatewayFixture, _ arguments: [String] = [], path: String = "/whoami", key: String? = nil
    ) async throws -> ProgramResult {
        try await Program.run(
            Program.installed("curl"),
            [
                "--silent", "--show-error", "--max-time", "100", "--cacert", directory.path("ca.pem"), "--write-out",
                "\n%{http_code}",
            ] + (key.map { ["--header", "Authorization: Bearer \($0)"] } ?? []) + arguments
                + ["https://127.0.0.1:\(try gateway.port)\(path)"])
    }

    private func certificate(_ name: String) -> [String] {
        ["--cert", directory.path("\(name).pem"), "--key", directory.path("\(name).key")]
    }

    @Test("accepts TLS 1.2 and 1.3, and no older version", arguments: ["1.2", "1.3"])
    func versions(version: String) async throws {
        try await gateway().use { gateway in
            let answer = try await curl(
                gateway, ["--tlsv\(version)", "--tls-max", version], key: GatewayFixture.key)
            #expect(answer.output == "shop 0\n200", "\(answer)")
            let old = try await Program.run(
                Program.installed("openssl"),
                [
                    "s_client", "-connect", "127.0.0.1:\(try gateway.port)", version == "1.2" ? "-tls1_1" : "-tls1",
                    "-cipher", "ALL:@SECLEVEL=0",
                ])
            #expect(old.status != 0 && old.output.contains("Cipher is (NONE)"), "\(old)")
            try await wait(for: "the failure to be counted") {
                gateway.assembly.instruments.handshakes.value(["failed"]) == 1
            }
        }
    }

    /// Here openssl plays no server of an older version, and the listener's cipher suites alone exclude one.
    @Test("restricts each configuration, the clients' too, to TLS 1.2 and 1.3")
    func oldest() {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv1
        configuration.restrictAlgorithms()
        #expect(configuration.minimumTLSVersion == .tlsv12 && configuration.maximumTLSVersion == nil)
    }

    /// RFC 9325 §4.1 and §4.2 forbid RSA key transport and CBC.
    @Test(
        "accepts TLS 1.2 only with an ephemeral key and an AEAD",
        arguments: ["AES128-GCM-SHA256", "AES128-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA"])
    func ciphers(cipher: String) async throws {
        // The server's key is RSA, so that every cipher suite could be negotiated.
        let files = try await SimulatedAppleCertificates.shared.value
        for (file, name) in [(files.certificate(.validRSA), "server.pem"), (files.key(.validRSA), "server.key")] {
            try directory.write(String(contentsOfFile: file, encoding: .utf8), to: name)
        }
        try await gateway().use { gateway in
            let chosen = try await offer(cipher, to: gateway)
            #expect(chosen.status != 0 && chosen.output.contains("Cipher is (NONE)"), "\(chosen)")
            let good = try await offer("ECDHE-RSA-AES128-GCM-SHA256", to: gateway)
            #expect(good.output.contains("Cipher is ECDHE-RSA-AES128-GCM-SHA256"), "\(good)")
        }
    }

    /// RFC 9155 forbids SHA-1 signatures in TLS 1.2. RFC 7301 defines ALPN.
    @Test("never signs with SHA-1 in TLS 1.2, offers http/1.1 only, and logs failures within bounds")
    func signatures() async throws {
        let files = try await SimulatedAppleCertificates.shared.value
        for (file, name) in [(files.certificate(.validRSA), "server.pem"), (files.key(.validRSA), "server.key")] {
            try directory.write(String(contentsOfFile: file, encoding: .utf8), to: name)
        }
        try await gateway().use { gateway in
            let began = ContinuousClock.now
            for algorithm in ["RSA+SHA1", "RSA+SHA1"] {
                let refused = try await offer("DEFAULT@SECLEVEL=0", ["-sigalgs", algorithm], to: gateway)
                #expect(refused.output.contains("Cipher is (NONE)"), "\(refused)")
            }
            let lines = gateway.log.current.filter { $0.contains("TLS handshake failed") }
            let most = 1 + Int((ContinuousClock.now - began) / BoundedLines<ConnectionSource>.interval)
            #expect(
                (1...most).contains(lines.count) && lines[0].contains("refusal.details=NO_SHARED_CIPHER "), "\(lines)")
            let good = try await offer("DEFAULT", ["-sigalgs", "RSA+SHA256", "-alpn", "h2,http/1.1"], to: gateway)
            #expect(good.output.contains("Cipher is ECDHE-RSA"), "\(good)")
            #expect(good.output.contains("ALPN protocol: http/1.1"))
            let requested = good.output.split(separator: "\n").first { $0.hasPrefix("Requested Signature Algorithms:") }
            #expect(requested?.contains("RSA+SHA256") == true && requested?.contains("SHA1") == false, "\(good)")
            // A client that offers only another protocol gets a connection without ALPN, and can decide whether to use
            // it.
            let other = try await offer("DEFAULT", ["-alpn", "h2"], to: gateway)
            #expect(other.output.contains("No ALPN negotiated"), "\(other)")
        }
    }

    private func offer(
        _ cipher: String, _ arguments: [String] = [], to gateway: GatewayFixture
    ) async throws -> ProgramResult {
        try await Program.run(
            Program.installed("openssl"),
            ["s_client", "-connect", "127.0.0.1:\(try gateway.port)", "-tls1_2", "-cipher", cipher] + arguments)
    }

    @Test("recognises a certificate with a configured hash from any issuer, and no other one")
    func pinned() async throws {
        try await gateway().use { gateway in
            #expect(try await curl(gateway, certificate("other")).output == "pinned 0\n200")
            try certificates.write(certificates.issue("x", names: ["else.shop.example"]), to: "else")
            let unknown = try await curl(gateway, certificate("else"))
            #expect(unknown.output.hasSuffix("\n401") && unknown.output.contains("no client has its SHA-256 or one"))
            #expect(try await curl(gateway).output.hasSuffix("\n401"))
        }
    }

    @Test("accepts a name only in a valid certificate of the configured authority")
    func issued() async throws {
        try await gateway().use { gateway in
            #expect(try await curl(gateway, certificate("client")).output == "issued 0\n200")
            let ended = try certificates.issue(
                "late", names: ["backend.shop.example"], ends: Date(timeIntervalSinceNow: -30))
            try certificates.write(ended, to: "ended")
            let late = try await curl(gateway, certificate("ended")).output
            #expect(late.hasSuffix("\n401") && late.contains("it is not valid now"), "\(late)")
            // In a certificate whose only names are alternative names, these are critical (RFC 5280 §4.2.1.6).
            try certificates.write(
                certificates.issue("w", uris: ["spiffe://shop.example/backend"], isCritical: true), to: "workload")
            #expect(try await curl(gateway, certificate("workload")).output == "issued 0\n200")
            try certificates.write(
                certificates.issue("s", names: ["backend.shop.example"], isClient: false, isCritical: true),
                to: "server-only")
            let server = try await curl(gateway, certificate("server-only")).output
            #expect(server.hasSuffix("\n401") && server.contains("does not name clientAuth"), "\(server)")
            // This certificate has the same name, but another authority issued it.
            let outsider = try TestCertificates(in: FreshDirectory())
            try outsider.write(outsider.client, to: "client")
            let elsewhere = try await curl(
                gateway,
                ["--cert", outsider.directory.path("client.pem"), "--key", outsider.directory.path("client.key")])
            #expect(elsewhere.output.hasSuffix("\n401"), "\(elsewhere)")
            #expect(elsewhere.output.contains("no path of issuers leads from it"), "\(elsewhere)")
        }
    }

    @Test("rejects a certificate after a reload without its entry, and presents the new server certificate")
    func reload() async throws {
        try await gateway().use { gateway in
            let before = try await tls()
            let open = try await RawConnection(port: gateway.port, transport: before)
            let request = "GET /whoami HTTP/1.1\r\n\(GatewayFixture.authorized)\r\n"
            try await open.send(request)
            #expect(try await open.answer().status == 200)

            let renewed = try TestCertificates(in: FreshDirectory())
            for name in ["server.pem", "server.key"] {
                let text = try String(contentsOfFile: renewed.directory.path(name), encoding: .utf8)
                try directory.write(text, to: name)
            }
            let text = try String(contentsOfFile: gateway.configurationFile, encoding: .utf8)
            try directory.write(
                text.replacing(try certificates.other.sha256, with: String(repeating: "ab", count: 32)), to: "c.yaml")
            await gateway.reload()
            // The old connection continues; new connections receive the new certificate.
            try await open.send(request)
            #expect(try await open.answer().status == 200)
            #expect(
                try await curl(gateway, key: GatewayFixture.key).status != 0, "the old authority is believed no more")
            let trusted = ["--cacert", renewed.directory.path("ca.pem")]
            #expect(try await curl(gateway, trusted, key: GatewayFixture.key).output == "shop 0\n200")
            #expect(try await curl(gateway, trusted + certificate("other")).output.hasSuffix("\n401"))

            // The new key does not match the certificate, so the reload changes nothing.
            try directory.write(certificates.client.key.pemRepresentation, to: "server.key")
            await gateway.reload()
            #expect(try await curl(gateway, trusted, key: GatewayFixture.key).output == "shop 0\n200")
        }
    }

    /// Sends s_client's request as `name`, with a full handshake or a resumed session.
    func request(
        _ gateway: GatewayFixture, _ version: String, as name: String, _ arguments: [String]
    ) async throws -> ProgramResult {
        try await Program.run(
            Program.installed("openssl"),
            ["s_client", "-connect", "127.0.0.1:\(try gateway.port)", version, "-ign_eof"] + arguments
                + ["-cert", directory.path("\(name).pem"), "-key", directory.path("\(name).key")],
            input: Array("GET /whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
    }

    /// TLS keeps a session's certificates, from any issuer, for as long as the session may be resumed. A long chain
    /// would occupy memory for that time.
    @Test(
        "gives no session to a client with more certificates than a chain may have", arguments: ["-tls1_2", "-tls1_3"]
    )
    func longChain(version: String) async throws {
        try await gateway().use { gateway in
            let issuers = try (0..<4).reduce(into: [TestCertificates.Pair]()) { issuers, number in
                issuers.insert(try certificates.issueAuthority("\(number)", by: issuers.first), at: 0)
            }
            let leaf = try certificates.issue("long", names: ["backend.shop.example"], by: issuers.first)
            try certificates.write(leaf, to: "long")
            let chain = try issuers.map { issuer in
                let lines = Data(try issuer.der).base64EncodedString(options: .lineLength64Characters)
                return "-----BEGIN CERTIFICATE-----\n\(lines)\n-----END CERTIFICATE-----\n"
            }
            try directory.write(chain.joined(), to: "chain.pem")
            let answer = try await request(
                gateway, version, as: "long", ["-cert_chain", directory.path("chain.pem")])
            #expect(!answer.output.contains("HTTP/1.1"), "\(answer)")
            try await wait(for: "the failure to be counted") {
                gateway.assembly.instruments.handshakes.value(["failed"]) == 1
            }
        }
    }

    /// A pipeline initialiser that adds swift-nio-ssl's TLS client, without verification of the server.
    private func tls() async throws -> @Sendable (ChannelPipeline.SynchronousOperations) throws -> Void {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        let context = try NIOSSLContext(configuration: configuration)
        return { try $0.addHandler(NIOSSLClientHandler(context: context, serverHostname: nil)) }
    }

    @Test(
        "closes a connection without TLS on the TLS port silently",
        arguments: ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\u{0}\u{1}\u{2}"])
    func plaintext(bytes: String) async throws {
        try await gateway().use { gateway in
            let client = try await RawConnection(port: gateway.port)
            client.sendLossy(bytes + String(repeating: "x", count: 64))
            try await client.waitForEnd()
            #expect(!client.text.hasPrefix("HTTP/"))
        }
    }

    @Test("ends a handshake that never completes, and a connection that sends nothing after it")
    func silence() async throws {
        let sections = "limits: { authentication_timeout: 300ms, idle_timeout: 10m }\n"
        try await gateway(sections: sections).use { gateway in
            let silent = try await RawConnection(port: gateway.port)
            try await silent.waitForEnd()
            let begun = try await RawConnection(port: gateway.port)
            // The first bytes of a record with a ClientHello.
            begun.sendLossy("\u{16}\u{3}\u{1}")
            try await begun.waitForEnd()
            #expect(gateway.assembly.instruments.handshakes.value(["timeout"]) == 2)
            let idle = try await RawConnection(port: gateway.port, transport: try await tls())
            try await idle.waitForEnd()
            try await wait(for: "a client that is quick enough") {
                try await curl(gateway, key: GatewayFixture.key).output == "shop 0\n200"
            }
        }
    }

    @Test("refuses a TLS 1.2 renegotiation with an alert, and ends the connection")
    func renegotiation() async throws {
        try await gateway().use { gateway in
            // s_client interprets R as a command only if its input stays open.
            let script = """
                mkfifo commands && { openssl s_client -connect 127.0.0.1:\(try gateway.port) -tls1_2 <commands 2>&1 & } && \
                exec 3>commands && echo R >&3 && wait $!
                """
            let asked = try await RunningProgram(
                Program.installed("sh"), ["-c", script], workingDirectory: directory.path
            ).result()
            // s_client has exited because the gateway closed its connection.
            #expect(
                asked.output.contains("RENEGOTIATING") && asked.output.contains("alert no renegotiation"), "\(asked)")
            #expect(try await curl(gateway, key: GatewayFixture.key).output == "shop 0\n200")
        }
    }

    @Test("lets one address with very many connections keep out no other")
    func flood() async throws {
        let sections =
            "limits: { max_connections: 40, max_connections_per_address: 20, authentication_timeout: 60s, idle_timeout: 10m }\n"
        try await gateway(sections: sections).use { gateway in
            var flood: [RawConnection] = []
            for _ in 0..<200 {
                if let connection = try? await RawConnection(port: gateway.port, from: "127.0.0.2") {
                    flood.append(connection)
                }
            }
            try await wait(for: "the excess to be closed") { flood.count { !$0.isClosed } <= 10 }
            #expect(try await curl(gateway, key: GatewayFixture.key).output == "shop 0\n200")
            #expect(gateway.assembly.instruments.refusedConnections.value() >= 190)
            for connection in flood { await connection.close() }
        }
    }

    @Test("lets many addresses that reopen as many connections as they can keep out no client")
    func manyAddresses() async throws {
        let sections =
            "limits: { handshakes_per_second: 100000, authentication_timeout: 60s, idle_timeout: 10m }\n"
        try await gateway(sections: sections).use { gateway in
            let (port, isOver) = (try gateway.port, Shared(false))
            // The addresses together hold as many connections as there are places, and reopen each one that is closed.
            try await withThrowingTaskGroup(of: Void.self) { flood in
                for address in 2..<18 {
                    flood.addTask {
                        var held: [RawConnection] = []
                        while !isOver.current {
                            held.removeAll { $0.isClosed }
                            if held.count < 64,
                                let more = try? await RawConnection(port: port, from: "127.0.0.\(address)")
                            {
                                held.append(more)
                            } else {
                                try await Task.sleep(for: .milliseconds(5))
                            }
                        }
                        for connection in held { await connection.close() }
                    }
                }
                let refused = gateway.assembly.instruments.refusedConnections
                try await wait(for: "more connections than there are places") { refused.value() > 256 }
                for _ in 0..<5 {
                    #expect(try await curl(gateway, key: GatewayFixture.key).output == "shop 0\n200")
                    #expect(try await curl(gateway, certificate("client")).output == "issued 0\n200")
                }
                isOver.change { $0 = true }
                try await flood.waitForAll()
            }
        }
    }

    @Test("bounds handshakes that identify no client for each address, and not those of clients")
    func handshakeRate() async throws {
        let sections =
            "limits: { handshakes_per_second: 1, max_connections_per_address: 2, authentication_timeout: 60s, idle_timeout: 10m }\n"
        try await gateway(sections: sections).use { gateway in
            for _ in 0..<8 { #expect(try await curl(gateway, key: GatewayFixture.key).output == "shop 0\n200") }
            // The address may make several handshakes at once, so the test repeats them until one is refused.
            var answers = ""
            try await wait(for: "a refused handshake") {
                answers = try await curl(gateway).output
                return answers == "\n000"
            }
        }
    }

    @Test("does not count connections of a known client for its address")
    func behindOneAddress() async throws {
        let sections = "limits: { max_connections_per_address: 2, authentication_timeout: 60s, idle_timeout: 10m }\n"
        try await gateway(sections: sections).use { gateway in
            var kept: [RawConnection] = []
            for _ in 0..<6 {
                let connection = try await RawConnection(port: gateway.port, transport: try await tls())
                try await connection.send("GET /whoami HTTP/1.1\r\n\(GatewayFixture.authorized)\r\n")
                #expect(try await connection.answer().status == 200)
                kept.append(connection)
            }
            #expect(kept.allSatisfy { !$0.isClosed })
        }
    }
}
