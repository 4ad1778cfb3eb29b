public import AuditChain
import Foundation

/// The period of a report, from `since` (inclusive) to `until` (exclusive).
public struct ReportPeriod: Sendable, Equatable {
    public let since: AuditTime
    public let until: AuditTime

    /// Returns nil if the period would be empty.
    public init?(since: AuditTime, until: AuditTime) {
        guard since < until else { return nil }
        self.since = since
        self.until = until
    }

    public func contains(_ time: AuditTime) -> Bool { time >= since && time < until }

    /// The steps of the charts: days, weeks, months or years, whichever is the shortest unit with at most 62 steps.
    var steps: [ReportStep] {
        for unit in [Calendar.Component.day, .weekOfYear, .month, .year] {
            var steps: [ReportStep] = []
            var start = Self.beginning(of: unit, at: since.date)
            while start < until.date, steps.count <= Self.maximumSteps {
                guard let end = Self.calendar.date(byAdding: unit, value: 1, to: start) else { break }
                steps.append(ReportStep(start: AuditTime(start), end: AuditTime(end)))
                start = end
            }
            if steps.count <= Self.maximumSteps || unit == .year { return Array(steps.prefix(Self.maximumSteps)) }
        }
        return []
    }

    private static let maximumSteps = 62

    /// Weeks begin on Monday, as in ISO 8601; days, months and years are in UTC.
    private static let calendar: Calendar = {
        var calendar = Calendar(identifier: .iso8601)
        calendar.timeZone = .gmt
        return calendar
    }()

    private static func beginning(of unit: Calendar.Component, at date: Date) -> Date {
        calendar.dateInterval(of: unit, for: date)?.start ?? date
    }
}

/// One bar of a chart.
struct ReportStep: Sendable, Equatable {
    let start: AuditTime
    let end: AuditTime

    /// The first day of the step, such as `2026-01-31`.
    var text: String { String(start.text.prefix(10)) }

    /// Returns the date of the day with this number; day 0 is 1970-01-01.
    static func text(ofDay day: Int) -> String {
        String(AuditTime(milliseconds: Int64(day) * 86_400_000).text.prefix(10))
    }
}
