import Synchronization
import WorkerProtocol

/// The worker's end of the socket pair: one thread at a time reads, all threads answer.
final class FrameStream: Sendable {
    private struct Outbox {
        var bytes: [UInt8] = []
        var isWriting = false
    }

    private let descriptor: Int32
    private let outbox = Mutex(Outbox())

    init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// Blocks for the next piece of the stream; nil at its end, or when it broke.
    func read() -> [UInt8]? {
        BlockingDescriptor.read(atMost: 64 * 1024, from: descriptor)
    }

    /// Sends an answer. One thread at a time writes, including what the others answer in the meantime.
    func send(_ answer: WorkerAnswer, for identifier: UInt64) {
        let frame: [UInt8]
        do throws(FrameError) {
            frame = try answer.encoded(identifier: identifier)
        } catch {
            // Only a listing of keys can be too large.
            let failure = WorkerFailure(.notSupported, "The answer does not fit into a frame: too many keys.")
            guard let small = try? WorkerAnswer.failed(failure).encoded(identifier: identifier) else { return }
            frame = small
        }
        let writes = outbox.withLock { outbox in
            outbox.bytes.append(contentsOf: frame)
            defer { outbox.isWriting = true }
            return !outbox.isWriting
        }
        guard writes else { return }
        // A broken stream is left to the reader to notice.
        while let batch = nextBatch() { BlockingDescriptor.write(batch, to: descriptor) }
    }

    private func nextBatch() -> [UInt8]? {
        outbox.withLock { outbox in
            guard !outbox.bytes.isEmpty else {
                outbox.isWriting = false
                return nil
            }
            defer { outbox.bytes = [] }
            return outbox.bytes
        }
    }
}
