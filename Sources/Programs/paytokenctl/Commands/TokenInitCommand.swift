import ArgumentParser
import CommandOutput
import DaemonAPI
import Foundation
import SecretMemory
import StrictJSON

struct TokenInitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Initialises an empty PKCS#11 token.",
        discussion: """
            Runs paytokend-hsm, which loads the library; the daemon is not needed. If there is already a token with \
            that label, the command is refused (exit status 1), and that token stays as it is. PINs are read from \
            files that others must not be able to read, one PIN on one line. With --dry-run the library is loaded, and \
            label, slot and PINs are checked.

            A SoftHSM token for a daemon belongs to the daemon's user, and its directory must exist:

              install -d -m 0700 -o paytokend /var/lib/paytokend \\
                  /var/lib/paytokend/tokens
              sudo -u paytokend env --chdir=/ SOFTHSM2_CONF=/etc/paytokend/softhsm2.conf \\
                  paytokenctl token init --module /usr/lib/softhsm/libsofthsm2.so \\
                  --label paytokend --so-pin-file /etc/paytokend/so-pin \\
                  --pin-file /etc/paytokend/pin

            A token to try things out:

              mkdir tokens
              echo "directories.tokendir = $PWD/tokens" > softhsm2.conf
              export SOFTHSM2_CONF=$PWD/softhsm2.conf
              (umask 077; echo 12345678 > so-pin; echo 87654321 > pin)
              paytokenctl token init --module /usr/lib/softhsm/libsofthsm2.so \\
                  --label paytokend --so-pin-file so-pin --pin-file pin
            """)

    @Option(help: ArgumentHelp("The vendor's PKCS#11 library.", valueName: "path"), completion: .file())
    var module: String

    @Option(help: ArgumentHelp("The new HSM token's label, at most 32 bytes.", valueName: "text"))
    var label: String

    @Option(help: ArgumentHelp("A file with the security officer's PIN.", valueName: "file"), completion: .file())
    var soPinFile: String

    @Option(
        help: ArgumentHelp("A file with the user PIN, which the daemon will log in with.", valueName: "file"),
        completion: .file())
    var pinFile: String

    @Option(help: ArgumentHelp("The library's own initialisation string (NSS).", valueName: "text"))
    var initArgs: String?

    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions

    func validate() throws {
        // CK_TOKEN_INFO.label, PKCS#11 v3.0 §3.2.
        guard (1...32).contains(label.utf8.count) else {
            throw ValidationError("An HSM token's label has 1 to 32 bytes, and this one \(label.utf8.count).")
        }
    }

    func run() async throws {
        let worker = try WorkerProgram.locate()
        var arguments = [
            // The worker accepts only an absolute path.
            "token-init", "--module", URL(filePath: module).path(percentEncoded: false), "--label", label,
            "--so-pin-file", soPinFile, "--pin-file", pinFile,
        ]
        if let initArgs { arguments += ["--init-args", initArgs] }
        if dryRun.isDryRun { arguments.append("--dry-run") }
        let output = try WorkerProgram.run(worker, arguments)
        guard !dryRun.isDryRun else {
            dryRun.report("\(worker) would initialise an HSM token with the label \(label)")
            return
        }
        try WorkerProgram.show(output, after: "\(worker) initialised the HSM token", format)
    }
}

/// The worker's executable, which is the only one that links PKCS#11.
enum WorkerProgram {
    /// The check of a dry run that does not load the library.
    static func requireReadable(module: String, pinFile: String) throws {
        guard FileManager.default.isReadableFile(atPath: module) else {
            throw CommandFailure(.unreadable, "\(module) does not exist or may not be read.")
        }
        _ = try SecretBytes(contentsOfFile: pinFile)
    }

    static let name = "paytokend-hsm"

    /// Finds the worker's executable, next to this program's executable or in the directory where packages install
    /// internal programs.
    static func locate() throws -> String {
        guard let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") else {
            throw CommandFailure(.defect, "internal_error: /proc/self/exe cannot be read. Is /proc mounted?")
        }
        let candidates = candidates(besides: own)
        guard let found = candidates.first(where: FileManager.default.isExecutableFile(atPath:)) else {
            throw CommandFailure(
                .unreadable,
                "\(name) was not found: neither \(candidates.joined(separator: " nor ")). Install it in the directory of paytokenctl."
            )
        }
        return found
    }

    static func candidates(besides executable: String) -> [String] {
        let folder = URL(filePath: executable).deletingLastPathComponent()
        return [
            folder.appending(path: name),
            folder.deletingLastPathComponent().appending(path: "libexec/paytokend").appending(path: name),
        ].map { $0.path(percentEncoded: false) }
    }

    /// Runs the worker's executable and returns its standard output. Both programs share standard error. If the
    /// worker's program fails, this program ends with the same exit status.
    static func run(_ program: String, _ arguments: [String]) throws -> [UInt8] {
        let ended = try execute(program, arguments)
        if let signal = ended.signal {
            throw CommandFailure(
                .defect, "\(name) was ended by signal \(signal). The vendor's library may have crashed.")
        }
        guard ended.status == 0 else { throw ExitCode(ended.status) }
        return ended.output
    }

    /// Runs the worker's executable to its end.
    /// - Parameter started: Receives the process's identifier, and nil after its end.
    /// - Returns: Its standard output, and its exit status or the signal that ended it.
    static func execute(
        _ program: String, _ arguments: [String], started: (pid_t?) -> Void = { _ in }
    ) throws -> (output: [UInt8], status: Int32, signal: Int32?) {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        let output = Pipe()
        process.standardOutput = output
        do {
            try process.run()
        } catch {
            throw CommandFailure(.unreadable, "\(program) could not be started.")
        }
        started(process.processIdentifier)
        // More output than a pipe can buffer would block the worker, so everything is read before waiting for it to
        // end.
        let bytes = Array(output.fileHandleForReading.readDataToEndOfFile())
        started(nil)
        process.waitUntilExit()
        let status = process.terminationStatus
        return process.terminationReason == .exit ? (bytes, status, nil) : (bytes, 0, status)
    }

    /// Shows the line of JSON that the worker's executable wrote.
    /// - Parameter done: what was done, for the error if the line cannot be read.
    static func show(_ output: [UInt8], after done: String, _ format: OutputOptions) throws {
        switch format.output {
        case .json: try Console.output(json: output)
        case .table:
            guard let answer = try? JSONValue(parsing: output) else {
                throw CommandFailure(.defect, "internal_error: \(done), but did not report it.")
            }
            try Console.output(Table(pairs: Flattening.pairs(answer)).text)
        }
    }
}
