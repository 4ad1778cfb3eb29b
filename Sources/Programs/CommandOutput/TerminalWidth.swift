import Foundation
import Glibc

/// How many characters fit into a line of a terminal.
package enum TerminalWidth {
    /// Of standard output; nil when that is no terminal, or nobody knows: then nothing is shortened, so that files and pipes
    /// get all of it.
    ///
    /// - Parameter environment: COLUMNS, where it is exported, goes before what the terminal says (POSIX, Base Definitions
    ///   8.3).
    package static func ofStandardOutput(
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> Int? {
        guard isatty(STDOUT_FILENO) == 1 else { return nil }
        if let columns = environment["COLUMNS"].flatMap(Int.init), columns > 0 { return columns }
        var size = winsize()
        guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }
}
