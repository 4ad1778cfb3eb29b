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
            Standard input has the requests as complete HTTP/1.1 messages, each preceded by its length in bytes (4 bytes, \
            big-endian). The program reads all of them before the clock starts. It sends each request once, in this order, \
            over persistent connections with at most one request under way, until no request remains or the time is over. \
            Then it waits for the answers to the sent requests.

            Standard output is one line of JSON: requests (the number sent, answered or not), seconds (from the first \
            request to the last answer), statuses (the number of answers by status), lost (requests whose connection broke \
            before the answer), latency (p50, p99, p999 and max in microseconds), processor (the program's processor time \
            in seconds).
            """)

    @Argument(help: "The path of the Unix socket.")
    var socket: String

    @Option(help: "The number of connections.")
    var connections = 1

    @Option(
        help: ArgumentHelp(
            "The number of requests a second, each sent when it is due, however late the answers are. Latency counts from "
                + "the due time, even if no connection was free. Default: each connection sends when it has its answer.",
            valueName: "N"))
    var rate: Double?

    @Option(help: ArgumentHelp("The seconds after which no request is due. Default: no limit.", valueName: "N"))
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
