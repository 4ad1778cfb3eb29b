import Encodings
import Foundation
import Payments
import StrictJSON

/// One line of the log: a JSON object, and a line feed after it.
///
///     {"time":"2026-01-31T12:00:00.000Z","event":"submitted","payment":"…","amount":"10.99","currency":"USD",
///      "outcome":"authorized","number":1}
///     {"time":"2026-01-31T12:00:00.000Z","event":"answered","payment":"…","number":1}
///     {"time":"2026-01-31T12:00:00.000Z","event":"settled","payment":"…","number":1}
///
/// `number` counts a payment's submissions from 1. In `answered` and `settled` it identifies the submission. ``Event``
/// defines all content of a line, so a line cannot contain card data.
struct LogLine: Sendable, Equatable {
    enum Event: Sendable, Equatable {
        /// The simulator received a submission.
        case submitted(Submission)
        /// The simulator begins an answer to a submission.
        case answered(payment: String)
        /// A pending payment was queried for the second time, and is authorized from then on.
        case settled(payment: String)
    }

    let event: Event
    let number: Int

    /// The maximum length in bytes of a line that the simulator writes.
    static let maximumBytes = 1024

    var payment: String {
        switch event {
        case .submitted(let submission): submission.payment
        case .answered(let payment), .settled(let payment): payment
        }
    }

    /// The line's bytes, including the line feed.
    func bytes(at time: Date) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("time", RFC3339.string(millisecondsSince1970: Int(time.timeIntervalSince1970 * 1000)))
        writer.member("event", eventName)
        writer.member("payment", payment)
        if case .submitted(let submission) = event {
            writer.member("amount", submission.amount.decimal)
            writer.member("currency", submission.amount.currency.letters)
            writer.member("outcome", submission.scenario.rawValue)
        }
        writer.member("number", number)
        writer.endObject()
        return writer.bytes + [UInt8(ascii: "\n")]
    }

    private var eventName: String {
        switch event {
        case .submitted: "submitted"
        case .answered: "answered"
        case .settled: "settled"
        }
    }

    /// Reads a line without its line feed. Returns nil if the simulator cannot have written it.
    init?(_ bytes: [UInt8]) {
        guard let object = try? JSONValue(parsing: bytes).objectValue, let payment = object["payment"]?.stringValue,
            Submission.isPayment(payment), let number = object["number"]?.numberValue?.int, number > 0,
            RFC3339.moment(object["time"]?.stringValue ?? "") != nil
        else { return nil }
        self.number = number
        switch object["event"]?.stringValue {
        case "submitted":
            guard let currency = Currency(letters: object["currency"]?.stringValue ?? ""),
                let amount = Amount(decimal: object["amount"]?.stringValue ?? "", currency: currency),
                object["outcome"]?.stringValue == Scenario(minorUnits: amount.minorUnits).rawValue
            else { return nil }
            event = .submitted(Submission(payment: payment, amount: amount))
        case "answered": event = .answered(payment: payment)
        case "settled": event = .settled(payment: payment)
        default: return nil
        }
    }

    init(_ event: Event, number: Int) {
        (self.event, self.number) = (event, number)
    }
}
