/// The content of an element with a known set of children, each at most once, in any order, and all in Radial's
/// namespace.
///
/// Any order is accepted, although the published schema has a sequence: that schema is older than
/// WalletPaymentInformation, SchemaVersion and Features, and their position in the sequence is not published anywhere.
/// As each name occurs once, the order has no meaning.
struct ElementFields {
    /// The element's path from the document's root, for errors.
    let path: String
    private let element: XMLElement
    private let children: [String: XMLElement]
    private let unknown: Unknown

    /// The handling of unknown elements and attributes.
    enum Unknown {
        case refused
        /// Unknown elements and attributes are skipped. This is for a service's response, whose schema permits elements
        /// that it does not list (`xsd:any`).
        case skipped
    }

    init(
        _ element: XMLElement, path: String, children names: Set<String>, attributes: Set<String> = [],
        unknown: Unknown
    ) throws(DocumentError) {
        self.path = path
        self.element = element
        var children: [String: XMLElement] = [:]
        for child in element.children {
            guard names.contains(child.name), child.namespace == radialNamespace else {
                if unknown == .skipped { continue }
                throw DocumentError(.unknownElement, path, line: child.line)
            }
            guard children.updateValue(child, forKey: child.name) == nil else {
                throw DocumentError(.repeated, "\(path)/\(child.name)", line: child.line)
            }
        }
        if unknown == .refused {
            try Self.checkAttributes(of: element, path, attributes)
            guard element.textIsBlank else { throw DocumentError(.unexpectedText, path, line: element.line) }
        }
        self.children = children
        self.unknown = unknown
    }

    /// Returns the root of a document after checking its name.
    static func root(
        _ bytes: [UInt8], _ name: String, limits: XMLLimits
    ) throws(DocumentError) -> XMLElement {
        let root = try document(bytes, name, limits)
        guard root.name == name, root.namespace == radialNamespace else {
            throw DocumentError(.otherRoot, name, line: root.line)
        }
        return root
    }

    /// Parses a document of any root and returns the root element.
    ///
    /// - Parameter name: the element to name in errors.
    static func document(_ bytes: [UInt8], _ name: String, _ limits: XMLLimits) throws(DocumentError) -> XMLElement {
        do {
            return try XMLElement(parsing: bytes, limits: limits)
        } catch {
            throw DocumentError(.notXML(error.reason), name, line: error.line)
        }
    }

    func path(_ name: String) -> String { "\(path)/\(name)" }

    /// Returns the child element of this name; nil if there is none.
    func element(_ name: String) -> XMLElement? { children[name] }

    func required(_ name: String) throws(DocumentError) -> XMLElement {
        guard let child = children[name] else { throw DocumentError(.missing, path(name), line: element.line) }
        return child
    }

    func fault(_ reason: DocumentError.Reason, _ name: String) -> DocumentError {
        DocumentError(reason, path(name), line: children[name]?.line ?? element.line)
    }

    /// Returns an element's text unchanged (xsd:string keeps white space), or nil if there is no such element.
    func text(
        _ name: String, atMost most: Int, attributes: Set<String> = []
    ) throws(DocumentError) -> String? {
        guard let child = children[name] else { return nil }
        guard child.children.isEmpty else { throw fault(.unexpectedElements, name) }
        if unknown == .refused { try Self.checkAttributes(of: child, path(name), attributes) }
        // XML Schema counts characters as Unicode code points (xsd:string, length).
        guard child.text.unicodeScalars.count <= most else { throw fault(.length(0...most), name) }
        return child.text
    }

    /// Returns the text of an element that must be present and not blank.
    func requiredText(_ name: String, _ length: ClosedRange<Int>) throws(DocumentError) -> String {
        _ = try required(name)
        guard let text = try nonblankText(name, length) else { throw fault(.missing, name) }
        return text
    }

    /// Returns the text of an element that may be omitted, but must not be blank if present.
    func nonblankText(_ name: String, _ length: ClosedRange<Int>) throws(DocumentError) -> String? {
        guard let text = try text(name, atMost: .max) else { return nil }
        guard !text.isXMLBlank else { throw fault(.blank, name) }
        guard length.contains(text.unicodeScalars.count) else { throw fault(.length(length), name) }
        return text
    }

    /// Returns `true` or `false`, or nil if there is no such element.
    func boolean(_ name: String) throws(DocumentError) -> Bool? {
        guard let text = try text(name, atMost: .max) else { return nil }
        switch text.trimmingXMLWhiteSpace {
        case "true": return true
        case "false": return false
        default: throw fault(.notABoolean, name)
        }
    }

    /// Returns an attribute without a namespace, of this element or of its child `name`.
    func attribute(_ attribute: String, of name: String? = nil) -> String? {
        let element = name.map { children[$0] } ?? element
        return element?.attributes.first { $0.name == attribute && $0.namespace == nil }?.value
    }

    /// Checks attributes. A schema location hint (XML Schema Part 1 §2.6.3) is permitted on every element and skipped.
    private static func checkAttributes(
        of element: XMLElement, _ path: String, _ names: Set<String>
    ) throws(DocumentError) {
        for attribute in element.attributes {
            if attribute.namespace == nil, names.contains(attribute.name) { continue }
            if attribute.namespace == "http://www.w3.org/2001/XMLSchema-instance",
                attribute.name == "schemaLocation" || attribute.name == "noNamespaceSchemaLocation"
            {
                continue
            }
            throw DocumentError(.unknownAttribute, path, line: element.line)
        }
    }
}
