internal import Encodings

/// What a caller gets instead of a reply: Radial's Fault document (Checkout-Service-Fault-1.0.xsd) with CreateTimestamp, Code and
/// Description, and, where the schema leaves room for more, Element.
public struct ErrorReply: Sendable, Equatable {
    /// A code of the gateway's, such as `malformed_request`.
    public var code: String
    /// One sentence for a person.
    public var message: String
    /// The path of the element that is wrong, if it is one.
    public var element: String?

    public init(code: String, message: String, element: String? = nil) {
        (self.code, self.message, self.element) = (code, message, element)
    }

    /// That a request is wrong.
    public init(code: String, _ error: DocumentError) {
        self.init(code: code, message: error.description, element: error.element)
    }

    public func document(millisecondsSince1970 time: Int) -> [UInt8] {
        var xml = XMLWriter()
        xml.begin("Fault", ["xmlns": radialNamespace])
        xml.element("CreateTimestamp", RFC3339.string(millisecondsSince1970: time))
        xml.element("Code", code)
        xml.element("Description", message)
        xml.element("Element", ifPresent: element)
        return xml.finishWithoutSecrets()
    }
}

/// What Radial answers to an authorization.
public enum RadialReply: Sendable, Equatable {
    case reply(CreditCardAuthReply)
    /// A Fault document: the request was not processed, or a time-out occurred.
    case fault(ProcessorFault)

    /// Reads either document. Elements and attributes that are not known are passed over, as the schema's `xsd:any` asks for.
    ///
    /// - Throws: ``DocumentError``, for ``DocumentError/Reason/accountNumberNotTokenized`` too.
    public init(parsing bytes: [UInt8], limits: XMLLimits = XMLLimits()) throws(DocumentError) {
        let root = try ElementFields.document(bytes, CreditCardAuthReply.name, limits)
        switch (root.name, root.namespace) {
        case (CreditCardAuthReply.name, radialNamespace): self = .reply(try CreditCardAuthReply(root))
        case ("Fault", radialNamespace): self = .fault(try ProcessorFault(root))
        default: throw DocumentError(.otherRoot, CreditCardAuthReply.name, line: root.line)
        }
    }
}

/// A Fault of Radial's. Its description is not kept: it may repeat what was sent.
public struct ProcessorFault: Sendable, Equatable {
    /// Such as `PanFailsLuhnCheckException`: at most 64 letters, none else, so that no number hides in it. Nil for any other.
    public let code: String?

    init(_ root: XMLElement) throws(DocumentError) {
        let fields = try ElementFields(root, path: "Fault", children: ["Code"], unknown: .passedOver)
        let code = try fields.text("Code", atMost: 256)?.trimmingXMLWhiteSpace ?? ""
        let letters = code.utf8.allSatisfy { (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) }
        self.code = letters && (1...64).contains(code.utf8.count) ? code : nil
    }
}
