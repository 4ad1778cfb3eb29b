import Locks

/// One named metric with its label names, in the terms of Prometheus (text format 0.0.4).
package protocol MetricFamily: Sendable {
    /// Appends the family's HELP, TYPE and sample lines.
    func expose(to text: inout MetricsText)
}

/// Label values in the order of the family's label names. Families accept them as `[labelCount of String]`, so that a
/// wrong number of them does not compile.
@usableFromInline package typealias LabelValues = [String]

extension InlineArray where Element == String {
    // Inlined, like the calls that use it: an array is slow if the compiler does not know its size.
    @inlinable var list: LabelValues { indices.map { self[$0] } }
}

/// The largest number of series in one family. Labels come from closed sets and configuration, so a larger number is a
/// defect, which must not use unlimited memory. Later series are counted under `other`. For series of merchant keys,
/// the limit is `maximumSeriesOfKeys`.
package let maximumSeriesPerFamily = 2_000
package let maximumSeriesOfKeys = 100_000

/// The common part of all metric families: a name, and a value for each combination of label values.
private final class Series<Value: Sendable>: Sendable {
    let name: String
    let help: String
    let labels: [String]
    private let maximum: Int
    private let none: Value
    private let values: Mutex<[LabelValues: Value]>

    /// - Parameter none: the value of a series without data.
    init(_ name: String, help: String, labels: [String], maximum: Int = maximumSeriesPerFamily, none: Value) {
        self.name = name
        self.help = help
        self.labels = labels
        self.maximum = maximum
        self.none = none
        values = Mutex(labels.isEmpty ? [[]: none] : [:])
    }

    subscript(_ labelValues: LabelValues) -> Value? { values.withLock { $0[labelValues] } }

    /// Changes the series of these label values, or of `other` if the family is full.
    func update(_ labelValues: LabelValues, _ change: (inout Value) -> Void) {
        values.withLock { values in
            let isKnown = values.count < maximum || values[labelValues] != nil
            change(
                &values[
                    isKnown ? labelValues : LabelValues(repeating: "other", count: labelValues.count), default: none])
        }
    }

    func replaceAll(_ newValues: [LabelValues: Value]) {
        values.withLock { $0 = newValues }
    }

    /// Appends HELP, TYPE and the samples of each series, sorted by label values.
    func expose(
        as type: String, to text: inout MetricsText, _ samples: (inout MetricsText, LabelValues, Value) -> Void
    ) {
        text.header(name: name, help: help, type: type)
        for (labelValues, value) in values.withLock({ $0 }).sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            samples(&text, labelValues, value)
        }
    }
}

/// A value that only grows, with the suffix `_total`.
package final class Counter<let labelCount: Int>: MetricFamily {
    private let series: Series<UInt64>

    package init(
        _ name: String, help: String, labels: [labelCount of String], maximumSeries: Int = maximumSeriesPerFamily
    ) {
        series = Series(name, help: help, labels: labels.list, maximum: maximumSeries, none: 0)
    }

    @inlinable
    package func increment(_ values: [labelCount of String], by amount: UInt64 = 1) {
        increment(list: values.list, by: amount)
    }

    @usableFromInline
    func increment(list values: LabelValues, by amount: UInt64) {
        series.update(values) { $0 &+= amount }
    }

    package func value(_ values: [labelCount of String]) -> UInt64 { series[values.list] ?? 0 }

    package func expose(to text: inout MetricsText) {
        series.expose(as: "counter", to: &text) { text, values, count in
            text.sample(series.name, labels: series.labels, values: values, value: String(count))
        }
    }
}

