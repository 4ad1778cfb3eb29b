import Foundation
import Glibc

// Unsafe: TIOCGWINSZ writes a winsize, which is what the call receives.

/// The number of columns in a line of a terminal.
package enum TerminalWidth {
    /// The width of the terminal that is standard output. Nil if standard output is not a terminal, or if the width is
    /// unknown. The caller then shortens nothing, so that files and pipes receive the complete text.
    ///
    /// - Parameter environment: the process's environment. Its variable COLUMNS takes precedence over the terminal's
    ///   own width (POSIX, Base Definitions 8.3).
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
