import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import TestSupport

/// A simulated Radial Payment Service over TLS, after Radial's public documents. The cents of a payment's amount
/// determine the service's behaviour.
final class SimulatedRadialService: Sendable {
    /// The values of an amount's cents that have a special outcome. Every other amount is approved.
    enum Cents {
        static let declined = 81
        static let timeout = 82
        /// The payment is approved, and the reply contains the account number instead of Radial's token for it.
        static let notTokenized = 83
        /// The service closes the connection when it has received the request.
        static let cut = 84
        /// The service returns a Fault.
        static let fault = 85
        /// The service refuses the payment in an undocumented form, as it might for a wrong key.
        static let unauthorized = 86
    }

    struct Request: Sendable {
        let target: String
        /// The request's headers, with names in lower case.
        let headers: [String]
        let body: String
    }

    static let token = "4817491AbCdE0004"

    let port: Int
    private let channel: any Channel
    private let received = Shared<[Request]>([])

    var requests: [Request] { received.current }

    /// Writes a root certificate to `root.crt`, and serves with a certificate for localhost that this root issued.
    init(in directory: FreshDirectory) async throws {
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        try await directory.openssl("req -x509 \(key) -days 30 -subj /CN=root -keyout root.key -out root.crt")
        try directory.write("subjectAltName=DNS:localhost\n", to: "radial.ext")
        try await directory.openssl("req \(key) -subj /CN=radial -keyout radial.key -out radial.csr")
        try await directory.openssl(
            "x509 -req -in radial.csr -CA root.crt -CAkey root.key -CAcreateserial -extfile radial.ext -days 30 "
                + "-out radial.crt")
        let context = try NIOSSLContext(
            configuration: .makeServerConfiguration(
                certificateChain: try NIOSSLCertificate.fromPEMFile(directory.path("radial.crt")).map {
                    .certificate($0)
                }, privateKey: .privateKey(try NIOSSLPrivateKey(file: directory.path("radial.key"), format: .pem))))
        let received = received
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers([
                        NIOSSLServerHandler(context: context), RadialConnection(received),
                    ])
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        port = channel.localAddress?.port ?? 0
    }

    deinit { channel.close(promise: nil) }

    /// Returns the address for `processors[].url`.
    ///
    /// - Parameter host: the host of the address. The certificate is valid for localhost, but not for 127.0.0.1.
    func url(host: String = "localhost") -> String { "https://\(host):\(port)/v1.0/stores/S1/payments" }

    /// The number of submissions of each order.
    var submissions: [String: Int] {
        received.current.reduce(into: [:]) { $0[Self.element("OrderId", of: $1.body), default: 0] += 1 }
    }

    static func element(_ name: String, of document: String) -> String {
        guard let begin = document.firstRange(of: "<\(name)"),
            let start = document[begin.upperBound...].firstIndex(of: ">"),
            let end = document[start...].firstRange(of: "</\(name)>")
        else { return "" }
        return String(document[document.index(after: start)..<end.lowerBound])
    }

    /// Returns the answer to a request, or nil to close the connection.
    fileprivate static func answer(_ request: Request) -> (status: Int, body: String)? {
        let amount = element("Amount", of: request.body)
        let number = element("PaymentAccountUniqueId", of: request.body)
        func reply(
            _ code: String, _ authorization: String, _ bankCode: String, token: String = token,
            isToken: Bool = true
        ) -> (Int, String) {
            let document = """
                <?xml version="1.0" encoding="UTF-8"?>
                <CreditCardAuthReply xmlns="http://api.gsicommerce.com/schema/checkout/1.0">
                <PaymentContext><OrderId>\(element("OrderId", of: request.body))</OrderId>
                <PaymentAccountUniqueId isToken="\(isToken)">\(token)</PaymentAccountUniqueId></PaymentContext>
                <ResponseCode>\(code)</ResponseCode>
                <AuthorizationResponseCode>\(authorization)</AuthorizationResponseCode>
                <BankAuthorizationCode>\(bankCode)</BankAuthorizationCode>
                <CVV2ResponseCode>0</CVV2ResponseCode><AVSResponseCode>E</AVSResponseCode>
                <AmountAuthorized currencyCode="USD">\(amount)</AmountAuthorized><TenderType>VC</TenderType>
                </CreditCardAuthReply>
                """
            return (200, document)
        }
        switch Int(amount.suffix(2)) {
        case Cents.declined: return reply("DECL", "ND01", "")
        case Cents.timeout: return reply("TIMEOUT", "TO01", "")
        case Cents.notTokenized: return reply("APPROVED", "AP01", "614653", token: number, isToken: false)
        case Cents.cut: return nil
        case Cents.fault:
            return (
                500,
                "<Fault xmlns=\"http://api.gsicommerce.com/schema/checkout/1.0\"><Code>InvalidPan</Code>"
                    + "<Description>\(number)</Description></Fault>"
            )
        case Cents.unauthorized: return (401, "")
        default: return reply("APPROVED", "AP01", "614653")
        }
    }

    /// Reads a request with the length in its Content-Length header, and answers it.
    private final class RadialConnection: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let received: Shared<[Request]>
        private var bytes: [UInt8] = []

        init(_ received: Shared<[Request]>) { self.received = received }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            bytes += unwrapInboundIn(data).readableBytesView
            guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
            let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
            let headers = lines.dropFirst().map { line in
                let parts = line.split(separator: ":", maxSplits: 1)
                return "\(parts[0].lowercased()):\(parts[1])"
            }
            let length = headers.first { $0.hasPrefix("content-length: ") }.flatMap { Int($0.dropFirst(16)) } ?? 0
            guard bytes.count >= end.upperBound + length else { return }
            let words = lines[0].split(separator: " ")
            let request = Request(
                target: String(words[1]), headers: Array(headers),
                body: String(decoding: bytes[end.upperBound..<end.upperBound + length], as: UTF8.self))
            bytes = []
            received.change { $0.append(request) }
            guard let (status, body) = SimulatedRadialService.answer(request) else {
                return context.close(promise: nil)
            }
            let text =
                "HTTP/1.1 \(status) X\r\nContent-Type: text/xml\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