/// A value that goes up and down.
package final class Gauge<let labelCount: Int>: MetricFamily {
    private let series: Series<Double>

    package init(_ name: String, help: String, labels: [labelCount of String]) {
        series = Series(name, help: help, labels: labels.list, none: 0)
    }

    package func set(_ values: [labelCount of String], to value: Double) {
        series.update(values.list) { $0 = value }
    }

    package func add(_ amount: Double, _ values: [labelCount of String]) {
        series.update(values.list) { $0 += amount }
    }

    /// Replaces all series at once, so that removed ones are no longer shown. If two have the same label values, the
    /// first is used.
    package func replaceAll(_ newSeries: [(labels: [labelCount of String], value: Double)]) {
        series.replaceAll(Dictionary(newSeries.map { ($0.labels.list, $0.value) }) { first, _ in first })
    }

    package func value(_ values: [labelCount of String]) -> Double? { series[values.list] }

    package func expose(to text: inout MetricsText) {
        series.expose(as: "gauge", to: &text) { text, values, number in
            text.sample(series.name, labels: series.labels, values: values, value: MetricsText.number(number))
        }
    }
}

/// A histogram: counts observed values in fixed buckets.
package final class Histogram<let labelCount: Int>: MetricFamily {
    /// Upper bounds, ascending; +Inf is implied.
    private let bounds: [Double]
    private let series: Series<Observations>

    private struct Observations {
        /// The counts, not cumulative, with one element more than there are bounds: the last element counts values
        /// above all bounds.
        var counts: [UInt64]
        var sum = 0.0
    }

    package init(_ name: String, help: String, labels: [labelCount of String], bounds: [Double]) {
        self.bounds = bounds
        let none = Observations(counts: [UInt64](repeating: 0, count: bounds.count + 1))
        series = Series(name, help: help, labels: labels.list, none: none)
    }

    @inlinable
    package func observe(_ value: Double, _ values: [labelCount of String]) {
        observe(value, list: values.list)
    }

    @usableFromInline
    func observe(_ value: Double, list values: LabelValues) {
        let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
        series.update(values) { observations in
            observations.counts[bucket] &+= 1
            observations.sum += value
        }
    }

    package func expose(to text: inout MetricsText) {
        let (name, labels) = (series.name, series.labels)
        series.expose(as: "histogram", to: &text) { text, values, observations in
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

// Families without labels have a single series, which exists from the start.

extension Counter where labelCount == 0 {
    package convenience init(_ name: String, help: String) { self.init(name, help: help, labels: []) }
    package func increment(by amount: UInt64 = 1) { increment([], by: amount) }
    package func value() -> UInt64 { value([]) }
}

extension Gauge where labelCount == 0 {
    package convenience init(_ name: String, help: String) { self.init(name, help: help, labels: []) }
    package func set(to value: Double) { set([], to: value) }
    package func add(_ amount: Double) { add(amount, []) }
    package func value() -> Double? { value([]) }

    /// Sets the value. Nil hides the metric while its value is unknown, because an old value would look current.
    package func show(_ value: Double?) {
        if let value { set(to: value) } else { replaceAll([]) }
    }
}

extension Histogram where labelCount == 0 {
    package convenience init(_ name: String, help: String, bounds: [Double]) {
        self.init(name, help: help, labels: [], bounds: bounds)
    }
    package func observe(_ value: Double) { observe(value, []) }
    /// Observes a duration in seconds.
    package func observe(_ duration: Duration) { observe(duration.inSeconds) }
}

/// Prometheus' text exposition format, version 0.0.4.
package struct MetricsText {
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    package private(set) var text = ""

    package init() {}

    package mutating func header(name: String, help: String, type: String) {
        text += "# HELP \(name) \(Self.escaped(help, quotes: false))\n# TYPE \(name) \(type)\n"
    }

    package mutating func sample(_ name: String, labels: [String], values: [String], value: String) {
        text += name
        if !labels.isEmpty {
            text += "{"
            text += zip(labels, values).map { "\($0)=\"\(Self.escaped($1, quotes: true))\"" }.joined(separator: ",")
            text += "}"
        }
        text += " \(value)\n"
    }

    /// The text of a number: whole numbers without a fraction, others in the shortest form, and infinities in the
    /// format's spelling.
    package static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
        return value == value.rounded() && abs(value) < 1e15 ? String(Int(value)) : value.description
    }

    /// Escapes backslashes and line feeds and, in label values, double quotes.
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

extension Duration {
    /// The duration in seconds, Prometheus' base unit of time.
    package var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
