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
