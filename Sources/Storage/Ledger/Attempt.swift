import Encodings

/// The caller's own name for one request to release: 8 bytes, not all of them zero, which the caller takes at random for each
/// request and uses once.
public struct AttemptName: Sendable, Hashable {
    /// Of the 8 bytes as a big-endian number; never zero.
    private let number: UInt64

    /// Nil unless `text` is 16 lower-case hexadecimal digits, and not all of them zero.
    public init?(hex text: String) {
        guard let bytes = Hexadecimal.decode(lowerCase: text), bytes.count == Self.length else { return nil }
        self.init(bytes: bytes)
    }

    fileprivate init?(bytes: some Sequence<UInt8>) {
        number = bytes.reduce(0) { $0 << 8 | UInt64($1) }
        if number == 0 { return nil }
    }

    fileprivate static let length = 8
    fileprivate var bytes: [UInt8] {
        stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) }
    }
}

/// What a caller says of a request: its name, and after the release of which other attempts it may be released too.
///
/// A caller cannot know whether an earlier attempt of its own, whose answer got lost, was released; and after its own store was
/// restored from a copy it does not know of all its attempts. So it says beforehand which attempts it knows of, and that it has
/// made certain that none of them led to a payment. A transaction whose last release was by any other attempt is not released.
public struct NamedAttempt: Sendable {
    public let name: AttemptName
    /// Those of which the caller knows that they led to no payment. At most a hundred (`DecryptRequest.mostAfter`).
    public let after: [AttemptName]

    public init(_ name: AttemptName, after: [AttemptName] = []) {
        self.name = name
        self.after = after
    }
}

/// What a claim keeps of an attempt: 16 bytes, of which the first 8 are its name, or zeros where the caller named none, and the
/// others come from the system's generator. By all 16 a release is found again whose commit was not acknowledged, and callers
/// that name two attempts alike do not make them one.
///
/// A version that knew no names wrote 16 random bytes. Their first 8 are a name that no caller has given: a named attempt never
/// follows such a release.
enum StoredAttempt {
    static func make(_ name: AttemptName?) -> [UInt8] {
        guard let name else { return [UInt8](repeating: 0, count: AttemptName.length) + Release.random(words: 1) }
        return name.bytes + Release.random(words: 1)
    }

    /// The caller's name in them; nil where it named none.
    static func name(in stored: [UInt8]) -> AttemptName? { AttemptName(bytes: stored.prefix(AttemptName.length)) }
}
