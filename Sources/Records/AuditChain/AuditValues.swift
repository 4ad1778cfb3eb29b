internal import Crypto
internal import Encodings
public import Foundation

/// 32 bytes: a SHA-256 (FIPS 180-4), or an identifier that has the size of one, such as a transactionId.
public struct AuditDigest: Hashable, Sendable {
    public static let size = 32

    /// 32 zero bytes. They take the place of the previous hash in the hash of a chain's first record.
    public static let zero = AuditDigest(exactly: [UInt8](repeating: 0, count: size))

    public let bytes: [UInt8]

    /// Returns nil unless `bytes` has exactly 32 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = Array(bytes)
    }

    /// Returns nil unless `text` is 64 lower-case hexadecimal digits, the only form that records use.
    public init?(hex text: String) {
        self.init(hexDigits: Array(text.utf8)[...])
    }

    /// Returns nil unless `text` is base64 (RFC 4648 §4) of 32 bytes in its canonical form, with padding.
    public init?(base64 text: String) {
        guard let bytes = Base64.decode(text, padding: .required) else { return nil }
        self.init(bytes: bytes)
    }

    /// Returns the SHA-256 of the content.
    public static func of(_ content: some Collection<UInt8>) -> AuditDigest {
        AuditDigest(exactly: Array(SHA256.hash(data: Array(content))))
    }

    /// Returns a record's hash: SHA-256(`previous` ‖ `body`), where `previous` is the previous record's hash as 32 raw
    /// bytes.
    static func following(_ previous: AuditDigest, body: ArraySlice<UInt8>) -> AuditDigest {
        var hasher = SHA256()
        hasher.update(data: previous.bytes)
        hasher.update(data: body)
        return AuditDigest(exactly: Array(hasher.finalize()))
    }

    /// Returns nil unless `hexDigits` is 64 lower-case hexadecimal digits in ASCII.
    init?(hexDigits: ArraySlice<UInt8>) {
        guard let bytes = Hexadecimal.decode(lowerCase: hexDigits), bytes.count == Self.size else { return nil }
        self.bytes = bytes
    }

    private init(exactly bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The digest as 64 lower-case hexadecimal digits.
    public var hex: String { Hexadecimal.encode(bytes) }

    /// The digest as 44 characters of base64, the form in which a publicKeyHash is written.
    public var base64: String { Base64.encode(bytes) }
}

/// The name of the node to whose chain a record belongs: 1 to 64 ASCII letters, digits, dots, hyphens and underscores.
public struct AuditNode: Hashable, Sendable, Comparable {
    public static let maximumLength = 64

    public let name: String

    /// Returns nil unless `name` is 1 to 64 ASCII letters, digits, dots, hyphens and underscores.
    public init?(_ name: String) {
        guard (1...Self.maximumLength).contains(name.utf8.count), name.utf8.allSatisfy(Self.allows) else { return nil }
        self.name = name
    }

    /// Creates a name from characters whose number and range ``LineScanner`` has already checked.
    init(scanned characters: ArraySlice<UInt8>) {
        name = String(decoding: characters, as: UTF8.self)
    }

    static func allows(_ character: UInt8) -> Bool {
        switch character {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"): true
        default: false
        }
    }

    /// Compares the names by their bytes, so that the order does not depend on a locale.
    public static func < (left: AuditNode, right: AuditNode) -> Bool {
        left.name.utf8.lexicographicallyPrecedes(right.name.utf8)
    }
}

/// A time in a record: UTC in whole milliseconds, in the years 1 to 9999.
///
/// The unit is milliseconds, because under load many records have the same second, and because records of several nodes
/// are compared. Records are ordered by sequence, never by time, since a clock may be set back.
public struct AuditTime: Sendable, Hashable, Comparable {
    /// 0001-01-01T00:00:00.000Z.
    public static let earliest = AuditTime(milliseconds: -62_135_596_800_000)
    /// 9999-12-31T23:59:59.999Z.
    public static let latest = AuditTime(milliseconds: 253_402_300_799_999)

    /// Milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
    public let milliseconds: Int64

    /// Creates a time; values outside ``earliest`` to ``latest`` are clamped.
    public init(milliseconds: Int64) {
        self.milliseconds = min(max(milliseconds, -62_135_596_800_000), 253_402_300_799_999)
    }

    /// Creates a time from the date, rounded down to the millisecond.
    public init(_ date: Date) {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded(.down)
        self.init(milliseconds: Int64(exactly: min(max(milliseconds, -1e15), 1e15)) ?? 0)
    }

    /// Returns nil unless the argument has exactly the form of ``text``, the only one in records and checkpoints.
    public init?(stored text: String) {
        guard let time = AuditTime(rfc3339: text), time.text == text else { return nil }
        self = time
    }

    /// Parses a time as people and scripts write it: RFC 3339 §5.6 with any fraction and offset, in upper case. Digits
    /// beyond milliseconds are dropped. Returns nil for leap seconds and for any other text.
    public init?(rfc3339 text: String) {
        guard let moment = RFC3339.moment(text), !text.hasPrefix("0000") else { return nil }
        self.init(milliseconds: Int64(moment.secondsSince1970 * 1000 + moment.nanoseconds / 1_000_000))
    }

