import Foundation
import NIOCore
import NIOSSL
import OutgoingConnections
import TestSupport
import Testing

@testable import Gateway
@testable import Processors

/// Connections to a server whose TLS implementation is not BoringSSL: `openssl s_server`, which requires and verifies
/// the merchant's certificate.
@Suite struct OpenSSLServerTests {
    @Test(arguments: [
        ["-tls1_2"], ["-tls1_3"], ["-tls1_2", "-client_sigalgs", "RSA+SHA256"],
        ["-tls1_2", "-client_sigalgs", "RSA-PSS+SHA256"],
        ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"],
        ["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"],
    ])
    func theMerchantsCertificateAndSignatureAreVerified(arguments: [String]) async throws {
        let server = try await OpenSSLServer(arguments)
        let sessions = try await server.sessions(RecordedSessions())
        let failure = Begun { await ending(of: sessions) }
        // s_server prints the request once it has accepted the client's certificate and signature.
        try await wait(for: "the request to arrive") { server.text.contains("POST /paymentservices/paymentSession") }
        #expect(server.text.contains("verify return:1"))
        #expect(!server.text.contains("verify error"))
        server.stop()
        #expect(try await failure.value() == .connectionLost)
    }

    /// The server's certificate is trusted, but is for another name.
    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func aServerOfAnotherNameDoesNotSeeTheMerchantsCertificate(version: String) async throws {
        let server = try await OpenSSLServer([version], certificate: .another)
        let heard = RecordedSessions()
        let sessions = try await server.sessions(heard)
        #expect(await ending(of: sessions) == .serverNameWrong)
        try await wait(for: "the alert to arrive") { server.text.contains("alert") }
        // s_server prints each certificate that it verifies.
        #expect(!server.text.contains("depth="))
        #expect(heard.signatures.current.isEmpty)
    }

    private func ending(of sessions: MerchantSessions) async -> SessionFailure? {
        do throws(SessionFailure) {
            _ = try await sessions.session(SessionBench.request)
            return nil
        } catch { return error }
    }

    /// RFC 9325 §4.2 forbids CBC.
    @Test func aServerThatSpeaksCBCOnlyGetsNoConnection() async throws {
        let server = try await OpenSSLServer(["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"])
        let heard = RecordedSessions()
        let sessions = try await server.sessions(heard, deadline: .seconds(20))
        guard case .handshakeFailed? = await ending(of: sessions) else {
            Issue.record("\(heard.handshakes.current)")
            return
        }
        #expect(heard.signatures.current.isEmpty)
    }

    /// RFC 9155: the server reports that the client offers no signature algorithm that it may use.
    @Test(arguments: ["Apple", "a processor"])
    func aServerThatSignsWithSHA1GetsNoConnection(peer: String) async throws {
        let server = try await OpenSSLServer(
            ["-tls1_2", "-cipher", "DEFAULT@SECLEVEL=0", "-sigalgs", "RSA+SHA1"], certificate: .validRSA)
        if peer == "Apple" {
            let sessions = try await server.sessions(RecordedSessions(), deadline: .seconds(20))
            _ = await ending(of: sessions)
        } else {
            let endpoint = try #require(ProcessorEndpoint("https://127.0.0.1:\(server.port)/v1"))
            let exchange = try ProcessorExchange(to: endpoint)
            _ = await exchange.get("/", before: .now + .seconds(20))
        }
        try await wait(for: "the server to find no common algorithm") {
            server.text.contains("no shared signature algorithms")
                || server.text.contains("no suitable signature algorithm")
        }
    }

    /// RFC 8446 §4.6.1: the server may send any number of session tickets, which do not belong to a response.
    @Test(arguments: ["Apple", "a processor"])
    func aServerThatSendsTicketsOnlyIsNotReadToTheDeadline(peer: String) async throws {
        // The processor presents no certificate, which the second -verify permits.
        let server = try await OpenSSLServer(["-tls1_3", "-num_tickets", "4000", "-verify", "2"])
        guard peer != "Apple" else {
            #expect(await ending(of: try await server.sessions(RecordedSessions())) == .answerTooLarge)
            return
        }
        let files = try await SimulatedAppleCertificates.shared.value
        var exchange = try ProcessorExchange(
            to: ProcessorEndpoint(place: .https(host: SimulatedAppleCertificates.hostName, port: server.port)),
            trust: NIOSSLCertificate.fromPEMFile(files.root).map { try $0.toDERBytes() })
        exchange.names = HostNames { _ in [try SocketAddress(ipAddress: "127.0.0.1", port: 0)] }
        let result = await exchange.get("/", before: .now + .seconds(120))
        guard case .unknown(.answerTooLarge) = result else {
            Issue.record("\(result)")
            return
        }
    }

    /// The server sends a HelloRequest (RFC 5246 §7.4.1.1) after the handshake.
    @Test func aRenegotiationEndsTheConnection() async throws {
        let server = try await OpenSSLServer(["-tls1_2"])
        let heard = RecordedSessions()
        let sessions = try await server.sessions(heard)
        let failure = Begun { await ending(of: sessions) }
        // s_server prints the request after the handshake.
        try await wait(for: "the request to arrive") { server.text.contains("POST /paymentservices/paymentSession") }
        try server.command("r\n")
        #expect(try await failure.value() == .connectionLost)
        // Only the first handshake used a signature.
        #expect(heard.signatures.current == ["ok"])
    }
}

/// `openssl s_server -Verify` with the certificate of a simulated Apple.
struct OpenSSLServer {
    private let program: RunningProgram
    let port: Int
    private let directory: FreshDirectory

    init(_ arguments: [String], certificate: AppleCertificate = .validECDSA) async throws {
        let files = try await SimulatedAppleCertificates.shared.value
        let line =
            [
                "s_server", "-accept", "127.0.0.1:0", "-Verify", "2", "-verify_return_error", "-CAfile",
                files.clientAuthorities, "-cert", files.certificate(certificate), "-key", files.key(certificate),
            ] + arguments
        // s_server exits when its input ends. Its input is a pipe that it also has open for writing, which never ends.
        directory = try FreshDirectory()
        let script = "mkfifo \(directory.path("commands")) && exec openssl \"$@\" <> \(directory.path("commands"))"
        program = try RunningProgram(Program.installed("sh"), ["-c", script, "sh"] + line)
        let started = program
        var port: Int?
        try await wait(for: "s_server to listen") {
            let text = String(decoding: started.outputBytes, as: UTF8.self)
            port = text.split(separator: "\n").first { $0.hasPrefix("ACCEPT ") }?.split(separator: ":").last
                .flatMap { Int($0) }
            return port != nil
        }
        self.port = try #require(port)
    }

    func stop() { program.signal(SIGKILL) }

    func command(_ text: String) throws {
        let pipe = try FileHandle(forWritingTo: URL(filePath: directory.path("commands")))
        try pipe.write(contentsOf: Data(text.utf8))
        try pipe.close()
    }

    /// The output so far.
    var text: String { String(decoding: program.outputBytes + program.errorBytes, as: UTF8.self) }

    func sessions(_ observer: RecordedSessions, deadline: Duration = .seconds(120)) async throws -> MerchantSessions {
        MerchantSessions(
            endpoint: try await SessionBench.endpoint("127.0.0.1:\(port)"),
            identities: try await SoftwareIdentities.usual(), observer: observer, deadline: deadline)
    }
}
