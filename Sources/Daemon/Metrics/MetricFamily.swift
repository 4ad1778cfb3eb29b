import Synchronization

/// One named metric with its label names, as Prometheus knows them (text format 0.0.4).
protocol MetricFamily: Sendable {
    /// Appends the family's HELP, TYPE and sample lines.
    func expose(to text: inout MetricsText)
}

/// Label values in the order of the family's label names.
typealias LabelValues = [String]

/// How many series one family may have: labels come from closed sets and configuration, so more is a defect, and a
/// defect must not grow without bound. What comes later is counted under `other`. Merchants' keys are their own bound.
let maximumSeriesPerFamily = 2_000
let maximumSeriesOfKeys = 100_000

/// A value that only grows: `_total`.
final class Counter: MetricFamily {
    private let name: String
    private let help: String
    private let labels: [String]
    private let mostSeries: Int
    private let series: Mutex<[LabelValues: UInt64]>

    init(_ name: String, help: String, labels: [String] = [], mostSeries: Int = maximumSeriesPerFamily) {
        self.name = name
        self.help = help
        self.labels = labels
        self.mostSeries = mostSeries
        series = Mutex(labels.isEmpty ? [[]: 0] : [:])
    }

    /// - Parameter values: as many as the family has labels.
    func increment(_ values: String..., by amount: UInt64 = 1) {
        series.withLock { $0[bounded(values, among: $0, mostSeries), default: 0] &+= amount }
    }

    func value(_ values: String...) -> UInt64 {
        series.withLock { $0[values] ?? 0 }
    }

    func expose(to text: inout MetricsText) {
        text.header(name: name, help: help, type: "counter")
        for (values, count) in series.withLock({ $0 }).sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            text.sample(name, labels: labels, values: values, value: String(count))
        }
    }
}

/// A value that goes up and down.
final class Gauge: MetricFamily {
    private let name: String
    private let help: String
    private let labels: [String]
    private let series: Mutex<[LabelValues: Double]>

    init(_ name: String, help: String, labels: [String] = []) {
        self.name = name
        self.help = help
        self.labels = labels
        series = Mutex(labels.isEmpty ? [[]: 0] : [:])
    }

    func set(_ values: String..., to value: Double) {
        series.withLock { $0[bounded(values, among: $0)] = value }
    }

    func add(_ amount: Double, _ values: String...) {
        series.withLock { $0[bounded(values, among: $0), default: 0] += amount }
    }

    /// Replaces all series at once, so that what is gone is no longer shown.
    func replaceAll(_ newSeries: [LabelValues: Double]) {
        series.withLock { $0 = newSeries }
    }

    func value(_ values: String...) -> Double? {
        series.withLock { $0[values] }
    }

    func expose(to text: inout MetricsText) {
        text.header(name: name, help: help, type: "gauge")
        for (values, number) in series.withLock({ $0 }).sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            text.sample(name, labels: labels, values: values, value: MetricsText.number(number))
        }
    }
}

/// The series to count under: the asked one, or `other` once the family is full.
func bounded<Value>(
    _ values: LabelValues, among series: [LabelValues: Value], _ most: Int = maximumSeriesPerFamily
) -> LabelValues {
    series.count < most || series[values] != nil
        ? values : LabelValues(repeating: "other", count: values.count)
}

/// Observations counted into fixed buckets.
final class Histogram: MetricFamily {
    private let name: String
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

/// Prometheus' text exposition format, version 0.0.4.
struct MetricsText {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    private(set) var text = ""

    mutating func header(name: String, help: String, type: String) {
        text += "# HELP \(name) \(Self.escaped(help, quotes: false))\n# TYPE \(name) \(type)\n"
    }

    mutating func sample(_ name: String, labels: [String], values: [String], value: String) {
        text += name
        if !labels.isEmpty {
            text += "{"
            text += zip(labels, values).map { "\($0)=\"\(Self.escaped($1, quotes: true))\"" }.joined(separator: ",")
            text += "}"
        }
        text += " \(value)\n"
    }

    /// Whole numbers without a fraction, others in the shortest form; infinities as the format spells them.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
        return value == value.rounded() && abs(value) < 1e15 ? String(Int(value)) : value.description
    }

    /// Backslash and line feed are escaped everywhere, the double quote in label values.
    private static func escaped(_ text: String, quotes: Bool) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
