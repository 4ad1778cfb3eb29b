import ArgumentParser
import Foundation
import HSMWorker
import ProductVersion

@main
struct PaytokendHSM: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "paytokend-hsm",
        abstract: "Holds the PKCS#11 library, the PIN and the sessions for paytokend, which starts it.",
        discussion: "Without a subcommand it serves one token over the socket that is its standard input.",
        version: ProductVersion.current,
        subcommands: [TokenInit.self])

    func run() throws {
        guard ProcessHardening.isSocket(STDIN_FILENO) else {
            StandardError.write("paytokend-hsm is started by paytokend, with a socket as its standard input.")
            throw ExitCode(64)
        }
        ProcessHardening.closeInherited()
        for problem in ProcessHardening.apply(name: "paytokend-hsm") { StandardError.write(problem) }
        // Some libraries crash in their destructors: no exit handlers.
        _exit(WorkerService.serve(descriptor: STDIN_FILENO))
    }
}

enum StandardError {
    static func write(_ line: String) {
        try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
    }
}
