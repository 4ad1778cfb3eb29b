/// A path or a name as one word of a POSIX shell command that a user may copy.
public enum ShellWord {
    /// The text unchanged, or in single quotes if the shell could interpret a part of it.
    public static func of(_ text: String) -> String {
        guard text.isEmpty || !text.utf8.allSatisfy(isPlain) else { return text }
        return "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#) + "'"
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "/.-_@+".utf8.contains(byte)
        }
    }
}
