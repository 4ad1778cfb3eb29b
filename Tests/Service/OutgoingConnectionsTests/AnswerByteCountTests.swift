import NIOCore
import NIOEmbedded
import Testing

@testable import OutgoingConnections

@Suite struct AnswerByteCountTests {
    private static func channel(_ count: AnswerByteCount) throws -> EmbeddedChannel {
        let channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandler(count)
        return channel
    }

    private static let bytes = ByteBuffer(repeating: 0x20, count: 10)

    @Test("limits the bytes of the head, and separately those of the body with its framing")
    func bounds() throws {
        let count = AnswerByteCount(maximumHeadBytes: 20, maximumBodyBytes: 5)
        let channel = try Self.channel(count)
        for _ in 0..<2 { try channel.writeInbound(Self.bytes) }
        count.headHasEnded()
        try channel.writeInbound(Self.bytes)
        #expect(throws: AnswerByteCount.Exceeded.self) { try channel.writeInbound(Self.bytes) }
        // The excess is reported once. All bytes are passed on, even those beyond the limit.
        try channel.writeInbound(Self.bytes)
        for _ in 0..<5 { #expect(try channel.readInbound(as: ByteBuffer.self) == Self.bytes) }
        count.begin()
        try channel.writeInbound(Self.bytes)
        count.stop()
        for _ in 0..<10 { try channel.writeInbound(Self.bytes) }
        _ = try channel.finish()
    }
}
