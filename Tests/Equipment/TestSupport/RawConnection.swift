import Foundation
import Locks
public import NIOCore
import NIOPosix

/// A client that sends arbitrary bytes at any time, which an HTTP client cannot, and reads the answers.
public final class RawConnection: Sendable {
    public struct Answer: Sendable, Equatable {
        public let status: Int
        /// The header fields, with names in lower case.
        public let headers: [String: String]
        public let body: String
    }

    private final class Received: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        let state = Mutex((bytes: [UInt8](), closed: false))

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let buffer = unwrapInboundIn(data)
            state.withLock { $0.bytes += buffer.readableBytesView }
        }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case ChannelEvent.inputClosed = event { close() }
        }

        func channelInactive(context: ChannelHandlerContext) { close() }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            close()
            context.close(promise: nil)
        }

        private func close() { state.withLock { $0.closed = true } }
    }

    private let channel: any Channel
    private let received: Received

    /// Connects to a Unix socket.
    ///
    /// - Parameters:
    ///   - reads: false to read nothing from the socket until ``startReading()``.
    ///   - staysOpen: true to keep this end of the connection open after the daemon has closed its end.
    ///   - waits: true to wait while the server's backlog is full, as a blocking connect does; false to throw EAGAIN.
    public init(
        _ socket: String, reads: Bool = true, staysOpen: Bool = false, waits: Bool = true
    ) async throws {
        let received = Received()
        self.received = received
        let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: staysOpen)
            .channelOption(.autoRead, value: reads)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(received) }
            }
        var connected: (any Channel)?
        while connected == nil {
            do {
                connected = try await bootstrap.connect(unixDomainSocketPath: socket).get()
            } catch let error as IOError where waits && error.errnoCode == EAGAIN {
                // The server's backlog is full.
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        guard let connected else { throw CancellationError() }
        channel = connected
    }

    /// Connects over TCP to a port of this host.
    ///
    /// - Parameters:
    ///   - source: the local address, in 127.0.0.0/8; nil for the system's choice.
    ///   - staysOpen: true to keep this end of the connection open after the server has closed its end.
    ///   - transport: adds handlers to the pipeline before this client's, such as TLS.
    public init(
        port: Int, from source: String? = nil, staysOpen: Bool = false,
        transport: @escaping @Sendable (ChannelPipeline.SynchronousOperations) throws -> Void = { _ in }
    ) async throws {
        let received = Received()
        self.received = received
        var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: staysOpen)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try transport(channel.pipeline.syncOperations)
                    try channel.pipeline.syncOperations.addHandler(received)
                }
            }
        if let source { bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: source, port: 0)) }
        channel = try await bootstrap.connect(host: "127.0.0.1", port: port).get()
    }

    deinit { channel.close(promise: nil) }

    // MARK: Sending

    public func send(_ bytes: [UInt8]) async throws { try await channel.writeAndFlush(ByteBuffer(bytes: bytes)).get() }
    public func send(_ text: String) async throws { try await send(Array(text.utf8)) }

    /// Sends text, and ignores errors such as a closed connection.
    public func sendLossy(_ text: String) { channel.writeAndFlush(ByteBuffer(string: text), promise: nil) }

    /// The head of a POST request whose body of `length` bytes the caller sends separately.
    public static func head(_ path: String, length: Int, more: [String] = []) -> String {
        let lines = ["POST \(path) HTTP/1.1", "Host: x", "Content-Type: application/json", "Content-Length: \(length)"]
        return (lines + more).joined(separator: "\r\n") + "\r\n\r\n"
    }

    /// Waits until the daemon has read all sent bytes from its socket.
    public func waitUntilRead() async throws {
        try await wait(for: "the daemon to read") {
            try await channel.eventLoop.submit { [channel] in
                try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
                    bytesNotRead(fromPeerOf: $0)
                }
            }.get() == 0
        }
    }

    public func startReading() async throws { try await channel.setOption(.autoRead, value: true).get() }

    public func finishSending() async throws { try await channel.close(mode: .output).get() }

    public func close() async { try? await channel.close().get() }

    // MARK: Received bytes

    /// True once the daemon has closed its end.
    public var isClosed: Bool { received.state.withLock { $0.closed } }

    /// The received text that ``answer(toHEAD:within:)`` has not returned yet.
    public var text: String { String(decoding: received.state.withLock { $0.bytes }, as: UTF8.self) }

    public func waitForEnd(within seconds: Double = 180) async throws {
        try await wait(for: "the daemon to close the connection", within: seconds) { isClosed }
    }

    /// Waits until the daemon has closed the connection, and returns all text received.
    public func everything(within seconds: Double = 180) async throws -> String {
        try await waitForEnd(within: seconds)
        return text
    }

    /// Returns the next complete answer, whose Content-Length states the body's length. Answers 1xx and answers to HEAD
    /// have no body.
    public func answer(toHEAD: Bool = false, within seconds: Double = 180) async throws -> Answer {
        var found: Answer?
        try await wait(for: "an answer, got \(text.prefix(200))", within: seconds) {
            found = received.state.withLock { Self.takeAnswer(from: &$0.bytes, toHEAD: toHEAD) }
            return found != nil
        }
        guard let found else { throw ConditionTimeout(description: "there is no answer") }
        return found
    }

    private static func takeAnswer(from bytes: inout [UInt8], toHEAD: Bool) -> Answer? {
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
        bytes.removeFirst(end.upperBound + length)
        return Answer(status: status, headers: headers, body: body)
    }
}

/// The number of bytes written to this Unix socket that the peer has not read. The kernel adds overhead, so only zero
/// is exact.
private func bytesNotRead(fromPeerOf descriptor: CInt) -> Int {
    var count: CInt = 0
    // The request SIOCOUTQ has the same value as TIOCOUTQ.
    let result = unsafe ioctl(descriptor, UInt(TIOCOUTQ), &count)
    return result == 0 ? Int(count) : 0
}
