import ArgumentParser
import DaemonAPI
import Foundation

/// The worker's executable, which alone links PKCS#11.
enum WorkerProgram {
    static let name = "paytokend-hsm"

    /// Beside this program's own executable, else where packages put programs that nobody calls by name.
    static func locate() throws(CommandFailure) -> String {
        guard let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") else {
            throw CommandFailure(.defect, "internal_error: /proc/self/exe cannot be read. Is /proc mounted?")
        }
        let candidates = candidates(besides: own)
        guard let found = candidates.first(where: FileManager.default.isExecutableFile(atPath:)) else {
            throw CommandFailure(
                .unreadable,
                "\(name) is not there: neither \(candidates.joined(separator: " nor ")). Install it beside paytokenctl."
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

    /// What it wrote to standard output; its standard error is this program's. When it fails, its exit status is this
    /// program's too.
    static func run(_ program: String, _ arguments: [String]) throws -> [UInt8] {
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
        // One line is expected. More than a pipe holds would stop the worker, so all is read before it is waited for.
        let bytes = Array(output.fileHandleForReading.readDataToEndOfFile())
        process.waitUntilExit()
        guard process.terminationReason == .exit else {
            throw CommandFailure(
                .defect,
                "\(name) was ended by signal \(process.terminationStatus). The vendor's library may have crashed.")
        }
        guard process.terminationStatus == 0 else { throw ExitCode(process.terminationStatus) }
        return bytes
    }
}
