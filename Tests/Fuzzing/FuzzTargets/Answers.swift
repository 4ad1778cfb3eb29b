import Foundation
import Processors

extension FuzzTarget {
    /// A server's HTTP answer to the gateway, as processors and Apple give it. A second reader must agree on status and body,
    /// and Foundation on the JSON of the processor simulator.
    ///
    /// The first octet is the part of the bytes, in 256ths, that is sent first. If it is odd, the answer is read as the state of
    /// a payment.
    static let answers = FuzzTarget(
        name: "answers", longest: 2048, sources: ["OutgoingConnections", "Processors/Exchange", "Processors/Simulator"]
    ) { input in
        guard let first = input.first else { return }
        let bytes = Array(input.dropFirst())
        let server = try AnsweringServer.shared.get()
        server.play([.init(bytes, firstPiece: first) { $0.suffix(4) == Array("\r\n\r\n".utf8)[...] }])
        let exchange = try ProcessorExchange(to: ProcessorEndpoint(place: .unix(path: server.path)))
        let deadline = ContinuousClock.now + .seconds(20)
        var reader = HTTPAnswerReader(bytes)
        if first & 1 == 0 {
            switch await exchange.get("/", before: deadline) {
            case .answer(let answer): try check(answer, with: reader.read())
            case .notSent(let fault), .unknown(let fault): try checkEnd(fault.rawValue)
            }
        } else {
            let payment = SubmittedPayment(transactionId: "1", amount: nil, orderId: nil, processorReference: nil)
            switch await SimulatorProcessor(exchange).status(of: payment, before: deadline) {
            case .known(let known): try check(known, with: reader.read())
            case .noTrace:
                if case .answer(let status, _) = reader.read() {
                    try expect(status == 404, "a payment without a trace has the status \(status)")
                }
            case .notAnswered(let fault): try checkEnd(fault)
            }
        }
    }

    /// The server ends the connection at once, so no answer can be late.
    private static func checkEnd(_ fault: String) throws {
        try expect(fault != "no_answer_in_time", "the client waits although the server has ended the connection")
    }

    private static func check(_ answer: ExchangeAnswer, with found: HTTPAnswerReader.Result) throws {
        switch found {
        case .doubtful: break
        case .none: throw Disagreement("an answer is accepted that has no certain end")
        case .answer(let status, let body):
            try expect(answer.status == status, "the status is \(answer.status) instead of \(status)")
            try expect(answer.body == body, "the body ends elsewhere than for the second reader")
        }
    }

    private static func check(_ known: ProcessorAnswer, with found: HTTPAnswerReader.Result) throws {
        guard case .answer(let status, let body) = found else {
            if case .none = found { throw Disagreement("a payment's state is read from no whole answer") }
            return
        }
        let object = try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]
        try expect(status == 200 && object?["payment"] as? String == "1", "the state is that of another payment")
        try expect(object?["status"] as? String == known.state.rawValue, "the state is not the answer's")
        for (name, text) in [
            ("reason", known.outcome.reason), ("authorizationCode", known.outcome.authorizationCode),
            ("reference", known.outcome.processorReference),
        ] {
            let printable = (object?[name] as? String ?? "").unicodeScalars.map(\.value).filter { 0x20...0x7E ~= $0 }
            try expect(
                text.map { $0.utf8.allSatisfy { 0x20...0x7E ~= $0 } && 1...100 ~= $0.utf8.count } ?? printable.isEmpty,
                "the \(name) cannot be displayed, or is lost")
            // Texts with more digits may be masked.
            guard printable.count(where: { 0x30...0x39 ~= $0 }) < 8 else { continue }
            try expect(
                (text ?? "").unicodeScalars.map(\.value) == Array(printable.prefix(100)),
                "the \(name) is not the answer's")
        }
    }
}

private enum AnsweringServer {
    static let shared = Result { try AnsweringSocket(named: "answers") }
}

