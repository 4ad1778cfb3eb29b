import Foundation
import Locks
package import NIOCore
package import NIOPosix

// Unsafe: The list is read before freeaddrinfo(3), and each address as the structure that its family means.

/// Looks up the addresses of the hosts that this process connects to.
///
/// NIO's own resolver calls getaddrinfo(3) on one serial queue per event loop. If a name server does not answer for one
/// host, the connections to all others wait. This type looks up each name at most once at a time, on a thread for that
/// look-up. Found addresses are cached, so that most connections need no look-up.
///
/// No name comes from a request: those of Apple, the proxy and the processors are configuration. Literal addresses are never
/// looked up.
package final class HostNames: Sendable {
    package struct Limits: Sendable {
        /// The age up to which cached addresses need no new look-up. getaddrinfo returns no time to live.
        package var fresh = Duration.seconds(30)
        /// The age up to which cached addresses are used while a new look-up is not finished, or fails.
        package var stale = Duration.seconds(600)
        /// The time that a connection waits for a new look-up before it uses older addresses.
        package var patience = Duration.milliseconds(250)
        /// The maximum number of concurrent look-ups, each on its own thread.
        package var lookUps = 64

        package init() {}
    }

    /// The reason why a name has no addresses.
    package enum Failure: Error, Equatable {
        /// getaddrinfo(3) failed with this code.
        case notFound(Int32)
        case tooManyLookUps
        /// The connection is no longer needed.
        case cancelled
    }

    private struct Found {
        let addresses: [SocketAddress]
        let time: ContinuousClock.Instant
    }

    private struct LookUp {
        let began: ContinuousClock.Instant
        var waiting: [Int: EventLoopPromise<[SocketAddress]>] = [:]
    }

    private struct State {
        var found: [String: Found] = [:]
        var running: [String: LookUp] = [:]
        var lastNumber = 0
    }

    /// The instance that this process shares.
    package static let shared = HostNames()

    private let limits: Limits
    private let lookUp: @Sendable (String) throws -> [SocketAddress]
    private let state = Mutex(State())

    /// Creates an instance with its own cache.
    ///
    /// - Parameter lookUp: returns a name's addresses, whose ports are ignored; may block.
    package init(
        _ limits: Limits = Limits(),
        lookUp: @escaping @Sendable (String) throws -> [SocketAddress] = HostNames.addresses(of:)
    ) {
        self.limits = limits
        self.lookUp = lookUp
    }

    /// Returns the resolver of one connection on this event loop.
    package func resolver(on eventLoop: any EventLoop) -> any Resolver & Sendable {
        ConnectionResolver(names: self, eventLoop: eventLoop)
    }

    /// Looks up a name.
    ///
    /// - Returns: the addresses, and a function that cancels the wait for them.
    fileprivate func ask(
        _ host: String, on eventLoop: any EventLoop
    ) -> (addresses: EventLoopFuture<[SocketAddress]>, cancel: @Sendable () -> Void) {
        let answer = eventLoop.makePromise(of: [SocketAddress].self)
        if let literal = try? SocketAddress(ipAddress: host, port: 0) {
            answer.succeed([literal])
            return (answer.futureResult, {})
        }
        let name = host.lowercased()
        let now = ContinuousClock.now
        var startsLookUp = false
        var number: Int?
        let immediate: Result<[SocketAddress], Failure>? = state.withLock { state in
            let known = state.found[name]
            if let known, now - known.time <= limits.fresh { return .success(known.addresses) }
            let usable = known.flatMap { now - $0.time <= limits.stale ? $0.addresses : nil }
            if state.running[name] == nil {
                guard state.running.count < limits.lookUps else {
                    return usable.map { .success($0) } ?? .failure(.tooManyLookUps)
                }
                state.running[name] = LookUp(began: now)
                startsLookUp = true
            } else if let usable, let began = state.running[name]?.began, now - began >= limits.patience {
                return .success(usable)
            }
            state.lastNumber += 1
            number = state.lastNumber
            state.running[name]?.waiting[state.lastNumber] = answer
            if let usable {
                // If the look-up has already fulfilled the promise, this has no effect.
                eventLoop.scheduleTask(in: TimeAmount(limits.patience)) { answer.succeed(usable) }
            }
            return nil
        }
        if startsLookUp { start(name) }
        guard let number else {
            if let immediate { answer.completeWith(immediate.mapError { $0 as any Error }) }
            return (answer.futureResult, {})
        }
        return (
            answer.futureResult,
            { [self] in
                let waiting = state.withLock { $0.running[name]?.waiting.removeValue(forKey: number) }
                waiting?.fail(Failure.cancelled)
            }
        )
    }

    private func start(_ name: String) {
        let thread = Thread { [self] in
            let result = Result { try lookUp(name) }
            finish(name, result)
        }
        thread.name = "host-name"
        thread.stackSize = 512 << 10
        thread.start()
    }

    private func finish(_ name: String, _ result: Result<[SocketAddress], any Error>) {
        let now = ContinuousClock.now
        let (waiting, answer) = state.withLock { state in
            state.found = state.found.filter { now - $0.value.time <= limits.stale }
            var answer = result
            if case .success(let addresses) = result {
                state.found[name] = Found(addresses: addresses, time: now)
            } else if let known = state.found[name] {
                answer = .success(known.addresses)
            }
            return (state.running.removeValue(forKey: name)?.waiting ?? [:], answer)
        }
        for promise in waiting.values { promise.completeWith(answer) }
    }

    /// Calls getaddrinfo(3), which sorts the addresses (RFC 6724 §6). Blocks until it returns.
    package static func addresses(of name: String) throws -> [SocketAddress] {
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        unsafe hints.ai_protocol = Int32(IPPROTO_TCP)
        var first: UnsafeMutablePointer<addrinfo>?
        let code = unsafe getaddrinfo(name, nil, &hints, &first)
        guard code == 0 else { throw Failure.notFound(code) }
        defer { unsafe freeaddrinfo(first) }
        var found: [SocketAddress] = []
        var next = unsafe first
        while let entry = unsafe next {
            if let address = unsafe UnsafeRawPointer(entry.pointee.ai_addr) {
                switch unsafe entry.pointee.ai_family {
                case AF_INET: unsafe found.append(SocketAddress(address.load(as: sockaddr_in.self)))
                case AF_INET6: unsafe found.append(SocketAddress(address.load(as: sockaddr_in6.self)))
                default: break
                }
            }
            unsafe next = entry.pointee.ai_next
        }
        return found
    }
}

/// Passes NIO's look-ups for one connection to ``HostNames``, and cancels them if NIO no longer needs them.
private final class ConnectionResolver: Resolver, Sendable {
    private let names: HostNames
    private let eventLoop: any EventLoop
    private let cancellations = Mutex<[@Sendable () -> Void]>([])

    init(names: HostNames, eventLoop: any EventLoop) {
        self.names = names
        self.eventLoop = eventLoop
    }

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        addresses(of: host, port) { if case .v4 = $0 { true } else { false } }
    }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        addresses(of: host, port) { if case .v6 = $0 { true } else { false } }
    }

    func cancelQueries() {
        let cancellations = cancellations.withLock { all in
            defer { all = [] }
            return all
        }
        for cancel in cancellations { cancel() }
    }

    private func addresses(
        of host: String, _ port: Int, _ isOfFamily: @escaping @Sendable (SocketAddress) -> Bool
    ) -> EventLoopFuture<[SocketAddress]> {
        let (addresses, cancel) = names.ask(host, on: eventLoop)
        cancellations.withLock { $0.append(cancel) }
        return addresses.map { all in
            all.filter(isOfFamily).map { address in
                var address = address
                address.port = port
                return address
            }
        }
    }
}
