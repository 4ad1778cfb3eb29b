import Foundation
import NIOCore

/// One connection: reads requests without a body, and writes their answers.
final class PortalConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: (_ method: String, _ target: String, _ token: String?) -> (status: Int, body: String)
    private var bytes: [UInt8] = []

    init(_ answer: @escaping (String, String, String?) -> (status: Int, body: String)) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes += unwrapInboundIn(data).readableBytesView
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        bytes.removeFirst(end.upperBound)
        let words = lines[0].split(separator: " ").map(String.init)
        let bearer = "authorization: bearer "
        let token = lines.first { $0.lowercased().hasPrefix(bearer) }.map { String($0.dropFirst(bearer.count)) }
        let (status, body) = answer(words[0], words.count > 1 ? words[1] : "", token)
        let head = [
            "HTTP/1.1 \(status) X", "Content-Type: application/json", "Content-Length: \(body.utf8.count)",
            "X-Rate-Limit: user-hour-lim:3500;user-hour-rem:3400;", "Connection: close",
        ]
        let text = head.joined(separator: "\r\n") + "\r\n\r\n" + body
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
        context.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
