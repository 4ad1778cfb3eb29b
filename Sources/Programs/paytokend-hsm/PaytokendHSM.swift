import ArgumentParser
import FoundationEssentials
import Glibc
import HSMWorker
import ProductVersion
import WorkerProtocol

/// The worker's program. It hardens its own process and passes the socket to ``WorkerService``. A subcommand
/// initialises an empty HSM token; paytokenctl runs it, because only this program links PKCS#11.
@main
struct PaytokendHSM: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "paytokend-hsm",
        abstract: "Holds the PKCS#11 library, the PIN and the sessions for paytokend, which starts it.",
        discussion: "Without a subcommand it serves one HSM token over the socket that is its standard input.",
        version: ProductVersion.current,
        subcommands: [InitializeToken.self, TryToken.self])

    func run() throws {
        guard ProcessHardening.isSocket(STDIN_FILENO) else {
            report("paytokend-hsm is started by paytokend, with a socket as its standard input.")
            throw ExitCode(64)
        }
        ProcessHardening.closeInherited()
        for problem in ProcessHardening.apply(name: "paytokend-hsm") { report(problem) }
        // _exit runs no exit handlers: some PKCS#11 libraries crash in their destructors.
        _exit(WorkerService.serve(descriptor: STDIN_FILENO))
    }
}

/// Writes a line to standard error.
func report(_ line: String) {
    BlockingDescriptor.write(Array((line + "\n").utf8), to: STDERR_FILENO)
}

struct InitializeToken: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token-init",
        abstract: "Initialises an empty HSM token and describes it in one line of JSON.",
        discussion: """
            If an HSM token already has this label, the command is refused (exit status 1), and that HSM token stays \
            as it is. PINs come from files that others cannot read.
            """)

    @Option(help: ArgumentHelp("The PKCS#11 library, by its absolute path.", valueName: "path"))
    var module: String

    @Option(help: "The HSM token's label, at most 32 bytes.")
    var label: String

    @Option(help: ArgumentHelp("The file with the security officer's PIN.", valueName: "path"))
    var soPinFile: String

    @Option(help: ArgumentHelp("The file with the user's PIN.", valueName: "path"))
    var pinFile: String

    @Option(help: "The library's own initialisation string (NSS).")
    var initArgs = ""

    @Flag(help: "Checks everything, changes nothing, and prints nothing.")
    var dryRun = false

    private struct Line: Encodable {
        let label: String
        let serialNumber: String
        let slot: UInt
    }

    func run() throws {
        for problem in ProcessHardening.apply(name: "paytokend-hsm") { report(problem) }
        do throws(TokenInitialization.Failure) {
            let initialization = TokenInitialization(
                modulePath: module, label: label, securityOfficerPINFile: soPinFile, userPINFile: pinFile,
                initializationString: initArgs)
            if dryRun { try initialization.check() } else { print(try initialization.run()) }
        } catch {
            report(error.message)
            _exit(error.status)
        }
        // _exit runs no exit handlers: some PKCS#11 libraries crash in their destructors.
        _exit(0)
    }

    private func print(_ outcome: TokenInitialization.Outcome) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let line = Line(label: outcome.label, serialNumber: outcome.serialNumber, slot: outcome.slot)
        guard let json = try? encoder.encode(line) else { return }
        guard BlockingDescriptor.write(json + [UInt8(ascii: "\n")], to: STDOUT_FILENO) else {
            report("Standard output cannot be written. The HSM token is initialised all the same.")
            _exit(66)
        }
    }
}

/// The options of subcommands that log in to an HSM token.
struct HSMTokenOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The PKCS#11 library, by its absolute path.", valueName: "path"))
    var module: String

    @Option(help: "The HSM token's RFC 7512 URI.")
    var uri: String

    @Option(help: ArgumentHelp("The file with the user's PIN.", valueName: "path"))
    var pinFile: String

    @Option(help: "The library's own initialisation string (NSS).")
    var initArgs = ""

    func opening(sessions: UInt16, allowExtractableSecret: Bool) -> HSMTokenOpening {
        HSMTokenOpening(
            programVersion: ProductVersion.current, modulePath: module, tokenURI: uri, pinFile: pinFile,
            sessions: sessions, initializationString: initArgs, allowExtractableSecret: allowExtractableSecret)
    }
}
