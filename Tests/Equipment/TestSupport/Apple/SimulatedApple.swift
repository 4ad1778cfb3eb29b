import Foundation
import NIOCore
import NIOPosix
public import NIOSSL
import StrictJSON
import X509

/// A simulation of Apple's host for merchant sessions. It requires a merchant's TLS certificate, and sends the answers
/// that a test chooses.
public final class SimulatedApple: Sendable {
    /// A request that the host received.
    public struct Request: Sendable {
        public let method: String
        public let target: String
        /// The header fields, with names in lower case.
        public let headers: [String: String]
        public let body: [UInt8]
        /// The server name from the TLS ClientHello.
        public let serverName: String?
        /// The UID in the subject of the client's certificate.
        public let merchantIdentifier: String?
        /// The number of the connection, counted from 1.
        public let connection: Int

        /// The body's member `name`; nil if it is not a string.
        public func string(_ name: String) -> String? {
            (try? JSONValue(parsing: body))?.objectValue?[name]?.stringValue
        }
        /// The names of the members of the body, in order.
        public var members: [String] { (try? JSONValue(parsing: body))?.objectValue?.members.map(\.name) ?? [] }
    }

    /// The answer to a request.
    public enum Behaviour: Sendable {
        /// A session, if the certificate's UID equals the body's merchantIdentifier; otherwise status 417.
        case session
        /// A complete answer with this status, these header fields and this body.
        case answer(Int, [String] = [], String = "{}")
        /// Exactly these bytes. The connection stays open.
        case raw(String)
        /// These bytes, after which the connection closes.
        case cutShort(String)
        /// The first bytes once, and then the second ones repeatedly for as long as the client reads.
        case endless(String, String)
        /// No bytes. The connection stays open.
        case silence
    }

    /// The body of ``Behaviour/session``. Its JSON has unusual spacing, so that a test notices if a program rewrites
    /// it.
    public static let session =
        "{ \"epochTimestamp\":1,\n\t\"merchantSessionIdentifier\": \"SSH\\u0041\", \"x\":1.0e0 }\n"

    private let channel: any Channel
    private let received = Shared<[Request]>([])
    private let connections = Shared<[any Channel]>([])

    public var requests: [Request] { received.current }
    /// The number of connections accepted so far.
    public var connectionCount: Int { connections.current.count }
    public let port: Int

    /// Starts the host on a free port.
    ///
    /// - Parameters:
    ///   - signatureAlgorithms: the algorithms permitted for the client's signature; nil for the library's defaults.
    ///   - behaviours: the answers to the requests, in order. The last one answers all further requests.
    public init(
        _ behaviours: [Behaviour] = [.session], certificate: AppleCertificate = .validECDSA,
        versions: ClosedRange<Int> = 2...3, signatureAlgorithms: [SignatureAlgorithm]? = nil
    ) async throws {
        let files = try await SimulatedAppleCertificates.shared.value
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(files.certificate(certificate)).map {
                .certificate($0)
            },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: files.key(certificate), format: .pem)))
        configuration.certificateVerification = .noHostnameVerification
        configuration.trustRoots = .file(files.clientAuthorities)
        configuration.minimumTLSVersion = versions.lowerBound == 2 ? .tlsv12 : .tlsv13
        configuration.maximumTLSVersion = versions.upperBound == 2 ? .tlsv12 : .tlsv13
        if let signatureAlgorithms { configuration.verifySignatureAlgorithms = signatureAlgorithms }
        let context = try NIOSSLContext(configuration: configuration)
        let steps = Shared(behaviours)
        let (received, connections) = (received, connections)
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    connections.change { $0.append(channel) }
                    try channel.pipeline.syncOperations.addHandlers([
                        ServerNameReader(), NIOSSLServerHandler(context: context),
                        SimulatedAppleConnection(
                            number: connections.current.count, received: received, behaviours: steps),
                    ])
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        port = channel.localAddress?.port ?? 0
    }

    deinit { channel.close(promise: nil) }

    /// The address, in the form of the setting `sessions.test_server`.
    public var address: String { "127.0.0.1:\(port)" }

    /// Stops accepting connections.
    public func stop() async throws { try await channel.close().get() }

    /// Closes all connections, as a server does after an idle time.
    public func endConnections() async throws {
        for connection in connections.current { try? await connection.close().get() }
    }
}

