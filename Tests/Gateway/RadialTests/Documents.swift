import Radial
import SecretMemory

/// Requests and replies derived from the published examples, each with one change.
enum Documents {
    static let request = Array(PublishedExamples.request.utf8)
    static let reply = Array(PublishedExamples.reply.utf8)

    /// The published request with every `old` replaced.
    static func request(_ old: String, _ new: String) -> [UInt8] {
        precondition(PublishedExamples.request.contains(old), "the example has no such text")
        return Array(PublishedExamples.request.replacing(old, with: new).utf8)
    }

    /// The published request with only the first `old` replaced. The billing party comes first, so this changes it and
    /// not the shipping party.
    static func request(first old: String, _ new: String) -> [UInt8] {
        precondition(PublishedExamples.request.contains(old), "the example has no such text")
        return Array(PublishedExamples.request.replacing(old, with: new, maxReplacements: 1).utf8)
    }

    /// The published request with further elements in its root.
    static func request(with elements: String) -> [UInt8] {
        request("</CreditCardAuthRequest>", elements + "</CreditCardAuthRequest>")
    }

    /// The published reply with every `old` replaced.
    static func reply(_ old: String, _ new: String) -> [UInt8] {
        precondition(PublishedExamples.reply.contains(old), "the example has no such text")
        return Array(PublishedExamples.reply.replacing(old, with: new).utf8)
    }

    /// The first element of that name, with its tags.
    static func element(_ name: String, in document: String) -> String {
        guard let start = document.firstRange(of: "<\(name)>"), let end = document.firstRange(of: "</\(name)>") else {
            preconditionFailure("the example has no such element")
        }
        return String(document[start.lowerBound..<end.upperBound])
    }

    /// The reason for which a request is refused; nil if it is not.
    static func fault(of request: [UInt8]) -> DocumentError? {
        do {
            _ = try CreditCardAuthRequest(parsing: request)
            return nil
        } catch { return error }
    }
}

extension DocumentError {
    /// A copy of the error without its line number, for comparison.
    var somewhere: DocumentError { DocumentError(reason, element) }
}

func secret(_ text: String) -> SecretBytes { SecretBytes(copying: Array(text.utf8)) }

/// Returns the text in secret memory; for tests only.
func text(of secret: borrowing SecretBytes) -> String {
    unsafe secret.withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
}
