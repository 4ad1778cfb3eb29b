/// DER taken apart, to be put together again with something changed. Independent of what is tested: one-byte tags and
/// definite lengths only.
indirect enum DERTree: Equatable {
    case primitive(tag: UInt8, [UInt8])
    case constructed(tag: UInt8, [DERTree])

    struct Malformed: Error {}

    init(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        self = try Self.read(&rest)
        guard rest.isEmpty else { throw Malformed() }
    }

    private static func read(_ rest: inout ArraySlice<UInt8>) throws -> DERTree {
        guard let tag = rest.popFirst(), var length = rest.popFirst().map(Int.init) else { throw Malformed() }
        if length > 0x80 {
            let octets = rest.prefix(length - 0x80)
            rest = rest.dropFirst(length - 0x80)
            length = octets.reduce(0) { sum, octet in sum << 8 | Int(octet) }
        }
        guard rest.count >= length else { throw Malformed() }
        var content = rest.prefix(length)
        rest = rest.dropFirst(length)
        guard tag & 0x20 != 0 else { return .primitive(tag: tag, Array(content)) }
        var children: [DERTree] = []
        while !content.isEmpty { children.append(try read(&content)) }
        return .constructed(tag: tag, children)
    }

    var encoded: [UInt8] {
        switch self {
        case .primitive(let tag, let content): [tag] + Self.length(content.count) + content
        case .constructed(let tag, let children):
            { content in [tag] + Self.length(content.count) + content }(children.flatMap(\.encoded))
        }
    }

    /// The same with an indefinite length at this level.
    var encodedIndefinite: [UInt8] {
        guard case .constructed(let tag, let children) = self else { return encoded }
        return [tag, 0x80] + children.flatMap(\.encoded) + [0, 0]
    }

    private static func length(_ count: Int) -> [UInt8] {
        if count < 0x80 { return [UInt8(count)] }
        return count < 0x100 ? [0x81, UInt8(count)] : [0x82, UInt8(count >> 8), UInt8(count & 0xFF)]
    }

    var children: [DERTree] {
        get {
            if case .constructed(_, let children) = self { children } else { [] }
        }
        set {
            if case .constructed(let tag, _) = self { self = .constructed(tag: tag, newValue) }
        }
    }

    /// The node at `path`.
    subscript(path: DERPath) -> DERTree {
        get { path.indices.reduce(self) { node, index in node.children[index] } }
        set { self = replacing(path.indices[...], with: newValue) }
    }

    private func replacing(_ path: ArraySlice<Int>, with value: DERTree) -> DERTree {
        guard let index = path.first else { return value }
        var copy = self
        copy.children[index] = children[index].replacing(path.dropFirst(), with: value)
        return copy
    }
}

/// The way to a node of a ``DERTree``: which child at each level.
struct DERPath {
    fileprivate var indices: [Int] = []

    init() {}

    /// The way to that child of the node here.
    subscript(index: Int) -> DERPath {
        var path = self
        path.indices.append(index)
        return path
    }
}
