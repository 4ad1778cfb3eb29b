import Glibc
package import NIOCore
import Synchronization

/// Who has connected, as far as connections are counted by it.
package enum ConnectionSource: Sendable, Hashable {
    /// A process of this host, by its uid.
    case user(UInt32)
    /// A network address, or the part of it that one party can have many of.
    case network(String)
    /// Somebody who has said, and proved, who he is.
    case client(String)
}

/// Counts the connections of one listening socket, and decides which of them are served.
package final class ConnectionLimits: Sendable {
    /// What becomes of a new connection.
    package enum Decision: Sendable {
        case serve
        /// Answered with `overloaded` and closed soon.
        case refuse
        /// Closed without an answer: even those that are being answered `overloaded` are too many.
        case close
    }

    private struct Place {
        let channel: any Channel
        var source: ConnectionSource
        /// Counted up with each connection that is served.
        let number: Int
    }

    private struct Count {
        var served: [ObjectIdentifier: Place] = [:]
        var servedBySource: [ConnectionSource: Int] = [:]
        var overloaded = 0
        var isDraining = false
        var admitted = 0

        mutating func serve(_ channel: any Channel, _ source: ConnectionSource) {
            admitted += 1
            served[ObjectIdentifier(channel)] = Place(channel: channel, source: source, number: admitted)
            servedBySource[source, default: 0] += 1
        }

        /// Takes the place of the oldest connection of that source.
        mutating func dismissOldest(of source: ConnectionSource) -> (any Channel)? {
            guard
                let (identifier, place) = served.filter({ $0.value.source == source }).min(by: {
                    $0.value.number < $1.value.number
                })
            else { return nil }
            served[identifier] = nil
            leave(source)
            return place.channel
        }

        mutating func leave(_ source: ConnectionSource) {
            let left = servedBySource[source, default: 1] - 1
            servedBySource[source] = left == 0 ? nil : left
        }
    }

    /// How many excess connections may hold a descriptor while they are answered `overloaded`.
    package static let overloadedMargin = 32

    /// How many connections are served at a time.
    package struct Maximum: Sendable, Equatable {
        package var total: Int
        package var perSource: Int
        /// Kept free of everybody but root and the daemon's own user, beyond `total`: however many uids fill the
        /// socket, an administrator still gets in.
        package var reserved = 0
        /// Whether a new connection takes the place of the oldest one of its source, or of the source that has the most, instead of
        /// being refused: where those who hold connections and those who need one cannot be told from each other, and
        /// a connection that was closed is made anew without harm.
        package var oldestGivesWay = false

        package init(total: Int, perSource: Int, reserved: Int = 0, oldestGivesWay: Bool = false) {
            self.total = total
            self.perSource = perSource
            self.reserved = reserved
            self.oldestGivesWay = oldestGivesWay
        }
    }

    private let maximum: Maximum
    private let ownUID: UInt32
    private let count = Mutex(Count())

    package init(_ maximum: Maximum, ownUID: UInt32 = geteuid()) {
        self.maximum = maximum
        self.ownUID = ownUID
    }

    /// Returns false if one more connection of this source would be closed without an answer, after `arriving` ones that were not
    /// admitted yet.
    func answers(_ source: ConnectionSource, after arriving: Int) -> Bool {
        let served = count.withLock { $0.servedBySource[source, default: 0] }
        return maximum.oldestGivesWay || served + arriving < maximum.perSource + Self.overloadedMargin
    }

    /// Each `admit` is followed by one ``release(_:decision:)`` with its decision when the channel is closed.
    package func admit(_ channel: any Channel, from source: ConnectionSource) -> Decision {
        let (decision, dismissed) = count.withLock { count -> (Decision, (any Channel)?) in
            let ofSource = count.servedBySource[source, default: 0]
            let mayUseReserve = source == .user(0) || source == .user(ownUID)
            let open = maximum.total + (mayUseReserve ? maximum.reserved : 0)
            if count.served.count < open, ofSource < maximum.perSource {
                count.serve(channel, source)
                return (.serve, nil)
            }
            if maximum.oldestGivesWay {
                let most = count.servedBySource.max { $0.value < $1.value }?.key ?? source
                let dismissed = count.dismissOldest(of: ofSource < maximum.perSource ? most : source)
                count.serve(channel, source)
                return (.serve, dismissed)
            }
            guard count.overloaded < Self.overloadedMargin else { return (.close, nil) }
            count.overloaded += 1
            return (.refuse, nil)
        }
        dismissed?.close(promise: nil)
        return decision
    }

    package func release(_ channel: any Channel, decision: Decision) {
        count.withLock { count in
            switch decision {
            case .serve:
                guard let place = count.served.removeValue(forKey: ObjectIdentifier(channel)) else { return }
                count.leave(place.source)
            case .refuse: count.overloaded -= 1
            case .close: break
            }
        }
    }

    /// Counts a served connection by somebody else from now on: by who is known to use it.
    ///
    /// - Returns: false where so many of that source's are served already; then nothing changes.
    package func recount(_ channel: any Channel, as source: ConnectionSource, atMost most: Int) -> Bool {
        count.withLock { count in
            let identifier = ObjectIdentifier(channel)
            guard let place = count.served[identifier] else { return false }
            guard place.source != source else { return true }
            guard count.servedBySource[source, default: 0] < most else { return false }
            count.leave(place.source)
            count.served[identifier]?.source = source
            count.servedBySource[source, default: 0] += 1
            return true
        }
    }

    /// The program ends: it accepts no connections any more, and those that it had accepted get an answer to their first request.
    /// - Returns: the connections that are served.
    package func drain() -> [any Channel] {
        count.withLock { count in
            count.isDraining = true
            return count.served.values.map(\.channel)
        }
    }

    package var isDraining: Bool { count.withLock { $0.isDraining } }

    /// The connections being served.
    package var served: [any Channel] { count.withLock { $0.served.values.map(\.channel) } }
}

/// The process's limit of open descriptors (RLIMIT_NOFILE).
package enum DescriptorLimit {
    /// Descriptors that are not connections of the payments socket: listening sockets, event loops, workers, ledger,
    /// logs, administration, and the excess connections that are answered `overloaded`.
    package static let reserve = 256
    /// No daemon needs more, and libraries that walk through all possible descriptors become slow.
    private static let ceiling: rlim_t = 65_536

    /// Raises the soft limit as far as the hard one allows, and returns it.
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

    /// How many of the wanted connections fit under `limit`; at least 16.
    package static func connections(wanted: Int, limit: Int) -> Int {
        min(wanted, max(16, limit - reserve))
    }
}

/// Of one connection: its requests, and what is read beside them.
package struct RequestLimits: Sendable {
    package var idle: TimeAmount
    /// For a request's head and body together, from its first byte.
    package var request: TimeAmount = .seconds(10)
    /// Of a body that is thrown away after an early refusal, so that the connection can stay.
    package var discardedBody = 64 * 1024
    /// What is read and thrown away of a peer that still sends after its last answer: closing with unread bytes would
    /// make the kernel discard that answer.
    package var lingerBytes = 1024 * 1024
    package var linger: TimeAmount = .seconds(2)
    /// How long a program that ends waits for the first request of a connection that it had accepted.
    package var firstRequestWhileDraining: TimeAmount = .seconds(1)

    package init(idle: TimeAmount, request: TimeAmount = .seconds(10)) {
        self.idle = idle
        self.request = request
    }
}
