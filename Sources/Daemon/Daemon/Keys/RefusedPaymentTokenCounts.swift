import Foundation
import PaymentToken
import Synchronization

/// Counts the payment tokens of the last hour that named a known key, carried Apple's signature and were refused,
/// except replays. The counts are in this process's memory only.
///
/// They prove nothing: Apple does not sign the publicKeyHash, so anyone with one payment token can send it with the
/// hash of any key. The payments that a key decrypted are in the ledger, as its claims.
final class RefusedPaymentTokenCounts: Sendable {
    /// The counts by minute, in whole minutes since 1970.
    private typealias Minutes = [Int: Int]

    private let minutes = Mutex<[PublicKeyHash: Minutes]>([:])

    /// Counts a refused payment token.
    ///
    /// - Parameter hash: the hash of a known key. With unknown hashes, untrusted callers could fill the memory.
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
