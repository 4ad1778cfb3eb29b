import NIOCore
import NIOEmbedded
import Testing

@testable import Daemon
@testable import HTTPListener

@Suite("Input that the HTTP decoder receives at a time")
struct BoundedInputTests {
    private func pieces(of text: String, afterHead prepare: (BoundedInput) -> Void) throws -> [String] {
        let input = BoundedInput()
        let channel = EmbeddedChannel(handler: input)
        prepare(input)
        try channel.writeInbound(ByteBuffer(string: text))
        while input.passOn() {}
        var pieces: [String] = []
        while let piece = try channel.readInbound(as: ByteBuffer.self) { pieces.append(String(buffer: piece)) }
        return pieces
    }

    @Test("passes a chunked body with any data in one piece, and the next request in another piece")
    func chunkedBody() throws {
        let lines = String(repeating: "\n", count: 0x1000)
        let body = "1000;a=\"0\"\r\n\(lines)\r\n3\nab\n\r\n00;x\r\n"
        let next = "GET /b HTTP/1.1\r\n"
        let prepare = { (input: BoundedInput) in input.headEnded(bodyLength: 0, isChunked: true) }
        #expect(try pieces(of: body + "\r\n" + next, afterHead: prepare) == [body + "\r\n", next])
        #expect(
            try pieces(of: body + "Trailer: 1\r\n\r\n" + next, afterHead: prepare)
                == [body + "Trailer: 1\r\n\r\n", next])
    }

    @Test("passes a body's chunks in bounded groups, and ends the turn after each group")
    func boundedGroups() throws {
        let input = BoundedInput()
        let channel = EmbeddedChannel(handler: input)
        input.headEnded(bodyLength: 0, isChunked: true)
        let count = 2 * BoundedInput.chunksAtOnce + 1
        try channel.writeInbound(ByteBuffer(string: String(repeating: "1\r\na\r\n", count: count) + "0\r\n\r\n"))
        var chunks: [Int] = []
        while input.passOn() {
            let piece = try channel.readInbound(as: ByteBuffer.self).map { String(buffer: $0) } ?? ""
            chunks.append(piece.count { $0 == "1" })
            #expect(input.endsTurn == (chunks.count < 3))
        }
        #expect(chunks == [BoundedInput.chunksAtOnce, BoundedInput.chunksAtOnce, 1])
    }
}
