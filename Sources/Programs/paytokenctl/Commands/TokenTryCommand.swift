import ArgumentParser
import CommandOutput
import Encodings
import Foundation
import Glibc
import Locks

struct TokenTryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "try",
        abstract: "Tries a PKCS#11 token with throwaway keys, and says what to configure.",
        discussion: """
            Runs the worker, paytokend-hsm, on your HSM token: the tiers' self-tests, imported and generated keys of \
            each kind, made-up payments, signatures of TLS 1.2 and 1.3, certificate requests, four sessions, an audit \
            key and a data object. The daemon is not needed. It takes a minute or two; with an HSM that generates RSA \
            keys slowly, longer. A library that does not answer is ended with its process, and the next step goes on.

            The HSM token may hold production keys: the trial neither lists nor uses them. Its own objects are \
            labelled "paytokend trial" and removed after each step, also after an interruption (SIGINT, SIGTERM). \
            After a kill -9 the next trial removes them, and names them first. Do not run two trials at the same time \
            on one HSM token. A daemon that uses the HSM token may list a trial's key as external meanwhile.

            The result is a row of the table in the article Tokens. What needs a daemon is not tried: killed workers, \
            a wrong PIN, a restart of the HSM, ledgers. With --report FILE, a report for the project is written: \
            versions, mechanisms and results, without labels, serial numbers, paths or host names. Read it first.

              paytokenctl token try --module /usr/lib/softhsm/libsofthsm2.so \\
                  --token paytokend --pin-file /etc/paytokend/pin --report trial.json

            Exit status: 0 if all steps ran, whatever their results; 1 if the PIN is refused, the HSM token does not \
            open, or objects remain in it.
            """)

    @Option(help: ArgumentHelp("The vendor's PKCS#11 library.", valueName: "path"), completion: .file())
    var module: String

    @Option(
        help: ArgumentHelp("The HSM token's label, or its URI as in the configuration.", valueName: "label"))
    var token: String

    @Option(help: ArgumentHelp("A file with the user PIN.", valueName: "file"), completion: .file())
    var pinFile: String

    @Option(help: ArgumentHelp("The library's own initialisation string (NSS).", valueName: "text"))
    var initArgs: String?

    @Option(help: ArgumentHelp("Writes the anonymous report to a new file.", valueName: "file"), completion: .file())
    var report: String?

    @Option(
        help: ArgumentHelp("The directory of Wycheproof's cases, to run these too.", valueName: "directory"),
        completion: .directory)
    var vectors: String?

    @Option(
        help: ArgumentHelp("The time after which a call of the library counts as hanging.", valueName: "seconds"))
    var timeout = 60

    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions

    func validate() throws {
        guard (1...3600).contains(timeout) else { throw ValidationError("--timeout is 1 to 3600 seconds.") }
    }

    private var uri: String { token.hasPrefix("pkcs11:") ? token : "pkcs11:token=" + PercentEncoding.encoded(token) }

    func run() async throws {
        let worker = try WorkerProgram.locate()
        if dryRun.isDryRun {
            try WorkerProgram.requireReadable(module: module, pinFile: pinFile)
            dryRun.report("\(worker) would try \(uri) with keys of its own")
            return
        }
        let file = try report.map { try NewFile($0, mode: 0o644) }
        let (results, status) = try await TokenTrialRun(worker: worker, arguments: arguments()).run()
        let anonymous = TokenTrialReport(results, without: try names(results))
        if let file {
            try file.write(try anonymous.encoded())
            try file.publish()
        }
        switch format.output {
        case .json: try Console.output(json: try JSONEncoder.sorted.encode(answer(results, anonymous)).array)
        case .table: try Console.output(text(results))
        }
        if status != 0 { throw ExitCode(status) }
    }

    private func arguments() -> [String] {
        // The worker accepts only absolute paths.
        var arguments = [
            "token-try", "--module", Self.absolute(module), "--uri", uri, "--pin-file", Self.absolute(pinFile),
            "--timeout", String(timeout),
        ]
        if let initArgs { arguments += ["--init-args", initArgs] }
        if let vectors { arguments += ["--vectors", vectors] }
        return arguments
    }

    private static func absolute(_ path: String) -> String { URL(filePath: path).path(percentEncoded: false) }

    /// Texts that identify this host, its accounts or the HSM token.
    private func names(_ results: TokenTrialResults) throws -> [String] {
        let label = token.hasPrefix("pkcs11:") ? try TokenURI(token).label : token
        return [
            token, uri, label, module, Self.absolute(module), pinFile, Self.absolute(pinFile), initArgs, vectors,
            ProcessInfo.processInfo.hostName, NSUserName(), NSHomeDirectory(),
        ].compactMap(\.self)
    }

    // MARK: Output

    private struct Answer: Encodable {
        let row: String
        let cells: [String: String]
        let configuration: String
        let advice: [String]
        let report: TokenTrialReport
    }

    private func answer(_ results: TokenTrialResults, _ report: TokenTrialReport) -> Answer {
        Answer(
            row: results.markdown.split(separator: "\n").last.map(String.init) ?? "", cells: report.row,
            configuration: configuration(results), advice: results.advice, report: report)
    }

    private func text(_ results: TokenTrialResults) -> String {
        var text = results.markdown + "\n"
        text += "Google Pay (ECv2): \(results.tests?.tierECv2.map { "tier \($0)" } ?? "not possible")\n\n"
        let vectors = results.results.filter { $0.step.hasPrefix("Wycheproof") }
        if !vectors.isEmpty {
            text += Table(pairs: vectors.map { ($0.step, ($0.details ?? []).joined(separator: "; ")) }).text + "\n"
        }
        let reasons =
            (results.tests?.shortcomings ?? []).map { ("tiers", $0) }
            + results.results.compactMap { result in result.reason.map { (result.step, $0) } }
        if !reasons.isEmpty { text += "Reasons:\n" + Table(pairs: reasons.map { ("  " + $0.0, $0.1) }).text + "\n" }
        text += "Not tried, since it needs a daemon: "
        text += results.row.filter { $0.cell == "not tried" }.map(\.column).joined(separator: ", ") + ".\n\n"
        if results.served { text += "In paytokend.yaml:\n\n" + configuration(results) + "\n" }
        text += results.advice.map { $0 + "\n" }.joined()
        text +=
            report.map { "The report for the project is in \($0).\n" }
            ?? "With --report FILE, an anonymous report for the project is written.\n"
        return text
    }

    /// The HSM token's lines in paytokend.yaml.
    private func configuration(_ results: TokenTrialResults) -> String {
        let usesTierC = [results.tests?.tierECv1, results.tests?.tierRSAv1].contains("C")
        let needsTierC = usesTierC || results.tests?.tierECv2 == "C"
        var lines = [
            "tokens:", "  - name: hsm", "    module: \(Self.quoted(Self.absolute(module)))",
            "    uri: \(Self.quoted(uri))", "    pin_file: \(Self.quoted(Self.absolute(pinFile)))",
            "    sessions: \(results["4 sessions"]?.sessions ?? 1)",
        ]
        if let initArgs { lines.append("    init_args: \(Self.quoted(initArgs))") }
        if needsTierC {
            let purpose = usesTierC ? "" : ", for Google Pay alone: leave it out without Google Pay"
            lines.append("    allow_extractable_secret: true   # tier C\(purpose)")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// A YAML scalar in double quotes, whose escapes are those of JSON.
    private static func quoted(_ text: String) -> String {
        (try? String(decoding: JSONEncoder.sorted.encode(text), as: UTF8.self)) ?? ""
    }
}

extension JSONEncoder {
    fileprivate static var sorted: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }
}

