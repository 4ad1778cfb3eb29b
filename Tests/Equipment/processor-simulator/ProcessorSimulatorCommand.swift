// Test equipment, packaged apart from the service: the command line of the simulated payment processor. The target
// ProcessorSimulator implements the simulator.

import ArgumentParser
import Foundation
import HTTPListener
import ProcessorSimulator
import ProductVersion
import UnixSignals

@main
struct ProcessorSimulatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "processor-simulator",
        abstract: "Test equipment: simulates a payment processor, and logs the submissions that it receives.",
        discussion: """
            For tests and demonstrations only: it moves no money. It serves HTTP/1.1 on this machine:

              POST /authorizations             submits a payment
              GET  /authorizations/{payment}   returns its status; 404 for a payment that was never submitted
              GET  /healthz

            The last two digits of the amount in minor units choose the result of a submission:

            \(amounts)

            Each submission, and each answer that begins, is a line of the log, and is on disk before the first byte of the \
            answer is sent. A repeated submission is answered and logged like the first, so only the log shows the \
            repetition. The simulator stores no account numbers and no cryptograms, neither in the log nor elsewhere.

            EXAMPLES
              processor-simulator --listen unix:processor.sock --log submissions.jsonl
              processor-simulator --listen 127.0.0.1:9000 --log submissions.jsonl --late 20
              processor-simulator summary --log submissions.jsonl

            EXIT STATUS
              0   stopped by SIGTERM or SIGINT, after the requests under way
              1   summary: a payment was submitted twice
              64  wrong usage
              65  the log is damaged
              73  the log or the socket cannot be opened
              75  another simulator writes the log, or another program serves the socket
            """,
        version: "processor-simulator \(ProductVersion.current)", subcommands: [Serve.self, Summary.self],
        defaultSubcommand: Serve.self)

    static var amounts: String {
        let width = Scenario.allCases.map(\.digits.count).max() ?? 0
        return Scenario.allCases.map { scenario in
            "  " + scenario.digits + String(repeating: " ", count: width - scenario.digits.count + 2) + scenario.summary
        }.joined(separator: "\n")
    }

    /// Prints a sentence on standard error.
    static func say(_ text: String) {
        FileHandle.standardError.write(Data("processor-simulator: \(text)\n".utf8))
    }

    static func status(for failure: LogFile.Failure) -> ExitCode {
        say(failure.description)
        return switch failure {
        case .damaged: ExitCode(65)
        case .system, .notRegular: ExitCode(73)
        case .inUse: ExitCode(75)
        }
    }
}

/// The default subcommand, which runs the simulator.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Serve; the default without a subcommand.", shouldDisplay: false)

    @Option(
        help: ArgumentHelp(
            "Where to listen: unix:PATH, or a loopback address such as 127.0.0.1:9000 or [::1]:9000; port 0 is any.",
            valueName: "ADDRESS"))
    var listen: String

    @Option(help: ArgumentHelp("The log; made when it is missing, read back when it is there.", valueName: "FILE"))
    var log: String

    @Option(help: ArgumentHelp("After how long a late answer comes.", valueName: "SECONDS"))
    var late = 3.0

    func validate() throws {
        if SimulatorAddress(listen) == nil {
            throw ValidationError(
                "--listen: unix:PATH, or 127.0.0.1:PORT or [::1]:PORT; it listens on this machine only")
        }
        if !(0...3600).contains(late) { throw ValidationError("--late: 0 to 3600 seconds") }
    }

    func run() async throws {
        // Signals are trapped first, so that a signal during startup also causes an orderly shutdown.
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        guard let address = SimulatorAddress(listen) else { throw ExitCode(64) }
        let submissions: SubmissionLog
        do throws(LogFile.Failure) {
            submissions = try SubmissionLog(path: log, warn: ProcessorSimulatorCommand.say)
        } catch {
            throw ProcessorSimulatorCommand.status(for: error)
        }
        let server: SimulatorServer
        do throws(ListenerError) {
            server = try await SimulatorServer.start(at: address, log: submissions, late: .seconds(late))
        } catch {
            ProcessorSimulatorCommand.say(error.description)
            throw if case .alreadyServed = error { ExitCode(75) } else { ExitCode(73) }
        }
        ProcessorSimulatorCommand.say("listening on \(server.address)")
        for await _ in signals { break }
        await server.shutdown()
    }
}

struct Summary: ParsableCommand {
    enum Output: String, ExpressibleByArgument, CaseIterable {
        case table, json
    }

    static let configuration = CommandConfiguration(
        commandName: "summary", abstract: "Count what a log says; exit 1 when a payment was submitted twice.",
        discussion: "The log may be one that a simulator is writing.")

    @Option(help: ArgumentHelp("The log.", valueName: "FILE"))
    var log: String

    @Option(help: "table or json.")
    var output = Output.table

    func run() throws {
        let summary: LogSummary
        do throws(LogFile.Failure) {
            summary = try LogSummary(path: log)
        } catch {
            throw ProcessorSimulatorCommand.status(for: error)
        }
        if summary.tornBytes > 0 {
            ProcessorSimulatorCommand.say("\(log): the last line is not whole, and not counted")
        }
        switch output {
        case .json: print(summary.json)
        case .table: print(summary.table)
        }
        if summary.submittedTwice > 0 { throw ExitCode(1) }
    }
}
