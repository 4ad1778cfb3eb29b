import Foundation
import Locks
import NIOCore
import NIOPosix
import NIOSSL

/// A listening server of a simulated host, on a free loopback port. Each connection has one request.
final class SimulatedHost: Sendable {
    private let channel: any Channel
    let port: Int

    /// - Parameters:
    ///   - certificate: a PEM file with the host's certificate.
    ///   - privateKey: the PEM file with its key.
    ///   - answer: returns the bytes of an answer.
    init(
        certificate: String, privateKey: String,
        answer: @escaping @Sendable (PortalRequestHead, _ body: [UInt8]) -> [UInt8]
    ) async throws {
        let context = try NIOSSLContext(
            configuration: .makeServerConfiguration(
                certificateChain: try NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) },
                privateKey: .privateKey(try NIOSSLPrivateKey(file: privateKey, format: .pem))))
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers([
                        NIOSSLServerHandler(context: context), PortalConnection(answer),
                    ])
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        port = channel.localAddress?.port ?? 0
    }

    deinit { channel.close(promise: nil) }

    func stop() async { try? await channel.close().get() }
}

/// Plays the host at which Google publishes its root keys, over TLS.
public final class GoogleKeysServer: Sendable {
    public static let host = "payments.developers.google.com"

    private let state = Mutex<(answer: [UInt8], targets: [String])>(([], []))
    private let server = Mutex<SimulatedHost?>(nil)

    /// The address, in the form of `--test-server`.
    public var address: String { "127.0.0.1:\(server.withLock { $0?.port } ?? 0)" }
    /// The targets of all requests.
    public var targets: [String] { state.withLock { $0.targets } }

    public init(certificate: String, privateKey: String) async throws {
        let listening = try await SimulatedHost(certificate: certificate, privateKey: privateKey) {
            [weak self] head, _ in
            self?.answer(head) ?? []
        }
        server.withLock { $0 = listening }
    }

    private func answer(_ head: PortalRequestHead) -> [UInt8] {
        state.withLock {
            $0.targets.append(head.target)
            return $0.answer
        }
    }

    /// Sets the answer to all requests.
    ///
    /// - Parameter fields: the lines of the head after the status.
    public func set(_ body: [UInt8], status: Int = 200, _ fields: [String] = []) {
        let head = ["HTTP/1.1 \(status) X", "Content-Length: \(body.count)"] + fields
        state.withLock { $0.answer = Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body }
    }

    public func stop() async { await server.withLock { $0 }?.stop() }
}

/// A request as it arrived.
struct PortalRequestHead {
    let method: String
    let target: String
    let headers: [String: String]

    /// Reads the lines of a request's head. Header names are in lower case.
    init(_ lines: [String]) {
        let words = (lines.first ?? "").split(separator: " ").map(String.init)
        method = words.first ?? ""
        target = words.count > 1 ? words[1] : ""
        headers = Dictionary(
            lines.dropFirst().compactMap { line in
                let parts = line.split(separator: ":", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
                return parts.count == 2 ? (parts[0].lowercased(), parts[1]) : nil
            }
        ) { first, _ in first }
    }

    /// The bearer's token; nil if there is none.
    var token: String? {
        let bearer = "Bearer "
        return headers["authorization"].flatMap { $0.hasPrefix(bearer) ? String($0.dropFirst(bearer.count)) : nil }
    }
}

/// The answer to a request, and what the connection makes of it.
struct PortalReply {
    enum Delivery { case whole, half, none }

    var status: Int
    var body: String
    var contentType = "application/json"
    var location: String?
    var delivery = Delivery.whole
    var remaining = 3400

    init(_ status: Int, _ body: String = "") { (self.status, self.body) = (status, body) }

    /// The bytes that are sent before the connection ends.
    var bytes: [UInt8] {
        var head = [
            "HTTP/1.1 \(status) X", "Content-Type: \(contentType)",
            "X-Rate-Limit: user-hour-lim:3500;user-hour-rem:\(remaining);", "Connection: close",
        ]
        if status != 204 { head.append("Content-Length: \(body.utf8.count)") }
        if let location { head.append("Location: \(location)") }
        let text = Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8)
        return switch delivery {
        case .whole: text + Array(body.utf8)
        case .half: text + Array(body.utf8.prefix(body.utf8.count / 2))
        case .none: []
        }
    }
}

/// One connection: reads a request, writes its answer, and ends.
final class PortalConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: (PortalRequestHead, _ body: [UInt8]) -> [UInt8]
    private var bytes: [UInt8] = []

    init(_ answer: @escaping (PortalRequestHead, [UInt8]) -> [UInt8]) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes += unwrapInboundIn(data).readableBytesView
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
        let head = PortalRequestHead(
            String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n"))
        let length = head.headers["content-length"].flatMap { Int($0) } ?? 0
        let body = bytes[end.upperBound...]
        guard body.count >= length else { return }
        let reply = answer(head, Array(body.prefix(length)))
        bytes = []
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: reply)), promise: nil)
        context.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
