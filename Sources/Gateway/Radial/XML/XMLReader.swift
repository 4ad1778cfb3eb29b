import CLibxml2

extension XMLElement {
    /// Parses a whole document: XML 1.0 with namespaces, in UTF-8.
    ///
    /// While libxml2 parses, the reader counts elements and their depth. The reader stops libxml2 at
    /// the first error, at the first element over the limit, and at a document type before any of its declarations is
    /// read. So no declaration exists that could be expanded or fetched. libxml2 prints nothing.
    ///
    /// - Throws: ``XMLReadError``, the first fault in the document.
    public init(parsing bytes: [UInt8], limits: XMLLimits = XMLLimits()) throws(XMLReadError) {
        guard !bytes.isEmpty else { throw XMLReadError(.empty) }
        guard bytes.count <= limits.bytes else { throw XMLReadError(.tooLong(limit: limits.bytes)) }
        guard let text = String(validating: bytes, as: UTF8.self), Self.declaresUTF8(text) else {
            throw XMLReadError(.notUTF8)
        }
        // libxml2 would treat a NUL as the end of the document and ignore the rest.
        guard !bytes.contains(0) else { throw XMLReadError(.notWellFormed) }
        if let position = Self.tagWithTooManyAttributes(bytes, limits.attributes) {
            let line = bytes[..<position].count { $0 == UInt8(ascii: "\n") } + 1
            throw XMLReadError(.tooManyAttributes(limit: limits.attributes), line: line)
        }
        self = try XMLReader(limits).read(bytes)
    }

    /// Returns the position at which a tag has more quoted values than the limit. libxml2 compares each attribute of a
    /// tag with every other one before it reports any. Without this limit, a document full of attributes would take
    /// very long to parse.
    ///
    /// The result is exact only up to the point at which libxml2 also stops reading: a fault in well-formedness, a
    /// processing instruction or a document type.
    private static func tagWithTooManyAttributes(_ bytes: [UInt8], _ limit: Int) -> Int? {
        var rest = bytes[...]
        while let start = rest.firstIndex(of: UInt8(ascii: "<")) {
            rest = rest[start...]
            // Text in comments and CDATA sections is never a tag. The end does not overlap the beginning: <!--> and
            // <!---> only begin a comment.
            for (begin, end) in [("<!--", "-->"), ("<![CDATA[", "]]>")] where rest.starts(with: begin.utf8) {
                let inside = rest.dropFirst(begin.utf8.count)
                rest = inside.firstRange(of: Array(end.utf8)).map { inside[$0.upperBound...] } ?? []
            }
            guard rest.first == UInt8(ascii: "<") else { continue }
            var (quote, values): (UInt8?, Int) = (nil, 0)
            var index = rest.startIndex + 1
            while index < rest.endIndex, quote != nil || rest[index] != UInt8(ascii: ">") {
                let byte = rest[index]
                if byte == quote {
                    quote = nil
                    values += 1
                    if values > limit { return index }
                } else if quote == nil, byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                    quote = byte
                }
                index += 1
            }
            rest = rest[index...]
        }
        return nil
    }

    /// Returns true if the XML declaration (§2.8), if there is one, names UTF-8 or no encoding. libxml2 would follow
    /// any other encoding, and UTF-8 bytes would become a different text.
    private static func declaresUTF8(_ text: String) -> Bool {
        let text = text.utf8.starts(with: "\u{FEFF}".utf8) ? text.utf8.dropFirst(3) : text.utf8[...]
        guard text.starts(with: "<?xml".utf8), let end = text.firstIndex(of: UInt8(ascii: ">")) else { return true }
        let parts = text[..<end].split { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "'") }
        // The parts are, for example: `<?xml version=`, `1.0`, `encoding=`, `UTF-8`, `?`.
        for (name, value) in zip(parts, parts.dropFirst()) {
            let name = name.filter { !$0.isXMLWhiteSpace }
            guard name == Array("encoding=".utf8) else { continue }
            return value.map { $0 | 0x20 } == Array("utf-8".utf8)
        }
        return true
    }
}

