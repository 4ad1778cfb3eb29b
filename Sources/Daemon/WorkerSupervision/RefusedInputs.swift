import Crypto
import Synchronization
import Telemetry

/// Inputs that were in flight at two workers' deaths: refused for a while by every token, so that one of them cannot
/// keep the tokens from everybody else. Bounded: the oldest gives way.
package final class RefusedInputs: Sendable {
    package static let period = Duration.seconds(600)
    static let capacity = 64

    private let entries = Mutex<[(digest: SHA256Digest, until: ContinuousClock.Instant)]>([])

    package init() {}

    var isEmpty: Bool { entries.withLock { $0.isEmpty } }

    /// - Parameter frame: An encoded request. Its head is left out: the same input under another identifier is the
    ///   same input.
    func insert(_ frame: [UInt8], now: ContinuousClock.Instant) {
        let digest = Self.digest(frame)
        entries.withLock { entries in
            if entries.count == Self.capacity { entries.removeFirst() }
            entries.append((digest, now + Self.period))
        }
    }

    /// For how many seconds more an input is refused, at least 1; nil when it is not.
    func secondsLeft(of frame: [UInt8], now: ContinuousClock.Instant) -> Int? {
        let isEmpty = entries.withLock { entries in
            entries.removeAll { $0.until <= now }
            return entries.isEmpty
        }
        guard !isEmpty else { return nil }
        let digest = Self.digest(frame)
        let end = entries.withLock { entries in entries.last { $0.digest == digest }?.until }
        return end.map { max(Int(($0 - now).inSeconds.rounded(.up)), 1) }
    }

    private static func digest(_ frame: [UInt8]) -> SHA256Digest {
        // Length prefix, type and identifier are 13 octets.
        SHA256.hash(data: frame.dropFirst(13))
    }
}
