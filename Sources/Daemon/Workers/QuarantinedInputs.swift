import Crypto

/// Inputs that were in flight at two workers' deaths: refused for a while, so that one of them cannot keep a token
/// from everybody else. Bounded: the oldest gives way.
struct QuarantinedInputs {
    static let period = Duration.seconds(600)
    static let capacity = 64

    private var entries: [(digest: SHA256Digest, until: ContinuousClock.Instant)] = []

    var isEmpty: Bool { entries.isEmpty }

    /// - Parameter frame: An encoded request. Its head is left out: the same input under another identifier is the
    ///   same input.
    mutating func insert(_ frame: [UInt8], now: ContinuousClock.Instant) {
        if entries.count == Self.capacity { entries.removeFirst() }
        entries.append((Self.digest(frame), now + Self.period))
    }

    mutating func contains(_ frame: [UInt8], now: ContinuousClock.Instant) -> Bool {
        entries.removeAll { $0.until <= now }
        guard !entries.isEmpty else { return false }
        let digest = Self.digest(frame)
        return entries.contains { $0.digest == digest }
    }

    private static func digest(_ frame: [UInt8]) -> SHA256Digest {
        // Length prefix, type and identifier are 13 octets.
        SHA256.hash(data: frame.dropFirst(13))
    }
}