extension Data {
    fileprivate var array: [UInt8] { Array(self) }
}

/// The worker's processes of one trial. A process that the library hangs or crashes is followed by another one, which
/// removes its objects and goes on with the next step.
private final class TokenTrialRun: Sendable {
    private let worker: String
    private let arguments: [String]
    private let running = Mutex<(process: pid_t?, isInterrupted: Bool)>((nil, false))

    init(worker: String, arguments: [String]) {
        self.worker = worker
        self.arguments = arguments
    }

    /// - Returns: The results, and the last process's exit status.
    func run() async throws -> (TokenTrialResults, Int32) {
        try await Interruption.cancelling { [self] in
            let ended = try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    Thread { continuation.resume(with: Result { try self.runProcesses() }) }.start()
                }
            } onCancel: {
                running.withLock { $0.isInterrupted = true }
                endWorker()
            }
            // A part of the steps gives no row.
            try Task.checkCancellation()
            return ended
        }
    }

    /// Makes the worker remove its objects and end.
    private func endWorker() {
        running.withLock { if let process = $0.process { _ = kill(process, SIGTERM) } }
    }

    private func runProcesses() throws -> (TokenTrialResults, Int32) {
        var results = TokenTrialResults()
        while true {
            let known = results.results.count
            let skips = results.results.flatMap { ["--skip", $0.step] }
            let ended = try WorkerProgram.execute(worker, arguments + skips) { process in
                self.running.withLock { $0.process = process }
                if self.running.withLock({ $0.isInterrupted }) { self.endWorker() }
            }
            let unfinished = results.add(ended.output)
            if ended.signal == nil, ended.status != Self.hangStatus {
                // The worker has said why it did not begin.
                guard results["open"] != nil || ended.status == 0 else { throw ExitCode(ended.status) }
                return (results, ended.status)
            }
            if let unfinished {
                results.fail(unfinished, "the library ended the process with signal \(ended.signal ?? ended.status)")
            }
            guard results["open"]?.works == true else { return (results, 1) }
            guard results.results.count > known else {
                throw CommandFailure(
                    .unreachable,
                    "The HSM token opens no more. Objects labelled \"paytokend trial\" may remain in it: try again.")
            }
        }
    }

    /// The worker's exit status after a call that did not return.
    private static let hangStatus: Int32 = 75
}
