import Encodings
import Glibc
import Locks
package import Logging
package import NIOCore

// Unsafe: getrlimit(2) and setrlimit(2) use the structure only until they return.

/// The party that a connection counts for.
package enum ConnectionSource: Sendable, Hashable {
    /// A process of this host, by its uid.
    case user(UInt32)
    /// The accounts that one access rule admits without naming them, or that no rule admits.
    case accounts(String)
    /// All accounts that no access rule names.
    case unnamedAccounts
    /// A network address, or the network of which one party can have many addresses.
    case network(String)
    /// A client that has proved its identity.
    case client(String)

    /// Returns the sources that connections of an IP address count for. An IPv6 host can use any address in its network
    /// of 64 bits (RFC 4291 §2.5.4), so these addresses count as one source. The networks of 56 and 48 bits around it
    /// count too, since one party can have them (RFC 6177 §2). IPv4 addresses in IPv6 notation (§2.5.5.2) are not
    /// combined.
    ///
    /// - Parameter address: 4 or 16 bytes in network byte order.
    /// - Returns: the sources, the narrowest first.
    package static func networks(of address: [UInt8]) -> [ConnectionSource] {
        let isMapped =
            address.count == 16 && address[..<10].allSatisfy { $0 == 0 } && address[10...11] == [0xFF, 0xFF]
        let lengths = address.count == 16 && !isMapped ? [8, 7, 6] : [address.count]
        return lengths.map { .network(Hexadecimal.encode(Array(address.prefix($0)))) }
    }
}

/// A source against which a connection is counted, and the maximum number of connections from that source.
package struct ConnectionBound: Sendable, Equatable {
    package let source: ConnectionSource
    package let most: Int

    package init(_ source: ConnectionSource, most: Int) {
        self.source = source
        self.most = most
    }
}

/// Counts the connections of one listening socket, and decides which of them are served.
package final class ConnectionLimits: Sendable {
    /// The decision on a new connection.
    package enum Decision: Sendable {
        case serve
        /// The connection is answered with `overloaded` and closed soon.
        case refuse
        /// The connection is closed without an answer, since too many are already being answered `overloaded`.
        case close
    }

    /// The number of excess connections that may hold a descriptor while they are answered `overloaded`.
    package static let overloadedMargin = 32

    /// The maximum numbers of connections served at a time.
    package struct Maximum: Sendable, Equatable {
        package var total: Int
        package var perSource: Int
        /// Connections reserved for root and the daemon's own user, in addition to `total`. An administrator can still
        /// connect, no matter how many uids fill the socket.
        package var reserved = 0
        /// The part of `total` for connections whose client is not known yet; the rest is for known clients. A new
        /// connection beyond this part closes the oldest one of the largest source. Unused connections cannot be
        /// distinguished from needed ones, but a client can reconnect without harm. Nil if sources are known from the
        /// start. An excess connection is then refused.
        package var unidentified: Int?

        package init(total: Int, perSource: Int, reserved: Int = 0, unidentified: Int? = nil) {
            self.total = total
            self.perSource = perSource
            self.reserved = reserved
            self.unidentified = unidentified
        }

        /// The maximum for an administration socket. It needs few connections, but needs them even when other sockets are
        /// flooded, or when one permitted account opens as many as it can.
        package static let administration = Maximum(total: 64, perSource: 16, reserved: 8)
    }

    private let maximum: Maximum
    private let ownUID: UInt32
    private let places = Mutex(ConnectionPlaces())

    package init(_ maximum: Maximum, ownUID: UInt32 = geteuid()) {
        self.maximum = maximum
        self.ownUID = ownUID
    }

    /// Returns false if the source's next connection would be closed without an answer. `arriving` of its connections
    /// are accepted but not admitted yet. If new connections replace old ones, a source whose arriving connections
    /// already reach its maximum would only replace its own.
    func answers(_ source: ConnectionSource, after arriving: Int) -> Bool {
        guard maximum.unidentified == nil else { return arriving < maximum.perSource }
        let served = places.withLock { $0.count(of: source) }
        return served + arriving < maximum.perSource + Self.overloadedMargin
    }

    /// Decides on a new connection. Each call is followed by one ``release(_:decision:)`` with its decision when the channel
    /// is closed.
    ///
    /// A connection that is closed to make room for this one receives the event ``DismissalHandler/Dismissed``.
    ///
    /// - Parameter wider: the larger sources that `source` is a part of, the nearest first.
    package func admit(
        _ channel: any Channel, from source: ConnectionSource, within wider: [ConnectionBound] = []
    ) -> Decision {
        let mayUseReserve = source == .user(0) || source == .user(ownUID)
        let own = ConnectionBound(source, most: maximum.perSource)
        let bounds = mayUseReserve ? [own] : [own] + wider
        let open = maximum.total + (mayUseReserve ? maximum.reserved : 0)
        let (decision, dismissed) = places.withLock { places -> (Decision, (any Channel)?) in
            let reached = bounds.first { places.count(of: $0.source) >= $0.most }?.source
            let isFull = places.served >= open || places.unidentified.count >= maximum.unidentified ?? open
            guard reached != nil || isFull else {
                places.serve(channel, bounds.map(\.source))
                return (.serve, nil)
            }
            if maximum.unidentified != nil {
                let dismissed = places.dismissOldest(within: reached)
                places.serve(channel, bounds.map(\.source))
                return (.serve, dismissed)
            }
            guard places.overloaded < Self.overloadedMargin else { return (.close, nil) }
            places.overloaded += 1
            return (.refuse, nil)
        }
        dismissed?.pipeline.fireUserInboundEventTriggered(DismissalHandler.Dismissed())
        return decision
    }

    package func release(_ channel: any Channel, decision: Decision) {
        places.withLock { places in
            switch decision {
            case .serve: places.leave(channel)
            case .refuse: places.overloaded -= 1
            case .close: break
            }
        }
    }

    /// Counts a served connection for its client from now on, and no longer for its origin.
    ///
    /// - Returns: false if that client, or all clients together, already have the maximum; nothing changes then.
    package func recount(_ channel: any Channel, as source: ConnectionSource, atMost most: Int) -> Bool {
        let ofAll = maximum.unidentified.map { max(1, maximum.total - $0) } ?? Int.max
        return places.withLock { $0.identify(channel, as: source, atMost: most, ofAll: ofAll) }
    }

    /// Marks the end of the program: it accepts no more connections, and those already accepted get an answer to their first
    /// request.
    /// - Returns: the connections being served.
    package func drain() -> [any Channel] {
        places.withLock { places in
            places.isDraining = true
            return places.channels
        }
    }

    package var isDraining: Bool { places.withLock { $0.isDraining } }

    package var served: [any Channel] { places.withLock { $0.channels } }
}

