/// An element of an XML document that was read within limits, with its content. Comments are left out.
public struct XMLElement: Sendable, Equatable {
    /// The name without its prefix.
    public let name: String
    /// The namespace's name, not its prefix; nil if the element is in none.
    public let namespace: String?
    /// The attributes in the document's order, without declarations of namespaces.
    public let attributes: [XMLAttribute]
    public let children: [XMLElement]
    /// The element's own text, in the document's order, with CDATA sections and without the text of its ``children``.
    public let text: String
    /// The line on which its start tag ends, from 1.
    public let line: Int

    /// Returns true if the element has only white space apart from its children. No-break spaces count: Radial's page
    /// indents its examples with them, and a copy of an example contains them.
    var textIsBlank: Bool {
        text.unicodeScalars.allSatisfy { scalar in
            scalar == "\u{A0}" || scalar.isASCII && UInt8(ascii: scalar).isXMLWhiteSpace
        }
    }
}

/// An attribute of an element.
public struct XMLAttribute: Sendable, Equatable {
    /// The name without its prefix.
    public let name: String
    /// The namespace; nil for a name without prefix, since such attributes are in no namespace (Namespaces in XML 1.0
    /// §6.2).
    public let namespace: String?
    public let value: String
}

extension String {
    /// Returns true if the text is only XML's white space: space, tab, line feed, carriage return (XML 1.0 §2.3).
    var isXMLBlank: Bool { utf8.allSatisfy(\.isXMLWhiteSpace) }

    /// The text without XML's white space at its ends.
    var trimmingXMLWhiteSpace: String {
        let bytes = utf8
        guard let first = bytes.firstIndex(where: { !$0.isXMLWhiteSpace }),
            let last = bytes.lastIndex(where: { !$0.isXMLWhiteSpace })
        else { return "" }
        return String(self[first...last])
    }

    /// The text without XML's white space anywhere.
    var removingXMLWhiteSpace: String { String(decoding: utf8.filter { !$0.isXMLWhiteSpace }, as: UTF8.self) }
}

extension UInt8 {
    var isXMLWhiteSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0A || self == 0x0D }
}
