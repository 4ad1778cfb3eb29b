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
    /// The offset in bytes, from 0, of the first byte that is wrong; for a duplicate, of what follows the second name.
    public let offset: Int

    public init(kind: Kind, offset: Int) {
        self.kind = kind
        self.offset = offset
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
