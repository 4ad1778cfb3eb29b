import Glibc
import NIOCore
import Synchronization

/// Counts the connections of one listening socket, and says which of them are served.
final class ConnectionCensus: Sendable {
    /// What becomes of a new connection.
    enum Verdict: Sendable {
        case serve
        /// Answered with `overloaded` and closed soon.
        case sayOverloaded
        /// Closed without a word: there are too many even of those that are told.
        case close
    }

    private struct Count {
        var served: [ObjectIdentifier: any Channel] = [:]
        var servedByUID: [UInt32: Int] = [:]
        var overloaded = 0
        var isDraining = false
    }

    /// How many excess connections may hold a descriptor while they are told so.
    static let overloadedMargin = 32

    /// How many connections are served at a time.
    struct Places: Sendable, Equatable {
        var all: Int
        var eachUID: Int
        /// Kept free of everybody but root and the daemon's own user, beyond `all`: however many uids take what there
        /// is, whoever has to set things right gets in.
        var reserved = 0
    }

    private let places: Places
    private let ownUID: UInt32
    private let count = Mutex(Count())

    init(_ places: Places, ownUID: UInt32 = geteuid()) {
        self.places = places
        self.ownUID = ownUID
    }

    /// Each `arrive` is followed by one ``depart(_:uid:verdict:)`` with its verdict when the channel is closed.
    func arrive(_ channel: any Channel, uid: UInt32) -> Verdict {
        count.withLock { count in
            if count.isDraining { return .close }
            let ofUID = count.servedByUID[uid, default: 0]
            let open = uid == 0 || uid == ownUID ? places.all + places.reserved : places.all
            if count.served.count < open, ofUID < places.eachUID {
                count.served[ObjectIdentifier(channel)] = channel
                count.servedByUID[uid] = ofUID + 1
                return .serve
            }
            guard count.overloaded < Self.overloadedMargin else { return .close }
            count.overloaded += 1
            return .sayOverloaded
        }
    }

    func depart(_ channel: any Channel, uid: UInt32, verdict: Verdict) {
        count.withLock { count in
            switch verdict {
            case .serve:
                count.served[ObjectIdentifier(channel)] = nil
                let left = count.servedByUID[uid, default: 1] - 1
                count.servedByUID[uid] = left == 0 ? nil : left
            case .sayOverloaded: count.overloaded -= 1
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
