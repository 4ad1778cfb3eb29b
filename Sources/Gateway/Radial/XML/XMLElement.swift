/// An element of an XML document that was read within bounds, with what is in it. Comments are gone.
public struct XMLElement: Sendable, Equatable {
    /// Without its prefix.
    public let name: String
    /// The namespace's name, not its prefix; nil where the element is in none.
    public let namespace: String?
    /// In the document's order. Declarations of namespaces are not among them.
    public let attributes: [XMLAttribute]
    public let children: [XMLElement]
    /// The text that stands directly in it, in the document's order, with CDATA sections and without what is in ``children``.
    public let text: String
    /// The line on which its start tag ends, from 1.
    public let line: Int

    /// Whether it has nothing but white space beside its children, no-break spaces too: Radial's page indents its examples by
    /// them, and what is copied from it has them.
    var textIsBlank: Bool {
        text.unicodeScalars.allSatisfy { scalar in
            scalar == "\u{A0}" || scalar.isASCII && UInt8(ascii: scalar).isXMLWhiteSpace
        }
    }
}

/// An attribute of an element.
public struct XMLAttribute: Sendable, Equatable {
    /// Without its prefix.
    public let name: String
    /// Nil for a name without prefix: such attributes are in no namespace (Namespaces in XML 1.0 §6.2).
    public let namespace: String?
    public let value: String
}

extension String {
    /// Whether it has nothing but XML's white space: space, tab, line feed, carriage return (XML 1.0 §2.3).
    var isXMLBlank: Bool { utf8.allSatisfy(\.isXMLWhiteSpace) }

    /// Without XML's white space at its ends.
    var trimmingXMLWhiteSpace: String {
        let bytes = utf8
        guard let first = bytes.firstIndex(where: { !$0.isXMLWhiteSpace }),
            let last = bytes.lastIndex(where: { !$0.isXMLWhiteSpace })
        else { return "" }
        return String(self[first...last])
    }

    /// Without XML's white space anywhere.
    var removingXMLWhiteSpace: String { String(decoding: utf8.filter { !$0.isXMLWhiteSpace }, as: UTF8.self) }
}

extension UInt8 {
    var isXMLWhiteSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0A || self == 0x0D }
}