/// The process's limit of open descriptors (RLIMIT_NOFILE).
package enum DescriptorLimit {
    /// The number of descriptors for other purposes than connections of the payments socket: listening sockets, event
    /// loops, workers, ledger, logs, administration, and the excess connections that are answered `overloaded`.
    /// Connections that a program makes itself are not included.
    package static let reserve = 256
    /// The limit to which the soft limit is raised at most. No daemon needs more, and libraries that iterate over all
    /// possible descriptors become slow.
    private static let ceiling: rlim_t = 65_536

    /// Raises the soft limit as far as the hard limit allows, but not above ``ceiling``. Returns the soft limit.
    package static func raise() -> Int {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
        let wanted = max(limit.rlim_cur, min(limit.rlim_max, ceiling))
        if wanted > limit.rlim_cur {
            var raised = rlimit(rlim_cur: wanted, rlim_max: limit.rlim_max)
            if unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 {
                limit.rlim_cur = wanted
            }
        }
        return Int(clamping: limit.rlim_cur)
    }

    /// Returns the number of the wanted connections that fit under `limit`; at least 16.
    ///
    /// - Parameters:
    ///   - outgoing: the maximum number of connections that the program makes itself.
    ///   - ofRequests: the maximum number of further connections that the program makes, one for each request under
    ///     way. At most half of the remaining descriptors are for them.
    package static func connections(wanted: Int, limit: Int, outgoing: Int = 0, ofRequests: Int = 0) -> Int {
        let free = limit - reserve - outgoing
        return min(wanted, max(16, free - ofRequests, free / 2))
    }

    /// Returns the number of connections that fits under this process's descriptor limit. Logs a warning if the
    /// setting's value does not fit.
    ///
    /// - Parameters:
    ///   - setting: the setting's name in the configuration.
    ///   - fitting: returns the number that fits under a limit; nil if the program makes no connections itself.
    package static func connections(
        _ setting: String, _ wanted: Int, _ logger: Logger, fitting: ((_ limit: Int) -> Int)? = nil
    ) -> Int {
        let limit = raise()
        let served = fitting?(limit) ?? connections(wanted: wanted, limit: limit)
        if served < wanted {
            logger.warning(
                "\(setting) does not fit under the descriptor limit; raise LimitNOFILE",
                metadata: ["wanted": "\(wanted)", "served": "\(served)", "limit": "\(limit)"])
        }
        return served
    }
}

/// The limits of one connection: for its requests, and for bytes that are read outside of them.
package struct RequestLimits: Sendable {
    package var idle: TimeAmount
    /// The time for a request's head and body together, from its first byte.
    package var request: TimeAmount = .seconds(10)
    /// The maximum size of a body that is discarded after an early refusal, so that the connection can stay open.
    package var discardedBody = 64 * 1024
    /// The number of bytes that are read and discarded from a peer that still sends after its last answer. Closing with
    /// unread bytes would make the kernel discard that answer.
    package var lingerBytes = 1024 * 1024
    package var linger: TimeAmount = .seconds(2)
    /// The time that a stopping program waits for the first request of a connection that it had accepted.
    package var firstRequestWhileDraining: TimeAmount = .seconds(1)

    package init(idle: TimeAmount, request: TimeAmount = .seconds(10)) {
        self.idle = idle
        self.request = request
    }
}

