internal import Encodings

/// A name in a record: at most 255 printable Unicode scalars without a run of 12 digits.
///
/// Names come from configuration, certificates and, as `comm` does, from untrusted processes; whatever they hold, a record shows
/// it safely in a terminal and carries no account number.
public struct AuditText: Sendable, Hashable {
    public static let maximumLength = 255

    public let text: String

    /// Takes any text: unprintable scalars become U+FFFD, the digits of a run of 12 or more `*`, and what is too long
    /// is cut and ends in `…`.
    public init(_ text: String) {
        self.text = PrintableText.clean(text, limit: Self.maximumLength)
    }

    /// What a record holds already.
    init(stored text: String) {
        self.text = text
    }
}

/// Why a person did something: at most 200 printable Unicode scalars without a run of 12 digits.
public struct AuditReason: Sendable, Hashable {
    public static let maximumLength = 200

    public let text: String

    /// Takes any text, as ``AuditText`` does.
    public init(_ text: String) {
        self.text = PrintableText.clean(text, limit: Self.maximumLength)
    }
}

/// What an approval is called: 4 to 16 bytes, random, written in lower-case hexadecimal.
public struct ApprovalIdentifier: Sendable, Hashable {
    public let bytes: [UInt8]

    /// Nil unless there are 4 to 16 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard (4...16).contains(bytes.count) else { return nil }
        self.bytes = Array(bytes)
    }

    /// 8 bytes from the system's generator.
    public static func random() -> ApprovalIdentifier {
        var generator = SystemRandomNumberGenerator()
        return ApprovalIdentifier(random: (0..<8).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// Nil unless `text` is what ``hex`` writes.
    public init?(hex text: String) {
        guard let bytes = Hexadecimal.decode(lowerCase: text) else { return nil }
        self.init(bytes: bytes)
    }

    private init(random bytes: [UInt8]) {
        self.bytes = bytes
    }

    public var hex: String { Hexadecimal.encode(bytes) }
}

/// What people and processes wrote, made fit for a record: no control characters, nothing that turns the direction of
/// writing, no account number.
enum PrintableText {
    /// Account numbers have 12 digits at least (ISO/IEC 7812-1 allows fewer, no payment network issues them).
    static let shortestMaskedRun = 12

    /// As much of a text as is looked at. What lies beyond cannot reach the result, and a run of digits that reaches
    /// into the result is seen whole.
    private static let lookAhead = 4096

    /// Replaces each digit of a run of 12 or more by `*` and each unprintable scalar by U+FFFD, then cuts at `limit`
    /// Unicode scalars, with `…` as the last. Doing it again changes nothing.
    ///
    /// Spaces, dashes, combining marks and unprintable scalars between digits do not end a run: account numbers are
    /// written in groups. Digits of every script are digits.
    static func clean(_ text: String, limit: Int) -> String {
        guard !isCleanASCII(text, limit: limit) else { return text }
        var scalars: [Unicode.Scalar] = []
        var run: [Int] = []
        func endRun() {
            if run.count >= shortestMaskedRun {
                for position in run { scalars[position] = "*" }
            }
            run.removeAll(keepingCapacity: true)
        }
        for scalar in text.unicodeScalars.prefix(lookAhead) {
            switch scalar.properties.generalCategory {
            case .decimalNumber:
                run.append(scalars.count)
                scalars.append(scalar)
            case .spaceSeparator, .dashPunctuation, .nonspacingMark, .spacingMark, .enclosingMark:
                scalars.append(scalar)
            case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator:
                scalars.append("\u{FFFD}")
            default:
                // U+FFFD stands where something unprintable stood, perhaps between digits.
                if scalar != "\u{FFFD}" { endRun() }
                scalars.append(scalar)
            }
        }
        endRun()
        var cleaned = String.UnicodeScalarView()
        if scalars.count > limit {
            cleaned.append(contentsOf: scalars[..<(limit - 1)])
            cleaned.append("…")
        } else {
            cleaned.append(contentsOf: scalars)
        }
        return String(cleaned)
    }

    /// Whether nothing is to be done: printable ASCII that fits, with fewer digits than a run has. Names and identifiers
    /// are, and each release has some.
    private static func isCleanASCII(_ text: String, limit: Int) -> Bool {
        var count = 0
        var digits = 0
        for byte in text.utf8 {
            guard (0x20...0x7E).contains(byte) else { return false }
            count += 1
            if (0x30...0x39).contains(byte) { digits += 1 }
        }
        return count <= limit && digits < shortestMaskedRun
    }
}
