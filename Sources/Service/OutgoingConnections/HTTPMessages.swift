package import NIOCore
package import NIOHTTP1

/// A request, with what its caller wants of the answer.
package struct HTTPRequest: Sendable {
    /// How the body of a success is wanted. A refusal's is always gathered: it is short.
    package enum Delivery: Sendable {
        /// Gathered; the deadline counts until the last byte.
        case gathered
        /// In pieces as they are asked for, in as much memory as a few reads of the socket take. The deadline counts until
        /// the answer's head; then nothing may come for `idle` while more is waited for, nil for ever.
        case streamed(idle: Duration?)
    }

    package var head: HTTPRequestHead
    /// Sent with its length; nil for none.
    package var body: ByteBuffer?
    package var delivery = Delivery.gathered
    /// Runs once on the event loop when the request was sent and the deadline comes before the answer. Returns how long the answer may
    /// still come; zero ends the wait.
    package var atDeadline: @Sendable () -> Duration = { .zero }
    /// True ends the connection when the task that waits for the answer is cancelled.
    package var endsWithTask = false

    package init(_ method: HTTPMethod, _ target: String, _ headers: HTTPHeaders, body: ByteBuffer? = nil) {
        head = HTTPRequestHead(version: .http1_1, method: method, uri: target, headers: headers)
        self.body = body
        if let body { head.headers.replaceOrAdd(name: "Content-Length", value: String(body.readableBytes)) }
    }

    /// Waits for the answer that `ask` has come.
    func answer(
        on eventLoop: any EventLoop, _ ask: (EventLoopPromise<HTTPResponse>) -> Void,
        onCancel close: @escaping @Sendable () -> Void
    ) async throws(HTTPFault) -> HTTPResponse {
        let answer = eventLoop.makePromise(of: HTTPResponse.self)
        ask(answer)
        do {
            return try await withTaskCancellationHandler {
                try await answer.futureResult.get()
            } onCancel: {
                guard endsWithTask else { return }
                answer.fail(HTTPFault(.asked, .ended))
                close()
            }
        } catch { throw HTTPFault(error) }
    }
}

/// An answer, or its head and the pieces that follow.
package struct HTTPResponse: Sendable {
    package let head: HTTPResponseHead
    package let body: HTTPBody
    /// False for a body without a length, which was not read to its end: one that was cut short would look whole.
    package let isFramed: Bool
    /// True if the connection may serve another request.
    package let isReusable: Bool

    package var status: Int { Int(head.status.code) }

    /// The gathered body.
    package var bytes: [UInt8] { if case .whole(let bytes) = body { bytes } else { [] } }
}

package enum HTTPBody: Sendable {
    package typealias Pieces = NIOThrowingAsyncSequenceProducer<
        [UInt8], any Error, NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark, HTTPBodyReader
    >
    /// Within ``HTTPDestination/mostBodyBytes``.
    case whole([UInt8])
    /// Ends when the other side has ended the body, and throws ``HTTPFault`` when the connection ended first.
    case pieces(Pieces)
}

/// The reason why there is no answer.
package struct HTTPFault: Error, Sendable {
    /// The stage that the connection had reached. Before ``asked`` no byte of the request was written; from then on it may have arrived.
    package enum Phase: Int, Comparable, Sendable {
        case connecting, securing, idle
        /// The request was written, and nothing of an answer has come.
        case asked
        case answering

        package static func < (one: Phase, other: Phase) -> Bool { one.rawValue < other.rawValue }
    }

    package enum Cause: Sendable {
        /// At the deadline.
        case late
        /// Nothing of a streamed body came for this time.
        case silent(Duration)
        case nameNotResolved
        /// The connection ended.
        case ended
        /// Head or body exceed their bounds, or what comes in no answer.
        case tooLarge
        /// The other side does not speak HTTP/1.1, or sent more than was asked for.
        case notHTTP
        /// The error of connecting, of ``HTTPDestination/prepare``, or of TLS.
        case error(any Error)
    }

    package let phase: Phase
    package let cause: Cause

    init(_ phase: Phase, _ cause: Cause) {
        self.phase = phase
        self.cause = cause
    }

    /// An error of a connection that was not made.
    init(_ error: any Error) {
        switch error {
        case let fault as HTTPFault: self = fault
        case ChannelError.connectTimeout: self.init(.connecting, .late)
        default: self.init(.connecting, error.isOfName ? .nameNotResolved : .error(error))
        }
    }
}