/// Builds the tree from libxml2's events. This is safe because the parser exists only within ``read(_:)``, and its
/// events end with it.
@safe private final class XMLReader {
    private struct OpenElement {
        let name: String
        let namespace: String?
        let attributes: [XMLAttribute]
        let line: Int
        var children: [XMLElement] = []
        var text: [UInt8] = []
    }

    private let limits: XMLLimits
    private var parser: xmlParserCtxtPtr?
    private var open: [OpenElement] = []
    private var elements = 0
    private var root: XMLElement?
    private var fault: XMLReadError?

    init(_ limits: XMLLimits) { self.limits = limits }

    /// Initialises libxml2's tables once, before any thread parses.
    private static let isReady: Bool = {
        xmlInitParser()
        return true
    }()

    func read(_ bytes: [UInt8]) throws(XMLReadError) -> XMLElement {
        guard Self.isReady, let count = Int32(exactly: bytes.count) else { throw XMLReadError(.notWellFormed) }
        unsafe bytes.withUnsafeBytes { buffer in
            let text = unsafe buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
            // The push parser ends at the first error. xmlParseDocument would continue without events, even through a
            // document type. Stopping it inside an error handler is not safe, since that frees the data that the parser
            // is reading.
            guard let parser = unsafe xmlCreatePushParserCtxt(nil, nil, nil, 0, nil) else { return }
            unsafe self.parser = unsafe parser
            unsafe parser.pointee.sax.pointee = unsafe Self.events
            // The reader outlives the parser, which is freed below.
            unsafe parser.pointee.userData = unsafe Unmanaged.passUnretained(self).toOpaque()
            // No network access. Without XML_PARSE_NOENT, XML_PARSE_DTDLOAD and XML_PARSE_HUGE, libxml2 expands
            // nothing, loads nothing and keeps its limits.
            let options = XML_PARSE_NONET.rawValue | XML_PARSE_NOERROR.rawValue | XML_PARSE_NOWARNING.rawValue
            _ = unsafe xmlCtxtUseOptions(parser, Int32(options))
            _ = unsafe xmlParseChunk(parser, text, count, 1)
            if fault == nil, let error = unsafe xmlCtxtGetLastError(parser), unsafe error.pointee.code != 0 {
                // Warnings count as errors: valid documents cause none of libxml2's warnings, such as those about a
                // version other than 1.0 or a namespace that is not a URI.
                let code = unsafe error.pointee.code
                let line = unsafe Int(error.pointee.line)
                fault = XMLReadError(Self.reason(code), line: line > 0 ? line : nil)
            }
            unsafe xmlFreeParserCtxt(parser)
            unsafe self.parser = nil
        }
        if let fault { throw fault }
        guard let root, open.isEmpty else { throw XMLReadError(.notWellFormed) }
        return root
    }

    private static func reason(_ code: Int32) -> XMLReadError.Reason {
        switch UInt32(bitPattern: code) {
        case XML_ERR_UNDECLARED_ENTITY.rawValue, XML_WAR_UNDECLARED_ENTITY.rawValue: .entity
        case XML_ERR_UNKNOWN_VERSION.rawValue, XML_WAR_UNKNOWN_VERSION.rawValue: .version
        case XML_ERR_UNSUPPORTED_ENCODING.rawValue, XML_ERR_UNKNOWN_ENCODING.rawValue,
            XML_ERR_INVALID_ENCODING.rawValue:
            .notUTF8
        default: .notWellFormed
        }
    }

    private var line: Int { unsafe Int(xmlSAX2GetLineNumber(parser)) }

    private func stop(_ reason: XMLReadError.Reason) {
        if fault == nil { fault = XMLReadError(reason, line: line) }
        unsafe xmlStopParser(parser)
    }

    // MARK: libxml2's events

    private func began(_ element: OpenElement) {
        guard open.count < limits.depth else { return stop(.tooDeep(limit: limits.depth)) }
        elements += 1
        guard elements <= limits.elements else { return stop(.tooManyElements(limit: limits.elements)) }
        open.append(element)
    }