/// The served connections of one socket, by source.
struct ConnectionPlaces {
    /// A source and its number of connections. A class, so that a place reads the number without a dictionary look-up.
    final class Counted {
        let source: ConnectionSource
        var connections = 0

        init(_ source: ConnectionSource) { self.source = source }
    }

    struct Place {
        let channel: any Channel
        /// The sources that the connection counts for, the narrowest first.
        var sources: [Counted]
        /// Incremented with each connection that is served.
        let number: Int
    }

    /// The connections that count for their origin, which is an account or a network.
    private(set) var unidentified: [ObjectIdentifier: Place] = [:]
    /// The connections that count for their client, which has been identified, and no longer for their origin.
    private var identified: [ObjectIdentifier: Place] = [:]
    private var counts: [ConnectionSource: Counted] = [:]
    private var admitted = 0
    var overloaded = 0
    var isDraining = false

    var served: Int { unidentified.count + identified.count }
    var channels: [any Channel] { (Array(unidentified.values) + identified.values).map(\.channel) }

    func count(of source: ConnectionSource) -> Int { counts[source]?.connections ?? 0 }

    mutating func serve(_ channel: any Channel, _ sources: [ConnectionSource]) {
        admitted += 1
        unidentified[ObjectIdentifier(channel)] = Place(
            channel: channel, sources: sources.map { enter($0) }, number: admitted)
    }

    mutating func leave(_ channel: any Channel) {
        let identifier = ObjectIdentifier(channel)
        guard let place = unidentified.removeValue(forKey: identifier) ?? identified.removeValue(forKey: identifier)
        else { return }
        leave(place.sources)
    }

    mutating func identify(
        _ channel: any Channel, as source: ConnectionSource, atMost most: Int, ofAll: Int
    ) -> Bool {
        let identifier = ObjectIdentifier(channel)
        guard var place = identified[identifier] ?? unidentified[identifier] else { return false }
        guard place.sources.first?.source != source else { return true }
        guard count(of: source) < most, identified[identifier] != nil || identified.count < ofAll else { return false }
        unidentified[identifier] = nil
        leave(place.sources)
        place.sources = [enter(source)]
        identified[identifier] = place
        return true
    }

    /// Removes the oldest connection of the largest source, and returns its channel. The search begins with the widest
    /// sources. It chooses the one with the most connections, then the narrower one with the most connections within
    /// it, and so on. Among equals the oldest connection is chosen.
    ///
    /// - Parameter source: the only source whose connections are considered; nil for all.
    mutating func dismissOldest(within source: ConnectionSource?) -> (any Channel)? {
        let only = source.flatMap { counts[$0] }
        var chosen: (identifier: ObjectIdentifier, place: Place)?
        for (identifier, place) in unidentified where only.map({ place.counts(for: $0) }) ?? true {
            if let other = chosen?.place, !place.isEvicted(before: other) { continue }
            chosen = (identifier, place)
        }
        guard let chosen else { return nil }
        unidentified[chosen.identifier] = nil
        leave(chosen.place.sources)
        return chosen.place.channel
    }

    private mutating func enter(_ source: ConnectionSource) -> Counted {
        let counted = counts[source] ?? Counted(source)
        counted.connections += 1
        counts[source] = counted
        return counted
    }

    private mutating func leave(_ sources: [Counted]) {
        for counted in sources {
            counted.connections -= 1
            if counted.connections == 0 { counts[counted.source] = nil }
        }
    }
}

extension ConnectionPlaces.Place {
    fileprivate func counts(for source: ConnectionPlaces.Counted) -> Bool { sources.contains { $0 === source } }

    fileprivate func isEvicted(before other: Self) -> Bool {
        for (own, others) in zip(sources.reversed(), other.sources.reversed()) where own !== others {
            if own.connections != others.connections { return own.connections > others.connections }
        }
        return number < other.number
    }
}

/// Closes at once a connection that must make room for another one. It is first in the pipeline, so that no transport closes
/// gracefully: TLS would keep the descriptor until the peer has answered.
final class DismissalHandler: ChannelInboundHandler, Sendable {
    typealias InboundIn = Any

    struct Dismissed: Sendable {}

    private let dismissed: @Sendable () -> Void

    init(_ dismissed: @escaping @Sendable () -> Void) { self.dismissed = dismissed }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event is Dismissed else { return context.fireUserInboundEventTriggered(event) }
        dismissed()
        context.close(promise: nil)
    }
}
