import Foundation
import Synchronization

/// What must not outlive the test process: programs and directories that static values hold on to are never
/// deinitialised, so the process clears up when it exits.
enum ExitCleanup {
    private struct Remains {
        var programs: Set<Int32> = []
        var directories: Set<String> = []
    }

    private static let remains = Mutex(Remains())
    private static let registered: Void = {
        atexit {
            ExitCleanup.remains.withLock { remains in
                for program in remains.programs { kill(program, SIGKILL) }
                for directory in remains.directories { try? FileManager.default.removeItem(atPath: directory) }
            }
        }
    }()

    static func add(program: Int32) {
        _ = registered
        remains.withLock { _ = $0.programs.insert(program) }
    }

    static func remove(program: Int32) { remains.withLock { _ = $0.programs.remove(program) } }

    static func add(directory: String) {
        _ = registered
        remains.withLock { _ = $0.directories.insert(directory) }
    }

    static func remove(directory: String) { remains.withLock { _ = $0.directories.remove(directory) } }
}
