package import AccessControl
import FairShares
import Glibc
import HostSystem
package import NIOCore
import NIOPosix

// Unsafe: The system calls use a byte or an array of two only until they return. The executor runs each job once, as
// Swift requires.

/// An owner of turns, and optionally a name for which it works. The owner's turns rotate among its names
/// (``FairQueue``).
package struct TurnShare: Sendable, Equatable {
    package let owner: ConnectionSource
    package let name: String?

    package init(of owner: ConnectionSource, named name: String? = nil) {
        self.owner = owner
        self.name = name
    }

    /// Returns the share for work that the owner does for one of its clients. A share that already has a name keeps it.
    func named(_ client: String?) -> TurnShare { TurnShare(of: owner, named: name ?? client) }
}

/// One event loop's time, shared by the sources of its connections. Each source in turn has one piece of work done, such as a
/// request's head or the verification of a payment token.
///
/// Without turns, a source with many connections, or with many requests in one read, would have all of them processed
/// before another source's bytes are even read. An event loop polls its sockets only when it has no task left, and a
/// task that schedules another one prevents that. Therefore, after ``quantum`` of work, the next turn begins only when
/// the sockets have been polled again.
///
/// If the loop is free, work begins at once, on its caller's stack.
package final class LoopTurns: Sendable {
    private struct State {
        var waiting = FairQueue<ConnectionSource, () -> Void>()
        /// True while a turn is under way.
        var isTaken = false
        var began = NIODeadline.now()
        /// The time that turns took since the sockets were polled.
        var spent = TimeAmount.zero
        /// True while the next turn is scheduled: as a task, or after the next poll.
        var isServing = false
        /// True while a task is scheduled that runs after the loop's current work.
        var isMarked = false
        /// One end of a socket pair, whose other end the loop reads; nil after ``stop()``.
        var poll: CInt?
    }

    /// The time that turns may take before sockets are polled again. A source may have to wait that long at each step
    /// of its work. A poll costs a few microseconds.
    static let quantum = TimeAmount.microseconds(200)

    package let eventLoop: any EventLoop
    private let state: NIOLoopBoundBox<State>

    private init(eventLoop: any EventLoop, poll: CInt) {
        self.eventLoop = eventLoop
        state = .makeBoxSendingValue(State(poll: poll), eventLoop: eventLoop)
    }

    /// Makes the turns of an event loop.
    ///
    /// - Throws: `SystemError` or NIO's errors if there are no descriptors left.
    static func start(on eventLoop: any EventLoop) async throws -> LoopTurns {
        var ends: [CInt] = [-1, -1]
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard unsafe socketpair(AF_UNIX, type, 0, &ends) == 0 else {
            throw SystemError(call: "socketpair", errno: errno)
        }
        let turns = LoopTurns(eventLoop: eventLoop, poll: ends[1])
        // NIO closes the channel when the other end is closed.
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

    /// Stops waiting for polls. Work that is still waiting then runs without a poll.
    func stop() {
        eventLoop.execute {
            if let poll = self.state.withValue({ $0.poll.take() }) { close(poll) }
            if self.state.withValue({ $0.isServing }) { self.polled() }
        }
    }

    // All of the following methods run on the event loop.

    /// Runs work when its owner has a turn. If the loop is free, the work runs before this returns.
    ///
    /// - Parameter work: the work, which must call ``end()`` once, when it is done.
    func take(of share: TurnShare, _ work: @escaping () -> Void) {
        if takeNow() { return work() }
        state.value.waiting.append(work, of: share.owner, named: share.name)
        serveNext()
    }

    /// Begins a turn if the loop is free. Otherwise returns false.
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
        // The marker runs after the loop's current work. If no work waits then, the loop polls its sockets next.
        if !isMarked { eventLoop.execute { self.markerRan() } }
        serveNext()
    }

    private func markerRan() {
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

/// Reads the byte that an event loop has sent to itself. Its arrival proves that the loop has polled its sockets since.
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
/// A payment's request is then read, decided and answered by one thread. Otherwise, a task that waits for the HSM and the
/// ledger moves from the connection's event loop to a thread of the concurrency runtime and back, and each of these steps
/// wakes a sleeping thread.
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

/// The limits on a Unix socket's connections from accounts that no rule names. One account can have thousands of uids in user
/// namespaces, each with its own limit. The remaining connections are for the accounts that rules name.
package struct UnnamedShares: Sendable {
    /// The maximum number of the socket's connections.
    private let total: Int

    package init(total: Int) { self.total = total }

    /// The maximum for all accounts that no rule names, together.
    private var all: Int { share(3, of: 4) }
    /// The maximum for the accounts that one rule admits by a group.
    private var ofRule: Int { share(1, of: 2) }
    /// The maximum for accounts that no rule admits; their requests are refused.
    private var unmatched: Int { share(1, of: 4) }

    package func bounds(for accounts: UnnamedAccounts?) -> [ConnectionBound] {
        guard let accounts else { return [] }
        return [
            ConnectionBound(accounts.source, most: accounts == .unmatched ? unmatched : ofRule),
            ConnectionBound(.unnamedAccounts, most: all),
        ]
    }

    private func share(_ part: Int, of parts: Int) -> Int { max(1, total * part / parts) }

    /// Accepts a connection that counts for its peer's uid. If the rule that admits the peer names no user, the connection
    /// also counts for that rule.
    ///
    /// - Parameters:
    ///   - accounts: returns the set of accounts that a peer counts for; nil for an account that a rule names.
    ///   - handler: returns the handler of the connection's requests.
    package func accept(
        _ connection: CInt, counting accounts: (PeerCredentials) -> UnnamedAccounts?,
        handler: @escaping @Sendable (PeerCredentials) -> any RequestHandler
    ) throws -> AcceptedConnection {
        // The kernel recorded these when the peer connected and does not change them, so they are read only once.
        let peer = try PeerCredentials(connectedSocket: connection)
        let unnamed = accounts(peer)
        // One account can have thousands of uids in user namespaces. They share turns, so that the account gets no more
        // of them than others do.
        let share = unnamed.map { TurnShare(of: $0.source, named: "\(peer.uid)") } ?? TurnShare(of: .user(peer.uid))
        return AcceptedConnection(
            source: .user(peer.uid), within: bounds(for: unnamed), share: { share }, handler: { _ in handler(peer) })
    }
}

extension UnnamedAccounts {
    /// The source that these accounts' connections count for, and whose turns their work takes.
    fileprivate var source: ConnectionSource {
        switch self {
        case .group(let group): .accounts("group \(group)")
        case .unmatched: .accounts("unmatched")
        }
    }
}
