import Glibc
import NIOCore
import Synchronization

/// Counts the connections of one listening socket, and decides which of them are served.
final class ConnectionLimits: Sendable {
    /// What becomes of a new connection.
    enum Decision: Sendable {
        case serve
        /// Answered with `overloaded` and closed soon.
        case refuse
        /// Closed without an answer: even those that are being answered `overloaded` are too many.
        case close
    }

    private struct Count {
        var served: [ObjectIdentifier: any Channel] = [:]
        var servedByUID: [UInt32: Int] = [:]
        var overloaded = 0
        var isDraining = false
    }

    /// How many excess connections may hold a descriptor while they are answered `overloaded`.
    static let overloadedMargin = 32

    /// How many connections are served at a time.
    struct Maximum: Sendable, Equatable {
        var total: Int
        var perUID: Int
        /// Kept free of everybody but root and the daemon's own user, beyond `total`: however many uids fill the
        /// socket, an administrator still gets in.
        var reserved = 0
    }

    private let maximum: Maximum
    private let ownUID: UInt32
    private let count = Mutex(Count())

    init(_ maximum: Maximum, ownUID: UInt32 = geteuid()) {
        self.maximum = maximum
        self.ownUID = ownUID
    }

    /// Each `admit` is followed by one ``release(_:uid:decision:)`` with its decision when the channel is closed.
    func admit(_ channel: any Channel, uid: UInt32) -> Decision {
        count.withLock { count in
            if count.isDraining { return .close }
            let ofUID = count.servedByUID[uid, default: 0]
            let open = uid == 0 || uid == ownUID ? maximum.total + maximum.reserved : maximum.total
            if count.served.count < open, ofUID < maximum.perUID {
                count.served[ObjectIdentifier(channel)] = channel
                count.servedByUID[uid] = ofUID + 1
                return .serve
            }
            guard count.overloaded < Self.overloadedMargin else { return .close }
            count.overloaded += 1
            return .refuse
        }
    }

    func release(_ channel: any Channel, uid: UInt32, decision: Decision) {
        count.withLock { count in
            switch decision {
            case .serve:
                count.served[ObjectIdentifier(channel)] = nil
                let left = count.servedByUID[uid, default: 1] - 1
                count.servedByUID[uid] = left == 0 ? nil : left
            case .refuse: count.overloaded -= 1
            case .close: break
            }
        }
    }

    /// From now on no connection is served; returns those that still are.
    func drain() -> [any Channel] {
        count.withLock { count in
            count.isDraining = true
            return Array(count.served.values)
        }
    }

    /// The connections being served.
    var served: [any Channel] { count.withLock { Array($0.served.values) } }
}

/// The process's limit of open descriptors (RLIMIT_NOFILE).
enum DescriptorLimit {
    /// Descriptors that are not connections of the payments socket: listening sockets, event loops, workers, ledger,
    /// logs, administration, and the excess connections that are answered `overloaded`.
    static let reserve = 256
    /// No daemon needs more, and libraries that walk through all possible descriptors become slow.
    private static let ceiling: rlim_t = 65_536

    /// Raises the soft limit as far as the hard one allows, and returns it.
    static func raise() -> Int {
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
    static func connections(wanted: Int, limit: Int) -> Int {
        min(wanted, max(16, limit - reserve))
    }
}

extension ConnectionHandler {
    /// Of one connection.
    struct Limits: Sendable {
        var idle: TimeAmount
        /// For a request's head and body together, from its first byte.
        var request: TimeAmount = .seconds(10)
        /// Of a body that is thrown away after an early refusal, so that the connection can stay.
        var discardedBody = 64 * 1024
        /// What is read and thrown away of a peer that still sends after its last answer: closing with unread bytes would
        /// make the kernel discard that answer.
        var lingerBytes = 1024 * 1024
        var linger: TimeAmount = .seconds(2)
    }
}
