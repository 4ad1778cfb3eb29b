import FairShares
import Glibc
import HostSystem
package import NIOCore
import NIOPosix

/// The turns that some work takes: an owner's, which go round the names under it (``FairQueue``).
package struct TurnShare: Sendable, Equatable {
    package let owner: ConnectionSource
    package let name: String?

    package init(of owner: ConnectionSource, named name: String? = nil) {
        self.owner = owner
        self.name = name
    }

    /// The same for work that the owner does for a client of its own. Turns that go round names already stay so.
    func named(_ client: String?) -> TurnShare { TurnShare(of: owner, named: name ?? client) }
}

/// One event loop's time, shared by the sources of its connections: each source in turn has one piece of work done, a
/// request's head say, or the verification of a payment token.
///
/// Without this, a source with many connections, or with many requests in one read, has all of them done before another
/// source's bytes are even read: an event loop reads sockets only when it has no task left, and a task that gives itself
/// another one never lets it. So after ``quantum`` of work a turn begins only when the sockets have been polled again.
///
/// Work that finds the loop free begins at once, on the stack of its caller.
package final class LoopTurns: Sendable {
    private struct State {
        var waiting = FairQueue<ConnectionSource, () -> Void>()
        /// A turn has begun and not ended.
        var isTaken = false
        var began = NIODeadline.now()
        /// How long turns took since the sockets were polled.
        var spent = TimeAmount.zero
        /// The next turn is on its way: as a task, or with the next poll.
        var isServing = false
        /// A task will run after what the loop does now.
        var isMarked = false
        /// The end of a socket pair whose other end the loop reads; nil after ``stop()``.
        var poll: CInt?
    }

    /// How much work is done before sockets are polled again. Every source waits for so much of others' work at each step of
    /// its own; a poll costs a few microseconds.
    static let quantum = TimeAmount.microseconds(200)

    package let eventLoop: any EventLoop
    private let state: NIOLoopBoundBox<State>

    private init(eventLoop: any EventLoop, poll: CInt) {
        self.eventLoop = eventLoop
        state = .makeBoxSendingValue(State(poll: poll), eventLoop: eventLoop)
    }

    /// - Throws: `SystemError` or NIO's errors, for want of descriptors.
    static func start(on eventLoop: any EventLoop) async throws -> LoopTurns {
        var ends: [CInt] = [-1, -1]
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard unsafe socketpair(AF_UNIX, type, 0, &ends) == 0 else {
            throw SystemError(call: "socketpair", errno: errno)
        }
        let turns = LoopTurns(eventLoop: eventLoop, poll: ends[1])
        // The channel is closed when the other end is.
        _ = try await ClientBootstrap(group: eventLoop)
            .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 16))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(PollReader { turns.polled() })
                }
            }
            .withConnectedSocket(ends[0]).get()
        return turns
    }

    /// What still waits is done; no poll is awaited any more.
    func stop() {
        eventLoop.execute {
            if let poll = self.state.withValue({ $0.poll.take() }) { close(poll) }
            if self.state.withValue({ $0.isServing }) { self.polled() }
        }
    }

    // All of the following on the event loop.

    /// Has work done as soon as it is its owner's turn; when the loop is free, before this returns.
    ///
    /// - Parameter work: calls ``end()`` once, when it is done.
    func take(of share: TurnShare, _ work: @escaping () -> Void) {
        if takeNow() { return work() }
        state.value.waiting.append(work, of: share.owner, named: share.name)
        serveNext()
    }

    /// Begins a turn if the loop is free.
    func takeNow() -> Bool {
        state.withValue { state in
            guard !state.isTaken, state.waiting.isEmpty, state.spent < Self.quantum else { return false }
            state.isTaken = true
            state.began = .now()
            return true
        }
    }

    /// Ends the turn that has begun.
    func end() {
        let isMarked = state.withValue { state in
            state.isTaken = false
            state.spent = state.spent + (NIODeadline.now() - state.began)
            defer { state.isMarked = true }
            return state.isMarked
        }
        // Where nothing waits, the loop polls its sockets after this task.
        if !isMarked { eventLoop.execute { self.reachedMark() } }
        serveNext()
    }

    private func reachedMark() {
        state.withValue { state in
            state.isMarked = false
            if state.waiting.isEmpty { state.spent = .zero }
        }
    }

    private func serveNext() {
        let needsPoll: Bool? = state.withValue { state in
            guard !state.isTaken, !state.isServing, !state.waiting.isEmpty else { return nil }
            state.isServing = true
            return state.spent >= Self.quantum
        }
        switch needsPoll {
        case nil: break
        case true?:
            if !requestPoll() { eventLoop.execute { self.polled() } }
        case false?: eventLoop.execute { self.serve() }
        }
    }

    private func requestPoll() -> Bool {
        guard let poll = state.value.poll else { return false }
        var byte: UInt8 = 0
        return unsafe send(poll, &byte, 1, CInt(MSG_NOSIGNAL)) == 1
    }

    private func polled() {
        state.value.spent = .zero
        serve()
    }

    private func serve() {
        let work: (() -> Void)? = state.withValue { state in
            state.isServing = false
            guard !state.isTaken, let work = state.waiting.popFirst() else { return nil }
            state.isTaken = true
            state.began = .now()
            return work
        }
        work?()
    }
}

/// Reads the byte that an event loop has sent itself: its sockets have been polled since.
private final class PollReader: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let polled: @Sendable () -> Void

    init(_ polled: @escaping @Sendable () -> Void) {
        self.polled = polled
    }

    func channelReadComplete(context: ChannelHandlerContext) { polled() }
}

/// The turns of all event loops of a listener.
struct ListenerTurns: Sendable {
    private let byLoop: [ObjectIdentifier: LoopTurns]

    static func start(on group: any EventLoopGroup) async throws -> ListenerTurns {
        var started: [ObjectIdentifier: LoopTurns] = [:]
        do {
            for eventLoop in group.makeIterator() {
                started[ObjectIdentifier(eventLoop)] = try await LoopTurns.start(on: eventLoop)
            }
        } catch {
            for turns in started.values { turns.stop() }
            throw error
        }
        return ListenerTurns(byLoop: started)
    }

    subscript(eventLoop: any EventLoop) -> LoopTurns? { byLoop[ObjectIdentifier(eventLoop)] }

    func stop() {
        for turns in byLoop.values { turns.stop() }
    }
}

/// Runs tasks on an event loop's own thread.
///
/// A payment's request is read, decided and answered by one thread then: without this, a task that waits for the HSM and
/// for the ledger goes from the connection's event loop to one of the concurrency runtime's threads and back, and every one
/// of these steps wakes a thread that sleeps.
final class EventLoopExecutor: TaskExecutor {
    private let eventLoop: any EventLoop

    init(_ eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        eventLoop.execute { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
