/// The schedule of checkpoints: the next one is due when 1,000 records are unsealed, or when the oldest unsealed
/// record is 60 seconds old. An idle chain needs no checkpoint.
///
/// It reads no clock: each call passes the time, from a monotonic clock.
public struct CheckpointSchedule<Instant: InstantProtocol>: Sendable where Instant.Duration == Duration {
    public static var maximumRecords: Int { 1000 }
    public static var maximumAge: Duration { .seconds(60) }

    private var recorded: Int
    private var sealed: Int
    private var oldest: Instant?

    /// - Parameters:
    ///   - recorded: the chain's last sequence, 0 before the first record.
    ///   - sealed: the sequence of the chain's last checkpoint, 0 if it has no checkpoint.
    public init(recorded: Int = 0, sealed: Int = 0, at now: Instant) {
        self.recorded = recorded
        self.sealed = min(sealed, recorded)
        oldest = recorded > sealed ? now : nil
    }

    /// The number of records after the last durable checkpoint.
    public var unsealed: Int { recorded - sealed }

    /// Takes note that records up to this sequence are durable.
    public mutating func recorded(upTo sequence: Int, at now: Instant) {
        guard sequence > recorded else { return }
        recorded = sequence
        if oldest == nil { oldest = now }
    }

    /// Takes note that a checkpoint of this sequence is durable.
    ///
    /// - Parameter cut: the time at which the checkpoint's sequence was read from the chain's end. Records added since
    ///   then remain unsealed, and their age counts from this time.
    public mutating func sealed(upTo sequence: Int, cut: Instant) {
        sealed = max(sealed, min(sequence, recorded))
        oldest = unsealed > 0 ? cut : nil
    }

    public func isDue(at now: Instant) -> Bool {
        guard let oldest else { return false }
        return unsealed >= Self.maximumRecords || oldest.duration(to: now) >= Self.maximumAge
    }

    /// The time at which the next checkpoint becomes due without further records; nil if all records are sealed.
    public var deadline: Instant? {
        oldest.map { $0.advanced(by: Self.maximumAge) }
    }
}
