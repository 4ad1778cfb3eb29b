import CLinux
import Foundation

/// The worker's program, opened once: every worker of this daemon runs the same one, also when an upgrade has
/// replaced the file meanwhile.
final class WorkerExecutable: Sendable {
    static let name = "paytokend-hsm"

    /// The path it was opened at; for people.
    let path: String
    let descriptor: CInt

    /// - Throws: ``WorkerExecutableError`` with the reason when the file cannot be opened or is not executable.
    init(path: String) throws(WorkerExecutableError) {
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw WorkerExecutableError(message: "\(path) is not an executable file")
        }
        let descriptor = unsafe paytokend_open_executable(path)
        guard descriptor >= 0 else {
            throw WorkerExecutableError(message: "\(path) cannot be opened: errno \(-descriptor)")
        }
        self.path = path
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
    }

    /// The program that was installed with this one: in the same directory, else in `../libexec/paytokend`.
    static func installed() throws(WorkerExecutableError) -> WorkerExecutable {
        guard let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") else {
            throw WorkerExecutableError(message: "/proc/self/exe cannot be read; is /proc mounted?")
        }
        let directory = URL(fileURLWithPath: own).deletingLastPathComponent()
        let candidates = [
            directory.appendingPathComponent(name).path,
            directory.deletingLastPathComponent().appendingPathComponent("libexec/paytokend/\(name)").path,
        ]
        guard let path = candidates.first(where: { FileManager.default.isExecutableFile(atPath: $0) }) else {
            throw WorkerExecutableError(
                message: "the worker program is neither \(candidates[0]) nor \(candidates[1]); install it there")
        }
        return try WorkerExecutable(path: path)
    }
}

struct WorkerExecutableError: Error, Sendable, Equatable {
    /// One sentence for a person.
    let message: String
}
