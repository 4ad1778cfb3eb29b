/// Why a JSON text was refused, and where. Never a piece of the text itself.
public struct JSONError: Error, Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
        /// Not RFC 8259's grammar, or an unpaired surrogate.
        case syntax
        /// A string's bytes are not UTF-8: overlong, truncated, a surrogate, or past U+10FFFF.
        case notUTF8
        /// More arrays and objects within each other than the limits allow.
        case tooDeep
        /// A name occurs twice in one object.
        case duplicateMember
        /// Something other than white space follows the value.
        case trailing
    }

    public let kind: Kind
    /// The offset in bytes, from 0, of the first byte that is wrong; for a repeated name, the end of
    /// its object.
    public let offset: Int
    /// The name of the outermost object's member in whose value the fault lies, if it lies in one: it tells an
    /// envelope's fault from its content's. As the text has it, so compare it and do not repeat it.
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

/// What a JSON text may cost beside its length, which the reader's caller bounds.
public struct JSONLimits: Sendable, Equatable {
    /// How many arrays and objects may be open within each other, 1 to 512.
    public let maximumDepth: Int

    /// - Parameter maximumDepth: taken as 512 when larger: the reader recurses, and its stack is finite.
    public init(maximumDepth: Int = 16) {
        self.maximumDepth = min(max(maximumDepth, 1), 512)
    }

    /// A depth of 16: requests and tokens need five.
    public static let `default` = JSONLimits()
}
