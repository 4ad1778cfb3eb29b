package import NIOCore
package import NIOHTTP1

/// A request, with the way in which its answer is delivered.
package struct HTTPRequest: Sendable {
    /// The delivery of a 2xx answer's body. The body of any other answer is always gathered, because it is short.
    package enum Delivery: Sendable {
        /// The body is gathered; the deadline applies until the last byte.
        case gathered
        /// The body is delivered in pieces on demand. At most a few pieces are in memory. The deadline applies until
        /// the answer's head has arrived. From then on, `idle` is the maximum time to wait for more bytes; nil waits
        /// for ever.
        case streamed(idle: Duration?)
    }

    package var head: HTTPRequestHead
    /// The body, which is sent with a Content-Length header; nil if the request has no body.
    package var body: ByteBuffer?
    package var delivery = Delivery.gathered
    /// Runs once on the event loop if the request was sent and the deadline passes before the answer. Returns the additional
    /// time for the answer; zero ends the wait.
    package var atDeadline: @Sendable () -> Duration = { .zero }
    /// True if the connection ends when the task that waits for the answer is cancelled.
    package var endsWithTask = false

    package init(_ method: HTTPMethod, _ target: String, _ headers: HTTPHeaders, body: ByteBuffer? = nil) {
        head = HTTPRequestHead(version: .http1_1, method: method, uri: target, headers: headers)
        self.body = body
        if let body { head.headers.replaceOrAdd(name: "Content-Length", value: String(body.readableBytes)) }
    }

    /// Waits for the answer to the request that `ask` sends.
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

/// An answer with its body, or its head and a stream of the body's pieces.
package struct HTTPResponse: Sendable {
    package let head: HTTPResponseHead
    package let body: HTTPBody
    /// True if the body is certainly complete. False for a body that arrived without a length and without chunks: a
    /// truncated one would look complete.
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
    /// The gathered body, within ``HTTPDestination/maximumBodyBytes``.
    case whole([UInt8])
    /// The body's pieces. The sequence ends when the other side has ended the body, and throws ``HTTPFault`` if the
    /// connection ends first.
    case pieces(Pieces)
}

/// The reason why a request has no answer, or why a streamed body ended early.
package struct HTTPFault: Error, Sendable {
    /// The stage that the connection had reached. Before ``asked`` no byte of the request was written; from then on the
    /// request may have arrived.
    package enum Phase: Int, Comparable, Sendable {
        case connecting, securing, idle
        /// The request was written, and no byte of an answer has arrived.
        case asked
        case answering

        package static func < (one: Phase, other: Phase) -> Bool { one.rawValue < other.rawValue }
    }

    package enum Cause: Sendable {
        /// The deadline passed.
        case late
        /// No byte of a streamed body arrived during this time.
        case silent(Duration)
        case nameNotResolved
        /// The connection ended.
        case ended
        /// The head, the body, or bytes outside any answer exceed their bounds.
        case tooLarge
        /// The other side does not speak HTTP/1.1, or sent bytes that were not requested.
        case notHTTP
        /// An error while connecting, in ``HTTPDestination/prepare``, or in TLS.
        case error(any Error)
    }

    package let phase: Phase
    package let cause: Cause

    init(_ phase: Phase, _ cause: Cause) {
        self.phase = phase
        self.cause = cause
    }

    /// Creates the fault of a connection that was not established.
    init(_ error: any Error) {
        switch error {
        case let fault as HTTPFault: self = fault
        case ChannelError.connectTimeout: self.init(.connecting, .late)
        default: self.init(.connecting, error.isNameResolutionFailure ? .nameNotResolved : .error(error))
        }
    }
}
