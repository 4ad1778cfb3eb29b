public import Refusals
import StrictJSON

/// The body of every refusal: `{"code", "message", "details"?, "audit"?}`.
public struct RefusalAnswer: Codable, Sendable, Equatable {
    /// The refusal's code. It is a string, because a newer daemon may send a code that ``RefusalCode`` does not have.
    public let code: String
    /// One sentence for a person.
    public let message: String
    public let details: String?
    /// The refusal's audit record; nil if it was not recorded.
    public let audit: AuditReference?

    public init(_ refusal: Refusal, audit: AuditReference? = nil) {
        self.audit = audit
        code = refusal.code.rawValue
        message = refusal.message
        details = refusal.details
    }

    /// The body as JSON.
    public var json: [UInt8] {
        JSONWriter.object { json in
            json.member("code", code)
            json.member("message", message)
            json.member("details", details)
            json.member(audit: audit)
        }
    }

    public var refusalCode: RefusalCode? { RefusalCode(rawValue: code) }

    /// Returns the exit status of `paytokenctl`: from the code if this program knows it, otherwise from the HTTP status.
    public func exitStatus(httpStatus: Int) -> ExitStatus {
        if let refusalCode { return refusalCode.exitStatus }
        return switch httpStatus {
        case 403: .notPermitted
        case 503: .tryAgainLater
        case 500...: .defect
        default: .no
        }
    }
}

/// The position of an audit record in the key-usage record: the member `audit` of answers and refusals.
public struct AuditReference: Codable, Sendable, Equatable {
    /// The name of the node that wrote the audit record.
    public let node: String
    /// The audit record's number in the node's chain, from 1 without gaps.
    public let sequence: Int

    public init(node: String, sequence: Int) {
        self.node = node
        self.sequence = sequence
    }
}

extension AuditReference {
    /// Creates a reference from the member's value; nil unless that is an object with a valid `node` and `sequence`.
    init?(_ json: JSONValue?) {
        guard let object = json?.objectValue, let node = object["node"]?.stringValue,
            let sequence = object["sequence"]?.numberValue.flatMap({ Int($0.text) })
        else { return nil }
        self.init(node: node, sequence: sequence)
    }
}

extension JSONWriter {
    /// Writes the member `audit`; leaves it out if `reference` is nil.
    mutating func member(audit reference: AuditReference?) {
        guard let reference else { return }
        member("audit") { json in
            json.member("node", reference.node)
            json.member("sequence", reference.sequence)
        }
    }
}
