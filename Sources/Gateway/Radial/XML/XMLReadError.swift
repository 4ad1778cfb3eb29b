/// The reason why a text was refused as an XML document. It never contains any part of the text.
public struct XMLReadError: Error, Sendable, Equatable {
    public enum Reason: Sendable, Equatable {
        /// The document is empty.
        case empty
        /// The document has more bytes than the limit.
        case tooLong(limit: Int)
        /// The document is not UTF-8, or declares another encoding.
        case notUTF8
        /// The document declares an XML version other than 1.0.
        case version
        /// The document has a document type (`<!DOCTYPE`), which can declare entities. None of Radial's documents needs
        /// one.
        case documentType
        /// An entity other than the five of XML 1.0 §4.6.
        case entity
        /// A processing instruction (XML 1.0 §2.6).
        case processingInstruction
        /// Elements are nested more deeply than the limit.
        case tooDeep(limit: Int)
        /// The document has more elements than the limit.
        case tooManyElements(limit: Int)
        /// An element has more attributes and namespace declarations than the limit.
        case tooManyAttributes(limit: Int)
        /// The document is not well-formed according to XML 1.0 or Namespaces in XML 1.0.
        case notWellFormed
    }

    public let reason: Reason
    /// The line, from 1; nil if the fault has no single line.
    public let line: Int?

    init(_ reason: Reason, line: Int? = nil) {
        self.reason = reason
        self.line = line
    }
}

extension XMLReadError: CustomStringConvertible {
    public var description: String {
        let what =
            switch reason {
            case .empty: "the document is empty"
            case .tooLong(let limit): "the document is longer than \(limit) bytes"
            case .notUTF8: "the document is not in UTF-8, or declares another encoding"
            case .version: "the document declares another version than XML 1.0"
            case .documentType: "a document type (<!DOCTYPE) is not accepted"
            case .entity: "entities other than &amp; &lt; &gt; &quot; &apos; are not accepted"
            case .processingInstruction: "processing instructions are not accepted"
            case .tooDeep(let limit): "more than \(limit) nested elements"
            case .tooManyElements(let limit): "more than \(limit) elements"
            case .tooManyAttributes(let limit): "an element with more than \(limit) attributes"
            case .notWellFormed: "not well-formed XML"
            }
        return line.map { "\(what), line \($0)" } ?? what
    }
}

/// The limits of an XML document.
public struct XMLLimits: Sendable, Equatable {
    /// The document's length in bytes.
    public var bytes: Int
    /// The depth of nested elements, including the root; at most 64.
    public var depth: Int
    /// The number of elements.
    public var elements: Int
    /// The number of attributes of one element, including namespace declarations.
    public var attributes: Int

    /// The defaults fit Radial's documents, which have a depth of 4 and about 40 elements.
    public init(bytes: Int = 128 << 10, depth: Int = 16, elements: Int = 512, attributes: Int = 16) {
        self.bytes = bytes
        // A tree is freed by recursion, so its depth is limited even if the caller asks for more.
        self.depth = min(depth, 64)
        self.elements = elements
        self.attributes = attributes
    }
}
