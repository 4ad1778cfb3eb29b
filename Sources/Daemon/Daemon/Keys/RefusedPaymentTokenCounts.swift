import Foundation
import Locks
import PaymentToken

/// Counts refused payment tokens of the last hour for each known key. Only payment tokens with a valid signature from
/// Apple count. Replays do not count. The counts are only in this process's memory.
///
/// The counts prove nothing: Apple's signature does not cover the publicKeyHash, so anyone with one payment token can send
/// it with the hash of any key. For the payments that a key decrypted, see the claims in the ledger.
final class RefusedPaymentTokenCounts: Sendable {
    /// The number of refused payment tokens in each minute. The dictionary's key is the minute, counted from 1970.
    private typealias Minutes = [Int: Int]

    private let minutes = Mutex<[PublicKeyHash: Minutes]>([:])

    /// Counts a refused payment token.
    ///
    /// - Parameter hash: the hash of a known key. If unknown hashes were counted, untrusted callers could fill the memory.
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