    public var date: Date { Date(timeIntervalSince1970: Double(milliseconds) / 1000) }

    /// The time to the second, for use in a file name: `2026-01-31T120002Z`. It has no colons, because some programs
    /// that copy files interpret the text before a colon as a host name.
    public var fileNameText: String { text.prefix(19).replacing(":", with: "") + "Z" }

    /// The length of ``text`` in characters.
    static let length = 24

    /// The time as RFC 3339 with three digits of fraction and Z, always 24 characters, such as
    /// `2026-01-31T12:00:00.000Z`.
    public var text: String { RFC3339.string(millisecondsSince1970: Int(milliseconds)) }

    public static func < (left: AuditTime, right: AuditTime) -> Bool { left.milliseconds < right.milliseconds }
}

/// A name in a record: at most 255 printable Unicode scalars, without 12 or more consecutive digits.
///
/// Names come from the configuration, from certificates and, as `comm` does, from untrusted processes. Because of these
/// limits, every name is safe to show in a terminal, and none contains an account number.
public struct AuditText: Sendable, Hashable {
    public static let maximumLength = 255

    public let text: String

    /// Accepts any text. Unprintable scalars become U+FFFD, and the digits of a run of 12 or more become `*`. A text
    /// that is too long is truncated and ends in `…`.
    public init(_ text: String) {
        self.text = PrintableText.clean(text, limit: Self.maximumLength)
    }

    /// Takes a text from a stored record unchanged, since it was sanitised when the record was made.
    init(stored text: String) {
        self.text = text
    }
}

/// A person's reason for an operation: at most 200 printable Unicode scalars without 12 or more consecutive digits.
public struct AuditReason: Sendable, Hashable {
    public static let maximumLength = 200

    public let text: String

    /// Accepts any text and sanitises it as ``AuditText`` does: masks runs of digits, replaces unprintable scalars, and
    /// truncates.
    public init(_ text: String) {
        self.text = PrintableText.clean(text, limit: Self.maximumLength)
    }
}

/// The identifier of an approval.
public typealias ApprovalIdentifier = RandomIdentifier<IdentifiedApproval>
/// The identifier of one attempt of a renewal to change something at Apple.
public typealias RenewalAttemptId = RandomIdentifier<IdentifiedRenewalAttempt>

public enum IdentifiedApproval {}
public enum IdentifiedRenewalAttempt {}

/// An identifier of one kind of thing: 4 to 16 random bytes, written in lower-case hexadecimal.
public struct RandomIdentifier<Thing>: Sendable, Hashable {
    public let bytes: [UInt8]

    /// Returns nil unless `bytes` has 4 to 16 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard (4...16).contains(bytes.count) else { return nil }
        self.bytes = Array(bytes)
    }

    /// Returns an identifier of 8 bytes from the system's random number generator.
    public static func random() -> RandomIdentifier {
        var generator = SystemRandomNumberGenerator()
        return RandomIdentifier(random: (0..<8).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// Returns nil unless `text` has the form of ``hex``.
    public init?(hex text: String) {
        guard let bytes = Hexadecimal.decode(lowerCase: text) else { return nil }
        self.init(bytes: bytes)
    }

    private init(random bytes: [UInt8]) {
        self.bytes = bytes
    }

    public var hex: String { Hexadecimal.encode(bytes) }
}

/// Sanitises texts from people and processes for a record. The result has no control character, no change of the
/// writing direction and no account number.
enum PrintableText {
    /// The number of digits from which a run is masked. ISO/IEC 7812-1 allows shorter account numbers, but no payment
    /// network issues them.
    static let shortestMaskedRun = 12

    /// The number of scalars that are read. Later scalars are ignored, since the result is much shorter than this.
    private static let maximumScalarsRead = 4096

    /// Replaces each digit of a run of 12 or more by `*` and each unprintable scalar by U+FFFD. A result longer than
    /// `limit` Unicode scalars is truncated to `limit`, the last of which is `…`. Cleaning a result again does not
    /// change it.
    ///
    /// Spaces, dashes, combining marks and unprintable scalars between digits do not end a run, because account numbers
    /// are written in groups. Digits of all scripts count.
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
        for scalar in text.unicodeScalars.prefix(maximumScalarsRead) {
            switch scalar.properties.generalCategory {
            case .decimalNumber:
                run.append(scalars.count)
                scalars.append(scalar)
            case .spaceSeparator, .dashPunctuation, .nonspacingMark, .spacingMark, .enclosingMark:
                scalars.append(scalar)
            case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator:
                scalars.append("\u{FFFD}")
            default:
                // U+FFFD replaces an unprintable scalar, which may have been between digits.
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

    /// Returns true if the text is printable ASCII within the limit and has fewer than 12 digits, so that nothing needs
    /// sanitising. This saves time in every release, since most recorded names are such texts.
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
