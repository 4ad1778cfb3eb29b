/// A path or a name as one word of a POSIX shell's command that a person may copy.
public enum ShellWord {
    /// The text as it is, or within single quotes where a shell could take a piece of it for something else.
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
