import Synchronization

/// Observations counted into fixed buckets.
final class Histogram: MetricFamily {
    let name: String
    private let help: String
    private let labels: [String]
    /// Upper bounds, ascending; +Inf is implied.
    private let bounds: [Double]
    private let series: Mutex<[LabelValues: Observations]>

    private struct Observations {
        /// One more than there are bounds: the last counts what exceeds them all. Not cumulative.
        var counts: [UInt64]
        var sum = 0.0
    }

    init(_ name: String, help: String, labels: [String] = [], bounds: [Double]) {
        self.name = name
        self.help = help
        self.labels = labels
        self.bounds = bounds
        let none = Observations(counts: [UInt64](repeating: 0, count: bounds.count + 1))
        series = Mutex(labels.isEmpty ? [[]: none] : [:])
    }

    /// - Parameter values: as many as the family has labels.
    func observe(_ value: Double, _ values: String...) {
        observe(value, values)
    }

    /// In seconds.
    func observe(_ duration: Duration, _ values: String...) {
        let (seconds, attoseconds) = duration.components
        observe(Double(seconds) + Double(attoseconds) * 1e-18, values)
    }

    private func observe(_ value: Double, _ values: [String]) {
        let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
        series.withLock { series in
            let key = bounded(values, among: series)
            series[
                key, default: Observations(counts: [UInt64](repeating: 0, count: bounds.count + 1))
            ].counts[bucket] &+= 1
            series[key]?.sum += value
        }
    }

    func expose(to text: inout MetricsText) {
        text.header(name: name, help: help, type: "histogram")
        let sorted = series.withLock({ $0 }).sorted { $0.key.lexicographicallyPrecedes($1.key) }
        for (values, observations) in sorted {
            var cumulative: UInt64 = 0
            for (bound, count) in zip(bounds, observations.counts) {
                cumulative &+= count
                text.sample(
                    name + "_bucket", labels: labels + ["le"], values: values + [MetricsText.number(bound)],
                    value: String(cumulative))
            }
            cumulative &+= observations.counts[bounds.count]
            text.sample(
                name + "_bucket", labels: labels + ["le"], values: values + ["+Inf"], value: String(cumulative))
            text.sample(name + "_sum", labels: labels, values: values, value: MetricsText.number(observations.sum))
            text.sample(name + "_count", labels: labels, values: values, value: String(cumulative))
        }
    }
}
