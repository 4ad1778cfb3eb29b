/// The reason why one of Radial's documents was refused, and the element at fault. It never contains a value or a name
/// from the document.
public struct DocumentError: Error, Sendable, Equatable {
    public enum Reason: Sendable, Equatable {
        /// The text is not an XML document.
        case notXML(XMLReadError.Reason)
        /// The root element has a name other than the last part of ``DocumentError/element``, or another namespace.
        case otherRoot
        /// A required element or attribute is absent.
        case missing
        /// The element contains only white space, but is required, or must not be empty if present.
        case blank
        /// The element occurs twice.
        case repeated
        /// The element has a child that Radial's documentation does not describe.
        case unknownElement
        /// The element has an attribute that Radial's documentation does not describe.
        case unknownAttribute
        /// The element contains text, but only child elements are permitted.
        case unexpectedText
        /// The element contains child elements, but only text is permitted.
        case unexpectedElements
        /// The text's number of characters is outside this range.
        case length(ClosedRange<Int>)
        case notAnIPv4Address
        /// The text is neither `true` nor `false`.
        case notABoolean
        /// The text is not a list of numbers separated by points, such as `1.2`.
        case notASchemaVersion
        /// The text is not base64 (RFC 4648 §4).
        case notBase64
        /// The text is not base64 of this many bytes.
        case notBase64OfBytes(Int)
        /// The text is not this many hexadecimal digits.
        case notHexadecimal(digits: Int)
        /// The payment token is encrypted for an RSA key: it has a wrappedKey, for which Radial's documents have no
        /// element.
        case formatWithoutElements
        /// The payment token's format is unknown.
        case unknownFormat
        /// The text is not a decimal in the amount's currency.
        case notAnAmount
        /// The text is not three letters of ISO 4217.
        case notACurrency
        /// `isToken` is not `true`, or it is `true` and the text nevertheless has the form of a card number. The error
        /// does not contain the text.
        case accountNumberNotTokenized
    }

    public let reason: Reason
    /// The element's path from the root, such as `CreditCardAuthRequest/BillingAddress/City`; an attribute's name
    /// follows an `@`. For an unknown element or attribute, the path of its parent.
    public let element: String
    /// The line in the document, from 1; nil if the element is absent.
    public let line: Int?

    public init(_ reason: Reason, _ element: String, line: Int? = nil) {
        self.reason = reason
        self.element = element
        self.line = line
    }
}

extension DocumentError: CustomStringConvertible {
    /// One sentence for display.
    public var description: String {
        let place = line.map { " (line \($0))" } ?? ""
        return "\(element)\(place): \(reason)"
    }
}

extension DocumentError.Reason: CustomStringConvertible {
    public var description: String {
        switch self {
        case .notXML(let reason): XMLReadError(reason).description
        case .otherRoot: "the document is not this element in the namespace \(radialNamespace)"
        case .missing: "is required but missing"
        case .blank: "is empty or blank; leave it out if it is optional"
        case .repeated: "occurs more than once"
        case .unknownElement: "has an unknown element"
        case .unknownAttribute: "has an unknown attribute"
        case .unexpectedText: "has text, but may have elements only"
        case .unexpectedElements: "has elements, but may have text only"
        case .length(let range): "must have \(range.lowerBound) to \(range.upperBound) characters"
        case .notAnIPv4Address: "must be a dotted quad, such as 192.0.2.1"
        case .notABoolean: "must be true or false"
        case .notASchemaVersion: "must be numbers with points between them, such as 1.2"
        case .notBase64: "must be base64"
        case .notBase64OfBytes(let count): "must be base64 of \(count) bytes"
        case .notHexadecimal(let digits): "must be \(digits) hexadecimal digits"
        case .formatWithoutElements:
            "must be EC_v1: a payment token for an RSA key has a wrappedKey, for which this document has no element"
        case .unknownFormat: "must be EC_v1"
        case .notAnAmount: "must be a decimal with no more decimals than its currency has"
        case .notACurrency: "must be three capital letters of ISO 4217"
        case .accountNumberNotTokenized:
            "has an account number where a token must be, or isToken is not true; it was not kept"
        }
    }
}
