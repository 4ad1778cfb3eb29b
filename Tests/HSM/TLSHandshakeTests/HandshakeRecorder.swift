import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import TestSupport
import Testing

/// Records the input that swift-nio-ssl passes to a client certificate's key in a handshake with a real server over
/// loopback. The recorder refuses to sign, because later messages do not belong to the signed input.
struct HandshakeRecorder {
    let credentials: Credentials
    var version: TLSVersion
    var serverName: String? = "apple-pay-gateway.apple.com"
    var cipherSuites: [NIOTLSCipher]?

    func record(port: Int) async throws -> [UInt8] {
        let key = RecordingKey()
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        configuration.certificateChain = [
            .certificate(try NIOSSLCertificate(bytes: credentials.certificate, format: .der))
        ]
        configuration.privateKey = .privateKey(NIOSSLPrivateKey(customPrivateKey: key))
        configuration.minimumTLSVersion = version
        configuration.maximumTLSVersion = version
        if let cipherSuites { configuration.cipherSuiteValues = cipherSuites }
        let context = try NIOSSLContext(configuration: configuration)
        let serverName = serverName
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        NIOSSLClientHandler(context: context, serverHostname: serverName))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        // The connection ends when the key refuses to sign, or when the server supports another TLS version only.
        try await channel.closeFuture.get()
        return try #require(key.inputs.current.first)
    }

    /// A client's certificate in DER, for which the tests have no private key.
    struct Credentials: Sendable {
        let certificate: [UInt8]
    }
}

/// A private key that keeps the input to sign, and refuses to sign it.
private final class RecordingKey: NIOSSLCustomPrivateKey, Hashable {
    struct SignsNothing: Error {}

    let inputs = Shared<[[UInt8]]>([])
    let signatureAlgorithms: [SignatureAlgorithm] = [.rsaPssRsaeSha256, .rsaPkcs1Sha256]

    func sign(channel: any Channel, algorithm: SignatureAlgorithm, data: ByteBuffer) -> EventLoopFuture<ByteBuffer> {
        inputs.change { $0.append(Array(data.readableBytesView)) }
        return channel.eventLoop.makeFailedFuture(SignsNothing())
    }

    func decrypt(channel: any Channel, data: ByteBuffer) -> EventLoopFuture<ByteBuffer> {
        channel.eventLoop.makeFailedFuture(SignsNothing())
    }

    static func == (one: RecordingKey, other: RecordingKey) -> Bool { one === other }

    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// Servers that request a client certificate, `openssl s_server` and swift-nio-ssl, with their certificates.
struct RecordedServers {
    let directory: FreshDirectory
    let credentials: HandshakeRecorder.Credentials

    init() async throws {
        directory = try FreshDirectory()
        for (name, key) in [("rsa", "rsa:2048"), ("ec", "ec -pkeyopt ec_paramgen_curve:P-256"), ("client", "rsa:2048")]
        {
            try await directory.openssl(
                "req -x509 -newkey \(key) -nodes -days 30 -subj /CN=\(name) -keyout \(name).key -out \(name).crt")
        }
        try await directory.openssl("x509 -in client.crt -outform DER -out client.der")
        credentials = HandshakeRecorder.Credentials(
            certificate: Array(try Data(contentsOf: URL(filePath: directory.path("client.der")))))
    }

    /// - Parameters:
    ///   - certificate: the type of the server's key, `rsa` or `ec`.
    ///   - arguments: further arguments of s_server.
    func withOpenSSL<Value>(
        _ certificate: String, _ arguments: [String] = [], _ body: (Int) async throws -> Value
    ) async throws -> Value {
        let server = try RunningProgram(
            Program.installed("openssl"),
            [
                // Without -rev, s_server reads commands from standard input and exits at its end.
                "s_server", "-rev", "-accept", "127.0.0.1:0", "-naccept", "1", "-Verify", "1", "-verify_return_error",
                "-CAfile", directory.path("client.crt"), "-cert", directory.path("\(certificate).crt"),
                "-key", directory.path("\(certificate).key"),
            ] + arguments)
        var port: Int?
        try await wait(for: "s_server to listen") {
            let text = String(decoding: server.outputBytes, as: UTF8.self)
            port = text.split(separator: "\n").first { $0.hasPrefix("ACCEPT ") }?.split(separator: ":").last
                .flatMap { Int($0) }
            return port != nil
        }
        let value = try await body(try #require(port))
        server.signal(SIGTERM)
        return value
    }

    func withNIOSSL<Value>(_ certificate: String, _ body: (Int) async throws -> Value) async throws -> Value {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(directory.path("\(certificate).crt"))
                .map { .certificate($0) },
            privateKey: .privateKey(
                try NIOSSLPrivateKey(file: directory.path("\(certificate).key"), format: .pem)))
        configuration.certificateVerification = .noHostnameVerification
        configuration.trustRoots = .file(directory.path("client.crt"))
        let context = try NIOSSLContext(configuration: configuration)
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let value = try await body(try #require(server.localAddress?.port))
        try await server.close().get()
        return value
    }
}
