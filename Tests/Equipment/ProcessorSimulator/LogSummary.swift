import StrictJSON

/// A summary of a log. It shows tests and operators whether a payment was submitted more than once.
package struct LogSummary: Sendable {
    private let records: PaymentRecords
    /// The size in bytes of an incomplete last line. The simulator was writing it when the log was read, or when the
    /// simulator stopped.
    package let tornBytes: Int

    /// Reads a log, even while it is being written.
    package init(path: String) throws(LogFile.Failure) {
        let (records, _, tornBytes) = try LogFile(path: path, writable: false).read()
        (self.records, self.tornBytes) = (records, tornBytes)
    }

    /// The number of payments that were submitted more than once.
    package var submittedTwice: Int { records.submittedAgain.count }

    /// The maximum number of repeated payments that ``table`` lists.
    private static let named = 20

    private var outcomes: [(name: String, count: Int)] {
        Scenario.allCases.compactMap { scenario in
            records.submissionsByScenario[scenario].map { (scenario.rawValue, $0) }
        }
    }

    /// The summary as text, with one line for each figure and each outcome.
    package var table: String {
        var rows = [
            ("payments", records.payments), ("submissions", records.submissions), ("answers begun", records.answers),
            ("submitted twice", submittedTwice),
        ]
        rows += outcomes.map { ("  \($0.name)", $0.count) }
        let width = rows.map(\.0.count).max() ?? 0
        var lines = rows.map { name, count in
            "\(name)\(String(repeating: " ", count: width - name.count + 2))\(count)"
        }
        for record in records.submittedAgain.prefix(Self.named) {
            lines.append("submitted \(record.number) times: \(record.payment)")
        }
        return lines.joined(separator: "\n")
    }

    /// The summary as JSON:
    /// `{"payments":…,"submissions":…,"answers":…,"submittedTwice":…,"outcomes":{…},"again":[{"payment":…,"submissions":…}]}`
    package var json: String {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("payments", records.payments)
        writer.member("submissions", records.submissions)
        writer.member("answers", records.answers)
        writer.member("submittedTwice", submittedTwice)
        writer.member("outcomes")
        writer.beginObject()
        for (name, count) in outcomes { writer.member(name, count) }
        writer.endObject()
        writer.member("again")
        writer.beginArray()
        for record in records.submittedAgain.prefix(Self.named) {
            writer.beginObject()
            writer.member("payment", record.payment)
            writer.member("submissions", record.number)
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
