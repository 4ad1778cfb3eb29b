import ArgumentParser
import Foundation

/// The load generator of `scripts/bench`. It sends prepared requests over connections to a Unix socket, and reports the
/// latencies of the answers. It uses one thread and little processor time, so that the figures show the service's
/// performance.
///
/// `RequestList` contains the requests, and `Load` is the loop. `Poll` and `Connection` wrap epoll and sockets.
/// `AnswerReader` implements the necessary part of HTTP, and `Measurement` is the result.
@main
struct LoadGenerator: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load-generator",
        abstract: "Sends HTTP requests to a Unix socket and measures how long their answers take.",
        discussion: """
            Standard input is the requests, whole HTTP/1.1 messages, each behind its length in bytes (4 bytes, the most \
            significant first). All of it is read before the clock starts. They are sent in this order, each once, over \
            connections that are kept, each with at most one request under way, until they run out or the time is over; \
            what has been sent is waited for.

            Standard output is one line of JSON: requests (those that were sent, answered or not), seconds (from the first \
            request to the last answer), statuses (how many answers by status), lost (requests without an answer, since \
            the connection broke), latency (p50, p99, p999 and max in microseconds), processor (its own seconds).
            """)

    @Argument(help: "The socket's path.")
    var socket: String

    @Option(help: "Connections.")
    var connections = 1

    @Option(
        help: ArgumentHelp(
            "So many requests a second, sent when they are due, however late the answers are; the time of an answer counts "
                + "from then, also where no connection was free. Default: each connection sends when it has its answer.",
            valueName: "N"))
    var rate: Double?

    @Option(help: ArgumentHelp("No request is due after so many seconds. Default: all of them.", valueName: "N"))
    var seconds: Double?

    func validate() throws {
        if connections < 1 { throw ValidationError("--connections: at least 1") }
        if let rate, rate <= 0 || !rate.isFinite { throw ValidationError("--rate: more than 0") }
        if let seconds, seconds <= 0 || !seconds.isFinite { throw ValidationError("--seconds: more than 0") }
    }

    func run() throws {
        let requests = try RequestList([UInt8](FileHandle.standardInput.readToEnd() ?? Data()))
        var load = try Load(
            socket: socket, connections: connections, requests: requests,
            pace: Pace(rate: rate, seconds: seconds))
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        print(String(decoding: try encoder.encode(load.run()), as: UTF8.self))
    }
}

/// The error that a measurement was not possible.
struct LoadFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// Describes a failed system call by its name and errno.
    init(call: String, error: Int32 = errno) { self.init("\(call): errno \(error)") }
}
