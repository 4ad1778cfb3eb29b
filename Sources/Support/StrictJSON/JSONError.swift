/// The reason why a JSON text was refused, and the position of the fault. It never contains any part of the text.
public struct JSONError: Error, Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
        /// The text does not follow RFC 8259's grammar, or has an unpaired surrogate.
        case syntax
        /// A string's bytes are not UTF-8: overlong, truncated, a surrogate, or above U+10FFFF.
        case notUTF8
        /// Arrays and objects are nested more deeply than the limits allow.
        case tooDeep
        /// A name occurs twice in one object.
        case duplicateMember
        /// The value is followed by something other than white space.
        case trailing
    }

    public let kind: Kind
    /// The offset in bytes, from 0, of the first wrong byte; for a repeated name, the end of its object.
    public let offset: Int
    /// The member of the outermost object whose value has the fault, or nil. It distinguishes a fault in an envelope
    /// from one in its content. The name comes from the text, so it may be compared but not printed.
    public internal(set) var outermostMember: String?

    public init(kind: Kind, offset: Int, outermostMember: String? = nil) {
        self.kind = kind
        self.offset = offset
        self.outermostMember = outermostMember
    }
}

extension JSONError: CustomStringConvertible {
    public var description: String {
        switch kind {
        case .syntax: "not JSON at byte \(offset)"
        case .notUTF8: "not UTF-8 at byte \(offset)"
        case .tooDeep: "nested too deeply at byte \(offset)"
        case .duplicateMember: "a member name is repeated before byte \(offset)"
        case .trailing: "something follows the JSON value at byte \(offset)"
        }
    }
}

/// The limits of a JSON text, apart from its length, which the caller must limit.
public struct JSONLimits: Sendable, Equatable {
    /// The maximum number of nested arrays and objects, 1 to 512.
    public let maximumDepth: Int

    /// - Parameter maximumDepth: values above 512 count as 512, because the parser is recursive and its stack is
    ///   limited.
    public init(maximumDepth: Int = 16) {
        self.maximumDepth = min(max(maximumDepth, 1), 512)
    }

    /// A depth of 16: requests and payment tokens need only five.
    public static let `default` = JSONLimits()
}
