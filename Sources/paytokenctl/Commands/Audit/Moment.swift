import ArgumentParser
import AuditChain
import Foundation

/// A moment on the command line: a time of RFC 3339, or how long it is ago, as `24h`.
struct Moment: ExpressibleByArgument, Equatable {
    let time: AuditTime

    init?(argument: String) {
        self.init(argument, now: Date())
    }

    init?(_ text: String, now: Date) {
        if let time = AuditTime(rfc3339: text) {
            self.time = time
        } else if let ago = ShortDuration(argument: text) {
            time = AuditTime(now.addingTimeInterval(-ago.seconds))
        } else {
            return nil
        }
    }
}

/// From when until when.
struct PeriodOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Records not older than this: 2026-01-31T12:00:00Z, or 24h for one day back.", valueName: "time"))
    var since: Moment?

    @Option(help: ArgumentHelp("Records older than this.", valueName: "time"))
    var until: Moment?

    func validate() throws {
        if let since, let until, until.time <= since.time {
            throw ValidationError(
                "--until \(until.time.text) is not after --since \(since.time.text), so there can be no record.")
        }
    }

    var query: [(name: String, value: String)] {
        [("since", since), ("until", until)].compactMap { name, moment in moment.map { (name, $0.time.text) } }
    }
}
