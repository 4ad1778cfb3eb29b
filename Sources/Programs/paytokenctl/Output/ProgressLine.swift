import CommandOutput
import Glibc

/// Progress on standard error: in a terminal, one line that is overwritten; elsewhere, an occasional line. A short
/// operation shows none.
struct ProgressLine {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private let interval: Duration
    private var next: ContinuousClock.Instant
    /// The number of characters in the terminal's line.
    private var shown = 0

    init() {
        interval = isTerminal ? .milliseconds(200) : .seconds(10)
        next = .now + interval
    }

    /// True if enough time has passed for another line.
    var isDue: Bool { .now >= next }

    /// - Parameter text: ASCII, shorter than a terminal's line.
    mutating func show(_ text: String) {
        next = .now + interval
        guard isTerminal else { return Console.error(text) }
        let blanks = String(repeating: " ", count: max(0, shown - text.count))
        try? Descriptor.write(Array(("\r" + text + blanks).utf8), to: STDERR_FILENO)
        shown = text.count
    }

    /// Clears the line in a terminal.
    mutating func clear() {
        guard shown > 0 else { return }
        try? Descriptor.write(Array(("\r" + String(repeating: " ", count: shown) + "\r").utf8), to: STDERR_FILENO)
        shown = 0
    }
}
