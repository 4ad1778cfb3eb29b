/// Why one of Radial's documents was not taken: what was wrong, and with which element. Never a value or a name from the document.
public struct DocumentError: Error, Sendable, Equatable {
    public enum Reason: Sendable, Equatable {
        /// Not a document at all.
        case notXML(XMLReadError.Reason)
        /// The root is another element than this one, or in another namespace.
        case otherRoot
        /// A required element or attribute is not there.
        case missing
        /// It is required, or must not be empty if it is there, and has nothing but white space.
        case blank
        /// It is there twice.
        case repeated
        /// It has an element that the documents do not describe.
        case unknownElement
        /// It has an attribute that the documents do not describe.
        case unknownAttribute
        /// It has text where only elements may stand.
        case unexpectedText
        /// It has elements where only text may stand.
        case unexpectedElements
        /// So many characters it has to have, and has not.
        case length(ClosedRange<Int>)
        case notAnIPv4Address
        /// Neither `true` nor `false`.
        case notABoolean
        /// Not numbers with points between them, such as `1.2`.
        case notASchemaVersion
        /// Not base64 (RFC 4648 §4).
        case notBase64
        /// Not base64 of so many bytes.
        case notBase64OfBytes(Int)
        /// Not so many hexadecimal digits.
        case notHexadecimal(digits: Int)
        /// RSA tokens have a wrappedKey, for which there is no element.
        case formatWithoutElements
        /// No format of payment tokens that is known.
        case unknownFormat
        /// No decimal in the amount's currency.
        case notAnAmount
        /// No three letters of ISO 4217.
        case notACurrency
        /// `isToken` is not `true`, or the element has what looks like a card's account number all the same. It is not kept.
        case accountNumberNotTokenized
    }

    public let reason: Reason
    /// The element's path from the root, such as `CreditCardAuthRequest/BillingAddress/City`; an attribute's name stands behind
    /// an `@`. Of what is unknown, the element that it stands in.
    public let element: String
    /// Where it is in the document, from 1; nil where it is nowhere.
    public let line: Int?

    public init(_ reason: Reason, _ element: String, line: Int? = nil) {
        self.reason = reason
        self.element = element
        self.line = line
    }
}

extension DocumentError: CustomStringConvertible {
    /// One sentence for a person.
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
        case .missing: "required, and not there"
        case .blank: "empty or blank; leave it out if it is optional and there is nothing to say"
        case .repeated: "there more than once"
        case .unknownElement: "has an element that is not known there"
        case .unknownAttribute: "has an attribute that is not known there"
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
            "must be EC_v1: a token of an RSA key has a wrappedKey, for which this document has no element"
        case .unknownFormat: "must be EC_v1"
        case .notAnAmount: "must be a decimal with no more decimals than its currency has"
        case .notACurrency: "must be three capital letters of ISO 4217"
        case .accountNumberNotTokenized:
            "has an account number where a token must be, or isToken is not true; it was not kept"
        }
    }
}