/// A second reader of an answer to GET (RFC 9112), written without the client and its decoder.
private struct HTTPAnswerReader {
    enum Result {
        case answer(status: Int, body: [UInt8])
        /// There is no whole answer, or only the connection's end marks the end of its body.
        case none
        /// A reader may accept or refuse it.
        case doubtful
    }

    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    mutating func read() -> Result {
        while true {
            guard let status = statusLine(), let fields = fields() else { return .doubtful }
            switch status {
            case 101: return .doubtful
            // Interim answers precede the final one (RFC 9110 §15.2).
            case 100..<200: continue
            case 204, 304: return .answer(status: status, body: [])
            default: return body(status, fields)
            }
        }
    }

    private mutating func body(_ status: Int, _ fields: [String: [String]]) -> Result {
        let (lengths, codings) = (fields["content-length"] ?? [], fields["transfer-encoding"] ?? [])
        guard lengths.count <= 1, codings.count <= 1, lengths.isEmpty || codings.isEmpty, fields["upgrade"] == nil
        else {
            return .doubtful
        }
        if let coding = codings.first {
            if coding == "chunked" { return chunks(status) }
            guard !coding.contains("chunked") else { return .doubtful }
        }
        if let length = lengths.first {
            guard !length.isEmpty, length.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let length = Int(length) else {
                return .doubtful
            }
            guard bytes.count - position >= length else { return .none }
            return .answer(status: status, body: Array(bytes[position..<position + length]))
        }
        return position == bytes.count ? .answer(status: status, body: []) : .none
    }

    private mutating func chunks(_ status: Int) -> Result {
        var body: [UInt8] = []
        while true {
            guard let line = line() else { return .none }
            let digits = line.prefix { $0 != UInt8(ascii: ";") && $0 != 0x20 && $0 != 0x09 }
            guard digits.first != 0x2B, let size = Int(String(decoding: digits, as: UTF8.self), radix: 16) else {
                return .doubtful
            }
            guard size > 0 else { break }
            guard bytes.count - position >= size else { return .none }
            body += bytes[position..<position + size]
            position += size
            guard let end = self.line() else { return .none }
            guard end.isEmpty else { return .doubtful }
        }
        // Trailers end with an empty line.
        while let line = line() {
            if line.isEmpty { return .answer(status: status, body: body) }
        }
        return .none
    }

    private mutating func statusLine() -> Int? {
        guard let line = line(), line.count >= 12, line[line.startIndex + 8] == 0x20,
            ["HTTP/1.1", "HTTP/1.0"].contains(String(decoding: line.prefix(8), as: UTF8.self)),
            line.count == 12 || line[line.startIndex + 12] == 0x20
        else { return nil }
        let digits = line.dropFirst(9).prefix(3)
        guard digits.allSatisfy({ 0x30...0x39 ~= $0 }) else { return nil }
        return Int(String(decoding: digits, as: UTF8.self))
    }

    private mutating func fields() -> [String: [String]]? {
        var fields: [String: [String]] = [:]
        while let line = line() {
            if line.isEmpty { return fields }
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
                line[..<colon].allSatisfy({ 0x41...0x5A ~= $0 || 0x61...0x7A ~= $0 || 0x30...0x39 ~= $0 || $0 == 0x2D })
            else { return nil }
            let value = String(decoding: line[(colon + 1)...], as: UTF8.self)
            fields[String(decoding: line[..<colon], as: UTF8.self).lowercased(), default: []]
                .append(value.trimming { $0 == " " || $0 == "\t" }.lowercased())
        }
        return nil
    }

    /// The next line without its end, which is CR LF or LF (§2.2).
    private mutating func line() -> ArraySlice<UInt8>? {
        guard let end = bytes[position...].firstIndex(of: 0x0A) else { return nil }
        defer { position = end + 1 }
        let line = bytes[position..<end]
        return line.last == 0x0D ? line.dropLast() : line
    }
}