    private func ended() {
        guard fault == nil, let last = open.popLast() else { return }
        let element = XMLElement(
            name: last.name, namespace: last.namespace, attributes: last.attributes, children: last.children,
            text: String(decoding: last.text, as: UTF8.self), line: last.line)
        if open.isEmpty {
            root = element
        } else {
            open[open.count - 1].children.append(element)
        }
    }

    private func append(_ text: UnsafeBufferPointer<xmlChar>) {
        guard fault == nil, !open.isEmpty else { return }
        unsafe open[open.count - 1].text.append(contentsOf: text)
    }

    private static func reader(_ context: UnsafeMutableRawPointer?) -> XMLReader? {
        unsafe context.map { unsafe Unmanaged<XMLReader>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func string(_ text: UnsafePointer<xmlChar>?) -> String? {
        unsafe text.map { unsafe String(cString: $0) }
    }

    /// The functions that libxml2 calls while it parses. Nil functions are skipped: those for comments, and all that
    /// build libxml2's own tree.
    private static var events: xmlSAXHandler {
        var events = unsafe xmlSAXHandler()
        unsafe events.initialized = XML_SAX2_MAGIC
        // Called after the name of a document type was read, but before any of its declarations.
        unsafe events.internalSubset = { context, _, _, _ in unsafe XMLReader.reader(context)?.stop(.documentType) }
        unsafe events.processingInstruction = { context, _, _ in
            unsafe XMLReader.reader(context)?.stop(.processingInstruction)
        }
        unsafe events.reference = { context, _ in unsafe XMLReader.reader(context)?.stop(.entity) }
        unsafe events.characters = { context, text, count in
            unsafe XMLReader.reader(context)?.append(UnsafeBufferPointer(start: text, count: Int(count)))
        }
        unsafe events.ignorableWhitespace = unsafe events.characters
        unsafe events.cdataBlock = unsafe events.characters
        unsafe events.startElementNs = {
            context, name, _, namespace, namespaceCount, _, attributeCount, _, attributes in
            guard let reader = unsafe XMLReader.reader(context) else { return }
            let count = Int(attributeCount)
            guard count + Int(namespaceCount) <= reader.limits.attributes else {
                return reader.stop(.tooManyAttributes(limit: reader.limits.attributes))
            }
            reader.began(
                OpenElement(
                    name: unsafe XMLReader.string(name) ?? "", namespace: unsafe XMLReader.string(namespace),
                    attributes: unsafe XMLReader.attributes(attributes, count), line: reader.line))
        }
        unsafe events.endElementNs = { context, _, _, _ in unsafe XMLReader.reader(context)?.ended() }
        return unsafe events
    }

    /// Reads five pointers for each attribute: local name, prefix, namespace, and the value's first byte and end.
    private static func attributes(
        _ pointers: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?, _ count: Int
    ) -> [XMLAttribute] {
        guard let pointers = unsafe pointers else { return [] }
        return (0..<count).map { index in
            let five = unsafe pointers + 5 * index
            var value: [UInt8] = []
            if let start = unsafe five[3], let end = unsafe five[4] {
                value = unsafe Array(UnsafeBufferPointer(start: start, count: end - start))
            }
            return unsafe XMLAttribute(
                name: string(five[0]) ?? "", namespace: string(five[2]), value: unescapingAmpersands(value))
        }
    }

    /// Replaces `&#38;` by an ampersand. Without XML_PARSE_NOENT, libxml2 passes an ampersand in an attribute's value
    /// in this form, but no other reference.
    private static func unescapingAmpersands(_ value: [UInt8]) -> String {
        let reference = Array("&#38;".utf8)
        var plain: [UInt8] = []
        var position = 0
        while position < value.count {
            plain.append(value[position])
            position += value[position...].starts(with: reference) ? reference.count : 1
        }
        return String(decoding: plain, as: UTF8.self)
    }
}
