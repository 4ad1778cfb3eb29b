import Foundation
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

/// An answer as it came over the wire.
struct RawAnswer: Equatable {
    let status: Int
    /// Names in lower case.
    let headers: [String: String]
    let body: String
}

/// A client that sends bytes as they stand, wrong ones included, and looks at what comes back.
final class RawConnection: Sendable {
    private let channel: any Channel
    private let store: ReceivedBytes

    private init(channel: any Channel, store: ReceivedBytes) {
        self.channel = channel
        self.store = store
    }

    /// What the channel's handler writes into.
    private final class ReceivedBytes: Sendable {
        private let state = Mutex((bytes: [UInt8](), ended: false))
        func append(_ bytes: [UInt8]) { state.withLock { $0.bytes += bytes } }
        func end() { state.withLock { $0.ended = true } }
        func take(_ count: Int) { state.withLock { $0.bytes.removeFirst(count) } }
        var bytes: [UInt8] { state.withLock { $0.bytes } }
        var ended: Bool { state.withLock { $0.ended } }
    }

    private final class Collector: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let store: ReceivedBytes
        init(_ store: ReceivedBytes) { self.store = store }
        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            store.append(Array(buffer: unwrapInboundIn(data)))
        }
        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case ChannelEvent.inputClosed = event { store.end() }
        }
        func channelInactive(context: ChannelHandlerContext) { store.end() }
        func errorCaught(context: ChannelHandlerContext, error: any Error) { store.end() }
    }

    /// - Parameter reads: false takes nothing from the socket until ``startReading()``.
    static func connect(_ path: String, reads: Bool = true) async throws -> RawConnection {
        let store = ReceivedBytes()
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.autoRead, value: reads)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Collector(store))
                }
            }
            .connect(unixDomainSocketPath: path).get()
        return RawConnection(channel: channel, store: store)
    }

    deinit { channel.close(promise: nil) }

    func send(_ text: String) async throws {
        try await channel.writeAndFlush(ByteBuffer(string: text)).get()
    }

    /// Waits until the daemon has taken from its socket all that was sent.
    func waitUntilRead() async throws {
        try await wait(for: "the daemon to read") {
            try await channel.eventLoop.submit { [channel] in
                try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
                    bytesNotRead(fromPeerOf: $0)
                }
            }.get() == 0
        }
    }

    /// Sends without caring whether the daemon still listens.
    func sendLossy(_ text: String) {
        channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
    }

    func startReading() async throws {
        try await channel.setOption(.autoRead, value: true).get()
    }

    /// Says that nothing more will be sent.
    func finishSending() async throws {
        try await channel.close(mode: .output).get()
    }

    func close() async {
        try? await channel.close().get()
    }

    /// The daemon has sent its last byte.
    var ended: Bool { store.ended }
    var unread: String { String(decoding: store.bytes, as: UTF8.self) }

    func waitForEnd(within seconds: Double = 180) async throws {
        try await wait(for: "the daemon to close the connection", within: seconds) { store.ended }
    }

    /// Everything until the daemon closed the connection.
    func everything(within seconds: Double = 180) async throws -> String {
        try await waitForEnd(within: seconds)
        return unread
    }

    /// The next whole answer, framed by its Content-Length (1xx answers and answers to HEAD have no body).
    func answer(toHEAD: Bool = false, within seconds: Double = 180) async throws -> RawAnswer {
        var found: RawAnswer?
        try await wait(for: "an answer, got \(unread.prefix(200))", within: seconds) {
            found = parse(toHEAD: toHEAD)
            return found != nil
        }
        return try #require(found)
    }

    private func parse(toHEAD: Bool) -> RawAnswer? {
        let bytes = store.bytes
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        let status = Int(lines[0].split(separator: " ")[1]) ?? 0
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        let length = toHEAD || status < 200 ? 0 : Int(headers["content-length"] ?? "") ?? 0
        guard bytes.count >= end.upperBound + length else { return nil }
        let body = String(decoding: bytes[end.upperBound..<end.upperBound + length], as: UTF8.self)
        store.take(end.upperBound + length)
        return RawAnswer(status: status, headers: headers, body: body)
    }
}
