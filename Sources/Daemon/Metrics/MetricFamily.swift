import Synchronization

/// One named metric with its label names, as Prometheus knows them (text format 0.0.4).
protocol MetricFamily: Sendable {
    var name: String { get }
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
    let name: String
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
    let name: String
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
