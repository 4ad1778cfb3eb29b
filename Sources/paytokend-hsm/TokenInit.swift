import ArgumentParser
import Foundation
import HSMWorker

struct TokenInit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token-init",
        abstract: "Initialises an empty token and prints what it is as one line of JSON.",
        discussion: """
            When there is a token of that label already it is refused (exit status 1), and that token stays as it is. \
            PINs come from files that others cannot read.
            """)

    @Option(help: ArgumentHelp("The PKCS#11 library, by its absolute path.", valueName: "path"))
    var module: String

    @Option(help: "The token's label, at most 32 bytes.")
    var label: String

    @Option(help: ArgumentHelp("The file with the security officer's PIN.", valueName: "path"))
    var soPinFile: String

    @Option(help: ArgumentHelp("The file with the user's PIN.", valueName: "path"))
    var pinFile: String

    @Option(help: "The library's own initialisation string (NSS).")
    var initArgs = ""

    private struct Line: Encodable {
        let label: String
        let serialNumber: String
        let slot: UInt
    }

    func run() throws {
        for problem in ProcessHardening.apply(name: "paytokend-hsm") { StandardError.write(problem) }
        do throws(TokenInitialization.Failure) {
            let outcome = try TokenInitialization(
                modulePath: module, label: label, securityOfficerPINFile: soPinFile, userPINFile: pinFile,
                initializationString: initArgs
            ).run()
            print(outcome)
        } catch {
            StandardError.write(error.message)
            _exit(error.status)
        }
        // Some libraries crash in their destructors: no exit handlers.
        _exit(0)
    }

    private func print(_ outcome: TokenInitialization.Outcome) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let line = Line(label: outcome.label, serialNumber: outcome.serialNumber, slot: outcome.slot)
        guard let json = try? encoder.encode(line) else { return }
        try? FileHandle.standardOutput.write(contentsOf: json + [UInt8(ascii: "\n")])
    }
}
