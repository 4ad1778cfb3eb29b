import ArgumentParser
import FoundationEssentials
import Glibc
import HSMWorker
import WorkerProtocol

struct TryToken: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token-try",
        abstract: "Tries an HSM token with throwaway keys, and reports each step in a line of JSON.",
        discussion: """
            The exit status is 75 if a call did not return in time. The caller then runs the command again, and skips \
            the steps of which it has results.
            """)

    @OptionGroup var hsmToken: HSMTokenOptions

    @Option(help: "A step to leave out.")
    var skip: [String] = []

    @Option(help: ArgumentHelp("The directory of Wycheproof's files of cases.", valueName: "path"))
    var vectors: String?

    @Option(help: ArgumentHelp("The time after which a call counts as hanging.", valueName: "seconds"))
    var timeout = 60

    private static let sessions: UInt16 = 4

    func run() throws {
        for problem in ProcessHardening.apply(name: "paytokend-hsm") { report(problem) }
        let opening = hsmToken.opening(sessions: Self.sessions, allowExtractableSecret: true)
        let trial = TokenTrial(
            opening, skipping: Set(skip), vectors: vectors, timeout: .seconds(timeout), report: { Self.write($0) },
            remark: { report($0) })
        trial.stopAtSignals()
        do throws(WorkerFailure) {
            try trial.run()
        } catch {
            report(error.message)
            _exit(error.kind == .hsmTokenUnavailable ? 69 : 1)
        }
        // No exit handlers, since some libraries crash in their destructors.
        _exit(0)
    }

    private static func write(_ line: TokenTrial.Line) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(line) else { return }
        // The trial goes on without a reader, so that it removes its objects.
        BlockingDescriptor.write(json + [UInt8(ascii: "\n")], to: STDOUT_FILENO)
    }
}
