import AuditChain

/// The random generator SplitMix64, which gives the same values for the same seed (Steele, Lea, Flood, "Fast splittable
/// pseudorandom number generators").
struct SplitMix {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }

    /// Returns a value that is at least 0 and less than 1.
    mutating func unit() -> Double { Double(next() >> 11) / 9_007_199_254_740_992 }

    /// Returns a value that is at least 0 and less than `bound`, which must be positive. The bias of the remainder is
    /// negligible for small bounds.
    mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

    mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: next() >> 32) } }

    mutating func digest() -> AuditDigest {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(AuditDigest.size)
        for _ in 0..<4 {
            let word = next()
            for shift in stride(from: 0, to: 64, by: 8) { bytes.append(UInt8(truncatingIfNeeded: word >> shift)) }
        }
        return AuditDigest(bytes: bytes) ?? .zero
    }

    /// Returns a random position in `weights`, with a probability in proportion to its weight. Returns the last
    /// position if no weight is positive.
    mutating func choice(_ weights: [Double]) -> Int {
        var left = unit() * weights.reduce(0, +)
        for (position, weight) in weights.enumerated() {
            left -= weight
            if left < 0 { return position }
        }
        return weights.count - 1
    }
}
