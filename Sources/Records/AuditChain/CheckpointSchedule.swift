/// When the next checkpoint is due: when 1,000 records are not sealed, or the oldest of them is 60 seconds old,
/// whichever is first. An idle chain makes none.
///
/// It reads no clock: every call is told the time, on a clock that does not go back.
public struct CheckpointSchedule<Instant: InstantProtocol>: Sendable where Instant.Duration == Duration {
    /// 1,000 records.
    public static var maximumRecords: Int { 1000 }
    /// 60 seconds.
    public static var maximumAge: Duration { .seconds(60) }

    private var recorded: Int
    private var sealed: Int
    private var oldest: Instant?

    /// - Parameters:
    ///   - recorded: the chain's last sequence, 0 before the first record.
    ///   - sealed: the sequence of its last checkpoint, 0 when there is none.
    public init(recorded: Int = 0, sealed: Int = 0, at now: Instant) {
        self.recorded = recorded
        self.sealed = min(sealed, recorded)
        oldest = recorded > sealed ? now : nil
    }

    /// How many records no checkpoint seals.
    public var unsealed: Int { recorded - sealed }

    /// Records up to this sequence are durable.
    public mutating func recorded(upTo sequence: Int, at now: Instant) {
        guard sequence > recorded else { return }
        recorded = sequence
        if oldest == nil { oldest = now }
    }

    /// A checkpoint of this sequence is durable.
    ///
    /// - Parameter cut: when its sequence was taken from the chain. Records that came while it was signed are newer.
    public mutating func sealed(upTo sequence: Int, cut: Instant) {
        sealed = max(sealed, min(sequence, recorded))
        oldest = unsealed > 0 ? cut : nil
    }

    public func isDue(at now: Instant) -> Bool {
        guard let oldest else { return false }
        return unsealed >= Self.maximumRecords || oldest.duration(to: now) >= Self.maximumAge
    }

    /// When it becomes due without further records; nil when all is sealed.
    public var deadline: Instant? {
        oldest.map { $0.advanced(by: Self.maximumAge) }
    }
}
