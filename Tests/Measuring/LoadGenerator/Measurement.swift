import Histogram

/// The result of a load.
struct Measurement: Encodable {
    /// Latencies in microseconds, with a precision of three digits.
    struct Latency: Encodable {
        var p50 = 0.0
        var p99 = 0.0
        var p999 = 0.0
        var max = 0.0
    }

    private(set) var requests = 0
    /// The time from the first request to the last answer, in seconds.
    private(set) var seconds = 0.0
    /// The number of answers, by status.
    private(set) var statuses: [String: Int] = [:]
    /// The number of requests without an answer.
    private(set) var lost = 0
    private(set) var latency = Latency()
    /// The processor time of the load generator, in seconds.
    private(set) var processor = 0.0

    private enum CodingKeys: CodingKey {
        case requests, seconds, statuses, lost, latency, processor
    }

    private(set) var lostConnections = 0
    /// The latencies in nanoseconds, from 100 ns to an hour.
    private var histogram = Histogram<UInt64>(
        lowestDiscernibleValue: 100, highestTrackableValue: 3_600_000_000_000, numberOfSignificantValueDigits: .three)
    private var counts = [Int](repeating: 0, count: 1000)

    /// Counts an answer.
    ///
    /// - Parameter nanoseconds: the time since the request was due, in nanoseconds.
    mutating func count(status: Int, nanoseconds: UInt64) {
        counts[status] += 1
        histogram.record(nanoseconds)
    }

    mutating func loseConnection(wasBusy: Bool) {
        lostConnections += 1
        if wasBusy { lost += 1 }
    }

    /// Fills in the totals at the end.
    mutating func finish(requests: Int, seconds: Double, processor: Double) {
        (self.requests, self.seconds, self.processor) = (requests, seconds, processor)
        for (status, count) in counts.enumerated() where count > 0 { statuses[String(status)] = count }
        func microseconds(_ percentile: Double) -> Double { Double(histogram.valueAtPercentile(percentile)) / 1000 }
        latency = Latency(
            p50: microseconds(50), p99: microseconds(99), p999: microseconds(99.9),
            max: Double(histogram.maxRecorded) / 1000)
    }
}
