/// An element, with its content, of an XML document that was parsed within limits. Comments are omitted.
public struct XMLElement: Sendable, Equatable {
    /// The name without its prefix.
    public let name: String
    /// The name of the namespace, not its prefix; nil if the element has no namespace.
    public let namespace: String?
    /// The attributes in document order, without namespace declarations.
    public let attributes: [XMLAttribute]
    public let children: [XMLElement]
    /// The element's own text, in document order, including CDATA sections but not the text of its ``children``.
    public let text: String
    /// The line in which its start tag ends, from 1.
    public let line: Int

    /// Returns true if the element contains only white space apart from its children. No-break spaces count as white
    /// space, because Radial's page indents its examples with them, and so copies of an example contain them.
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
    /// The namespace; nil for a name without a prefix, since such attributes have no namespace (Namespaces in XML 1.0
    /// §6.2).
    public let namespace: String?
    public let value: String
}

extension String {
    /// Returns true if the text consists only of XML white space: space, tab, line feed, carriage return (XML 1.0
    /// §2.3).
    var isXMLBlank: Bool { utf8.allSatisfy(\.isXMLWhiteSpace) }

    /// The text without XML white space at either end.
    var trimmingXMLWhiteSpace: String {
        let bytes = utf8
        guard let first = bytes.firstIndex(where: { !$0.isXMLWhiteSpace }),
            let last = bytes.lastIndex(where: { !$0.isXMLWhiteSpace })
        else { return "" }
        return String(self[first...last])
    }

    /// The text without any XML white space.
    var removingXMLWhiteSpace: String { String(decoding: utf8.filter { !$0.isXMLWhiteSpace }, as: UTF8.self) }
}

extension UInt8 {
    var isXMLWhiteSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0A || self == 0x0D }
}
