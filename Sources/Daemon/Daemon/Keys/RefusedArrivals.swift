import Foundation
import PaymentToken
import Synchronization

/// How many payment tokens of the last hour named a known key, carried Apple's signature and were refused, replays left
/// out. In this process's memory only.
///
/// They prove nothing: Apple does not sign the publicKeyHash, so whoever has one payment token can send it with the hash
/// of any key. What was opened under a key is in the ledger, as its claims.
final class RefusedArrivals: Sendable {
    /// One minute's number, in whole minutes since 1970, and how many there were.
    private typealias Minutes = [Int: Int]

    private let minutes = Mutex<[PublicKeyHash: Minutes]>([:])

    /// Counts a payment token that was refused.
    ///
    /// - Parameter hash: of a key that is known here, so that untrusted callers cannot make this grow.
    func count(_ hash: PublicKeyHash, at time: Date) {
        let minute = Self.minute(time)
        minutes.withLock { minutes in
            minutes[hash, default: [:]][minute, default: 0] += 1
            if minutes[hash, default: [:]].count > 60 {
                minutes[hash] = minutes[hash]?.filter { $0.key > minute - 60 }
            }
        }
    }

    func lastHour(_ hash: PublicKeyHash, now: Date) -> Int {
        let minute = Self.minute(now)
        return minutes.withLock { minutes in
            (minutes[hash] ?? [:]).reduce(0) { $1.key > minute - 60 ? $0 + $1.value : $0 }
        }
    }

    private static func minute(_ time: Date) -> Int { Int((time.timeIntervalSince1970 / 60).rounded(.down)) }
}
