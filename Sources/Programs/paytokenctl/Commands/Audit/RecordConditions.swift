import ArgumentParser
import AuditChain
import Encodings
import Foundation

/// The conditions for records, apart from their time. All given conditions must be met.
struct RecordConditions: ParsableArguments {
    @Option(
        help: ArgumentHelp("A key's publicKeyHash in base64, or 8 to 64 characters of hex.", valueName: "key"),
        completion: .key, transform: KeyReference.parse)
    var key: KeyReference?

    @Option(help: ArgumentHelp("The merchant identifier.", valueName: "id"), completion: .merchant)
    var merchant: String?

    @Option(help: ArgumentHelp("The name of the caller's access rule, or the caller's uid.", valueName: "name"))
    var caller: String?

    @Option(help: ArgumentHelp("ok, repeat, or a refusal's code.", valueName: "code"))
    var outcome: String?

    @Option(help: ArgumentHelp("A transactionId, 64 hexadecimal digits.", valueName: "hex"))
    var transaction: String?

    func validate() throws {
        if let outcome, AuditOutcome(outcome) == nil {
            throw ValidationError("--outcome is ok, repeat or a refusal's code such as transaction_replayed.")
        }
        if let transaction, AuditDigest(hex: transaction.lowercased()) == nil {
            throw ValidationError("--transaction is a transactionId of 64 hexadecimal digits.")
        }
    }

    /// The conditions as a query. A key is sent in hexadecimal, whatever the form in which it was given.
    var query: [(name: String, value: String)] {
        [
            ("key", key?.hex), ("merchant", merchant), ("caller", caller), ("outcome", outcome),
            ("transaction", transaction?.lowercased()),
        ].compactMap { name, value in value.map { (name, $0) } }
    }
}

/// A time on the command line: a time of RFC 3339, a day in UTC, or an age such as `24h`.
struct Moment: ExpressibleByArgument, Equatable {
    /// The time, or the beginning of a day.
    let time: AuditTime
    /// The same as ``time``, except for a day, for which it is the beginning of the next day.
    let end: AuditTime

    init?(argument: String) {
        self.init(argument, now: Date())
    }

    init?(_ text: String, now: Date) {
        if let time = AuditTime(rfc3339: text) {
            (self.time, end) = (time, time)
        } else if let day = AuditTime(rfc3339: text + "T00:00:00Z") {
            (time, end) = (day, AuditTime(milliseconds: day.milliseconds + 86_400_000))
        } else if let ago = ShortDuration(argument: text) {
            time = AuditTime(now.addingTimeInterval(-ago.seconds))
            end = time
        } else {
            return nil
        }
    }
}

/// The options that select records by their time, `--since` and `--until`.
struct PeriodOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Records not older than this: 2026-01-31T12:00:00Z, 2026-01-31 for that day's beginning in UTC, or 24h for "
                + "one day back.", valueName: "time"))
    var since: Moment?

    @Option(
        help: ArgumentHelp("Records older than this; a day such as 2026-01-31 counts to its end.", valueName: "time"))
    var until: Moment?

    func validate() throws {
        if let since, let until, until.end <= since.time {
            throw ValidationError(
                "--until \(until.end.text) is not after --since \(since.time.text), so there can be no record.")
        }
    }

    var query: [(name: String, value: String)] {
        [("since", since?.time), ("until", until?.end)].compactMap { name, time in time.map { (name, $0.text) } }
    }
}
