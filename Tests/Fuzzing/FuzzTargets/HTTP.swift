import Glibc
import HTTPListener
import Locks
import Logging
import NIOCore
import NIOPosix

extension FuzzTarget {
    /// The bytes of one connection, on which the listener answers several requests. A second reader must agree on where each
    /// request ends.
    ///
    /// The first octet is the part of the bytes, in 256ths, that is sent first.
    static let http = FuzzTarget(
        name: "http", longest: 2048,
        sources: [
            "HTTPListener/MessageFraming.swift", "HTTPListener/BoundedInput.swift",
            "HTTPListener/ConnectionHandler.swift",
        ]
    ) { input in
        guard let first = input.first else { return }
        let stream = Array(input.dropFirst())
        let server = try await HTTPServer.shared.value
        let (received, answer) = try server.exchange(stream, firstPiece: Int(first) * stream.count / 256)

        var reader = RequestReader(stream)
        for (number, request) in received.enumerated() {
            guard let expected = reader.next() else {
                throw Disagreement("request \(number) is accepted, and the second reader finds none there")
            }
            try expect(expected.method == request.method, "the method of request \(number) is not \(expected.method)")
            try expect(
                request.body == nil || expected.body == request.body,
                "the body of request \(number) ends elsewhere than for the second reader")
        }
        let answers = AnswerReader.count(in: answer, methods: received.map(\.method))
        try expect(
            answers == nil || (received.count...received.count + 1).contains(answers ?? 0),
            "\(received.count) requests have \(answers ?? 0) answers")
    }
}

/// A request that the listener passed to its handler. The body is nil if the handler refused the head.
private struct ReceivedRequest {
    let method: String
    let body: [UInt8]?
}

/// A listener on a Unix socket, and a client. One connection is open at a time.
private final class HTTPServer: ConnectionService, RequestHandler {
    static let shared = Task { try await HTTPServer() }

    private let path = ScratchFolder.path + "/http"
    private let received = Mutex<[ReceivedRequest]>([])
    private let listener = Mutex<Listener?>(nil)

    init() async throws {
        let started = try await Listener.start(
            [
                ListeningSocket(
                    name: "fuzz", place: .path(path, mode: 0o600, group: nil), service: self,
                    connectionLimits: ConnectionLimits(.init(total: 64, perSource: 64)), answersOnEventLoop: true,
                    limits: RequestLimits(idle: .seconds(60)))
            ], group: MultiThreadedEventLoopGroup(numberOfThreads: 1), logger: Logger(label: "fuzz"))
        listener.withLock { $0 = started }
    }

    func accept(_ connection: CInt, from peer: ArrivingPeer) -> AcceptedConnection {
        AcceptedConnection(source: peer.source) { _ in self }
    }

    func connectionsChanged(by difference: Int) {}

    func admit(_ head: RequestHead) -> Admission {
        guard head.path != "/refused" else {
            received.withLock { $0.append(ReceivedRequest(method: head.method, body: nil)) }
            return .refuse(HTTPAnswer(status: 403))
        }
        return .accept(bodyLimit: 1024) { [self] body in
            received.withLock { $0.append(ReceivedRequest(method: head.method, body: body)) }
            return HTTPAnswer(status: 200, body: Array("ok".utf8))
        }
    }

    func answer(to condition: HTTPCondition) -> HTTPAnswer { HTTPAnswer(status: condition.kind.rawValue) }

    /// Sends the bytes in two pieces, ends the sending side, and reads until the listener closes the connection.
    func exchange(_ bytes: [UInt8], firstPiece: Int) throws -> ([ReceivedRequest], [UInt8]) {
        received.withLock { $0 = [] }
        let connection = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(connection) }
        let isConnected = unsafe withSocketAddress(path) { unsafe connect(connection, $0, $1) }
        try expect(isConnected == 0, "the listener accepts no connection: errno \(errno)")
        var limit = timeval(tv_sec: 5, tv_usec: 0)
        unsafe setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        for piece in [bytes[..<firstPiece], bytes[firstPiece...]] where !piece.isEmpty {
            _ = unsafe piece.withUnsafeBytes { unsafe send(connection, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) }
        }
        shutdown(connection, Int32(SHUT_WR))
        var answer: [UInt8] = []
        while true {
            guard let piece = receive(from: connection) else {
                throw Disagreement("the listener leaves the connection of a peer open that has ended its side")
            }
            guard !piece.isEmpty else { return (received.withLock { $0 }, answer) }
            answer += piece
        }
    }
}

/// A second reader of requests (RFC 9112), written without the listener and its decoder. It stops at the first request whose
/// end is in doubt (§6.3), that is no request, or after which the connection closes (§9.6).
private struct RequestReader {
    private let stream: [UInt8]
    private var position = 0
    private var isOver = false

    init(_ stream: [UInt8]) { self.stream = stream }

