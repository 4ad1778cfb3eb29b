internal import Encodings

/// Radial's Fault document (Checkout-Service-Fault-1.0.xsd), which a caller receives instead of a reply. It contains
/// CreateTimestamp, Code and Description. If one element is at fault, it also contains Element, which the schema
/// permits.
public struct ErrorReply: Sendable, Equatable {
    /// A code of the gateway, such as `malformed_request`.
    public var code: String
    /// One sentence for display.
    public var message: String
    /// The path of the faulty element, if there is one.
    public var element: String?

    public init(code: String, message: String, element: String? = nil) {
        (self.code, self.message, self.element) = (code, message, element)
    }

    /// Makes the response to an invalid request.
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

/// Radial's response to an authorization.
public enum RadialReply: Sendable, Equatable {
    case reply(CreditCardAuthReply)
    /// A Fault document: the request was not processed, or a time-out occurred.
    case fault(ProcessorFault)

    /// Parses a CreditCardAuthReply or a Fault document. Unknown elements and attributes are skipped, as the schema's
    /// `xsd:any` requires.
    ///
    /// - Throws: ``DocumentError``, including for ``DocumentError/Reason/accountNumberNotTokenized``.
    public init(parsing bytes: [UInt8], limits: XMLLimits = XMLLimits()) throws(DocumentError) {
        let root = try ElementFields.document(bytes, CreditCardAuthReply.name, limits)
        switch (root.name, root.namespace) {
        case (CreditCardAuthReply.name, radialNamespace): self = .reply(try CreditCardAuthReply(root))
        case ("Fault", radialNamespace): self = .fault(try ProcessorFault(root))
        default: throw DocumentError(.otherRoot, CreditCardAuthReply.name, line: root.line)
        }
    }
}

/// A Fault from Radial. Its description is not kept, since it may repeat parts of the request.
public struct ProcessorFault: Sendable, Equatable {
    /// A code such as `PanFailsLuhnCheckException`: at most 64 letters and nothing else, so that it cannot contain a
    /// number. Nil for any other text.
    public let code: String?

    init(_ root: XMLElement) throws(DocumentError) {
        let fields = try ElementFields(root, path: "Fault", children: ["Code"], unknown: .skipped)
        let code = try fields.text("Code", atMost: 256)?.trimmingXMLWhiteSpace ?? ""
        let letters = code.utf8.allSatisfy { (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) }
        self.code = letters && (1...64).contains(code.utf8.count) ? code : nil
    }
}
