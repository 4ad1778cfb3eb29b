import Synchronization
import Testing
import WorkerProtocol

@testable import Daemon

/// A worker that only writes down what it was sent.
final class FakeWorker: Sendable {
    private struct State {
        var frames: [[UInt8]] = []
        var closed = false
        var killed: WorkerEvents.RestartReason?
    }
    private let state = Mutex(State())
    let identifier: UInt64

    init(_ identifier: UInt64) { self.identifier = identifier }

    var connected: ConnectedWorker {
        ConnectedWorker(
            identifier: identifier,
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