    /// The next request. Its body is nil if the stream ends within it: a head can be refused before its body.
    mutating func next() -> (method: String, body: [UInt8]?)? {
        guard !isOver, let head = head() else {
            isOver = true
            return nil
        }
        let body = body(head.framing)
        isOver = head.closes || body == nil
        return (head.method, body)
    }

    private enum Framing {
        case length(Int)
        case chunked
    }

    private mutating func head() -> (method: String, framing: Framing, closes: Bool)? {
        while let byte = stream.dropFirst(position).first, byte == 0x0D || byte == 0x0A { position += 1 }
        guard let words = line()?.split(separator: 0x20), words.count == 3 else {
            return nil
        }
        let (method, version) = (String(decoding: words[0], as: UTF8.self), String(decoding: words[2], as: UTF8.self))
        guard version == "HTTP/1.1" || version == "HTTP/1.0" else { return nil }
        var fields: [String: [String]] = [:]
        while let field = line() {
            if field.isEmpty { return framing(of: fields, method, version) }
            guard let colon = field.firstIndex(of: UInt8(ascii: ":")), field[..<colon].allSatisfy(Self.isToken) else {
                return nil
            }
            let name = String(decoding: field[..<colon], as: UTF8.self).lowercased()
            let value = String(decoding: field[(colon + 1)...], as: UTF8.self)
            fields[name, default: []].append(value.trimming { $0 == " " || $0 == "\t" }.lowercased())
        }
        return nil
    }

    private func framing(
        of fields: [String: [String]], _ method: String, _ version: String
    ) -> (method: String, framing: Framing, closes: Bool)? {
        let options = (fields["connection"] ?? []).flatMap { $0.split(separator: ",") }.map {
            $0.trimming { $0 == " " }
        }
        let closes =
            options.contains("close") || version == "HTTP/1.0" && !options.contains("keep-alive") || method == "CONNECT"
            || fields["upgrade"] != nil
        let (lengths, encodings) = (fields["content-length"] ?? [], fields["transfer-encoding"] ?? [])
        if let encoding = encodings.first {
            guard encodings.count == 1, lengths.isEmpty, encoding == "chunked", version == "HTTP/1.1" else {
                return nil
            }
            return (method, .chunked, closes)
        }
        guard lengths.count <= 1 else { return nil }
        guard let text = lengths.first else { return (method, .length(0), closes) }
        guard !text.isEmpty, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let length = Int(text) else { return nil }
        return (method, .length(length), closes)
    }

    private mutating func body(_ framing: Framing) -> [UInt8]? {
        switch framing {
        case .length(let length): return take(length)
        case .chunked:
            var body: [UInt8] = []
            while true {
                guard let size = line()?.prefix(while: { $0 != UInt8(ascii: ";") }),
                    let size = Int(
                        String(decoding: size, as: UTF8.self).trimming { $0 == " " || $0 == "\t" }, radix: 16)
                else { return nil }
                guard size > 0 else { break }
                guard let data = take(size), line()?.isEmpty == true else { return nil }
                body += data
            }
            while let trailer = line() { if trailer.isEmpty { return body } }
            return nil
        }
    }

    private mutating func take(_ count: Int) -> [UInt8]? {
        guard stream.count - position >= count else { return nil }
        defer { position += count }
        return Array(stream[position..<position + count])
    }

    /// The next line without its end, which is CR LF or LF (§2.2).
    private mutating func line() -> ArraySlice<UInt8>? {
        guard let end = stream[position...].firstIndex(of: 0x0A) else { return nil }
        defer { position = end + 1 }
        let line = stream[position..<end]
        return line.last == 0x0D ? line.dropLast() : line
    }

    /// RFC 9110 §5.6.2.
    private static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}

/// Counts final answers, whose lengths are known.
private enum AnswerReader {
    /// The number of answers; nil if one of them is not whole or its length is unknown.
    static func count(in bytes: [UInt8], methods: [String]) -> Int? {
        var rest = String(decoding: bytes, as: UTF8.self)[...]
        var count = 0
        while !rest.isEmpty {
            guard rest.hasPrefix("HTTP/1.1 "), let end = rest.firstRange(of: "\r\n\r\n") else { return nil }
            let head = rest[..<end.lowerBound]
            rest = rest[end.upperBound...]
            if head.hasPrefix("HTTP/1.1 100") { continue }
            count += 1
            // The listener leaves out the body of an answer to HEAD, also if it refused the head.
            if count > methods.count || methods[count - 1] == "HEAD" { continue }
            guard let field = head.firstRange(of: "\r\nContent-Length: "),
                let length = Int(head[field.upperBound...].prefix { $0.isNumber }), rest.utf8.count >= length
            else { return nil }
            rest = String(decoding: Array(rest.utf8.dropFirst(length)), as: UTF8.self)[...]
        }
        return count
    }
}

extension StringProtocol {
    func trimming(_ isSpace: (Character) -> Bool) -> String {
        String(String(drop(while: isSpace).reversed()).drop(while: isSpace).reversed())
    }
}
