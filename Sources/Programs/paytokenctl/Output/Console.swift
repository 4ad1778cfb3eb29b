import CommandOutput
import DaemonAPI

/// The two streams, with failures as this program's.
enum Console {
    static func output(_ text: String) throws(CommandFailure) {
        try output(bytes: Array(text.utf8))
    }

    /// A list: in a terminal as wide as that is, else, or when all is wanted, in full.
    static func output(_ table: Table, _ width: WideOption) throws(CommandFailure) {
        let (text, remark) = table.shown(isWide: width.isWide)
        try output(text)
        if let remark { error(remark) }
    }

    /// A document that another program reads, with a newline at its end.
    static func output(json bytes: [UInt8]) throws(CommandFailure) {
        do throws(LostOutput) { try StandardOutput.write(json: bytes) } catch { throw CommandFailure(error) }
    }

    /// A part of a result that comes bit by bit. When the reader has gone, the command ends here, and well.
    static func output(part bytes: [UInt8]) throws(CommandFailure) {
        guard try output(bytes: bytes) else { throw CommandFailure(.done, nil) }
    }

    @discardableResult
    private static func output(bytes: [UInt8]) throws(CommandFailure) -> Bool {
        do throws(LostOutput) { return try StandardOutput.write(bytes: bytes) } catch { throw CommandFailure(error) }
    }

    static func error(_ text: String) { StandardError.write(text) }
}