/// Finds the production host's name in the ClientHello (RFC 6066 §3) by a search for its extension, without parsing the
/// message.
private final class ServerNameReader: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private var isFirst = true

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isFirst {
            isFirst = false
            let hello = Array(unwrapInboundIn(data).readableBytesView)
            let name = Array(SimulatedAppleCertificates.hostName.utf8)
            // The extension consists of its type 0, its length, the list's length, the name type 0 (host name), the
            // name's length, and the name.
            let length = UInt8(name.count)
            let field = [0, 0, 0, length + 5, 0, length + 3, 0, 0, length] + name
            if hello.firstRange(of: field) != nil {
                context.fireUserInboundEventTriggered(ServerName(name: SimulatedAppleCertificates.hostName))
            }
        }
        context.fireChannelRead(data)
    }
}

private struct ServerName: Sendable {
    let name: String
}

private final class SimulatedAppleConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let number: Int
    private let received: Shared<[SimulatedApple.Request]>
    private let behaviours: Shared<[SimulatedApple.Behaviour]>
    private var bytes: [UInt8] = []
    private var serverName: String?

    init(
        number: Int, received: Shared<[SimulatedApple.Request]>, behaviours: Shared<[SimulatedApple.Behaviour]>
    ) {
        self.number = number
        self.received = received
        self.behaviours = behaviours
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let event = event as? ServerName { serverName = event.name }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes += unwrapInboundIn(data).readableBytesView
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        let length = Int(headers["content-length"] ?? "") ?? 0
        guard bytes.count >= end.upperBound + length else { return }
        let words = lines[0].split(separator: " ")
        let request = SimulatedApple.Request(
            method: String(words[0]), target: String(words[1]), headers: headers,
            body: Array(bytes[end.upperBound..<end.upperBound + length]), serverName: serverName,
            merchantIdentifier: Self.userID(try? context.pipeline.syncOperations.nioSSL_peerCertificate()),
            connection: number)
        bytes.removeFirst(end.upperBound + length)
        received.change { $0.append(request) }
        let known = behaviours.current
        answer(request, known[min(received.current.count, known.count) - 1], context)
    }

    private func answer(
        _ request: SimulatedApple.Request, _ behaviour: SimulatedApple.Behaviour, _ context: ChannelHandlerContext
    ) {
        func write(_ text: String) {
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
        }
        func whole(_ status: Int, _ headers: [String], _ body: String) {
            let lines =
                ["HTTP/1.1 \(status) X", "Content-Type: application/json", "Content-Length: \(body.utf8.count)"]
                + headers
            write(lines.joined(separator: "\r\n") + "\r\n\r\n" + body)
        }
        switch behaviour {
        case .session:
            let fits =
                request.merchantIdentifier != nil && request.merchantIdentifier == request.string("merchantIdentifier")
            if fits { whole(200, [], SimulatedApple.session) } else { whole(417, [], "{}") }
        case .answer(let status, let headers, let body): whole(status, headers, body)
        case .raw(let text): write(text)
        case .cutShort(let text):
            write(text)
            context.close(promise: nil)
        case .endless(let first, let more):
            write(first)
            repeatWriting(more, context)
        case .silence: break
        }
    }

    private func repeatWriting(_ text: String, _ context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let many = String(repeating: text, count: 1 + 4096 / text.utf8.count)
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: many))).whenSuccess {
            // Client and server may share an event loop. Without this pause, the server would never let the client
            // read.
            bound.value.1.eventLoop.scheduleTask(in: .milliseconds(1)) {
                let (connection, context) = bound.value
                connection.repeatWriting(text, context)
            }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private static func userID(_ certificate: NIOSSLCertificate?) -> String? {
        guard let certificate, let bytes = try? certificate.toDERBytes(),
            let parsed = try? Certificate(derEncoded: bytes)
        else { return nil }
        // The object identifier is UID (RFC 4519 §2.39).
        return parsed.subject.lazy.flatMap { $0 }.first { "\($0.type)" == "0.9.2342.19200300.100.1.1" }
            .flatMap { String($0.value) }
    }
}
