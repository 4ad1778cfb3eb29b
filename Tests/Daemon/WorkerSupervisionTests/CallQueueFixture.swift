import Locks
import Testing
import WorkerProtocol

@testable import WorkerSupervision

/// A worker that records the calls it receives, and answers none of them.
final class FakeWorker: Sendable {
    private struct State {
        var frames: [[UInt8]] = []
        var closed = false
        var killed: WorkerEvents.RestartReason?
    }
    private let state = Mutex(State())
    let number: UInt64

    init(_ number: UInt64) { self.number = number }

    var connected: ConnectedWorker {
        ConnectedWorker(
            number: number,
            send: { frame in self.state.withLock { $0.frames.append(frame) } },
            close: { self.state.withLock { $0.closed = true } },
            kill: { reason in self.state.withLock { $0.killed = reason } })
    }

    var requests: [(identifier: UInt64, request: WorkerRequest)] {
        get throws {
            try state.withLock { $0.frames }.map { bytes in
                var decoder = FrameDecoder(maximumLength: FieldBound.requestFrame)
                decoder.append(bytes)
                let frame = try #require(try decoder.next())
                return (frame.identifier, try WorkerRequest(frame))
            }
        }
    }
    var count: Int { state.withLock { $0.frames.count } }
    var isClosed: Bool { state.withLock { $0.closed } }
    var killed: WorkerEvents.RestartReason? { state.withLock { $0.killed } }
}

extension CallQueue {
    static func forTest(
        window: Int = 2, waiting: Int = 100, callTimeout: Duration = .seconds(5), recycleAfter: Int = 1000,
        sessions: Int = .max, events: WorkerEvents = WorkerEvents(), refusedInputs: RefusedInputs = RefusedInputs(),
        recycleDue: @escaping @Sendable (UInt64) -> Void = { _ in }
    ) -> CallQueue {
        CallQueue(
            limits: Limits(
                window: window, waiting: waiting, callTimeout: callTimeout, recycleAfter: recycleAfter,
                sessions: sessions),
            events: events, refusedInputs: refusedInputs, recycleDue: recycleDue)
    }

    /// Adds a worker that serves from now on, and returns it.
    @discardableResult
    func serve(_ number: UInt64) -> FakeWorker {
        let worker = FakeWorker(number)
        add(worker.connected)
        #expect(serve(with: number))
        return worker
    }

    /// Starts a call as the daemon does: if the worker ends, the call is attempted once more. Does not wait for the
    /// answer.
    func start(_ request: WorkerRequest, _ terms: CallTerms = CallTerms()) -> Task<CallResult, Never> {
        Task { await call(request, terms: terms) { $0 }.result }
    }

    /// Starts a call that is attempted only once. Does not wait for the answer.
    func attempt(_ request: WorkerRequest, _ terms: CallTerms = CallTerms()) -> Task<CallResult, Never> {
        Task { await submit(request, terms: terms) }
    }
}

extension WorkerRequest {
    /// Returns a decryption whose input differs for each number.
    static func input(_ number: UInt8) -> WorkerRequest {
        .decrypt(
            Decryption(
                publicKeyHash: [number], scheme: .ecV1, keyMaterial: [], otherInfo: [], ciphertext: [number]))
    }
}

extension CallResult {
    var failure: CallFailure? { if case .failure(let failure) = self { failure } else { nil } }
    var kind: WorkerFailure.Kind? { failure?.kind }
}
