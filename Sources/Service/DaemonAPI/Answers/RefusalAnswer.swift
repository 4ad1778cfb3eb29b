public import Refusals
import StrictJSON

/// The body of every refusal: `{"code", "message", "details"?, "audit"?}`.
public struct RefusalAnswer: Codable, Sendable, Equatable {
    /// The refusal's code. A string, since a newer daemon may send codes that this program does not know.
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

    /// The body's bytes.
    public var json: [UInt8] {
        JSONWriter.object { json in
            json.member("code", code)
            json.member("message", message)
            json.member("details", details)
            json.member(audit: audit)
        }
    }

    public var refusalCode: RefusalCode? { RefusalCode(rawValue: code) }

    /// The exit status of `paytokenctl`: by the code if it is known, otherwise by the HTTP status.
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

/// The position of an answer's audit record: the member `audit` of answers and refusals.
public struct AuditReference: Codable, Sendable, Equatable {
    /// The node whose chain contains it.
    public let node: String
    /// The record's number, from 1 without gaps.
    public let sequence: Int

    public init(node: String, sequence: Int) {
        self.node = node
        self.sequence = sequence
    }
}

extension AuditReference {
    /// Returns nil for anything but an object with a valid `node` and `sequence`.
    init?(_ json: JSONValue?) {
        guard let object = json?.objectValue, let node = object["node"]?.stringValue,
            let sequence = object["sequence"]?.numberValue.flatMap({ Int($0.text) })
        else { return nil }
        self.init(node: node, sequence: sequence)
    }
}

extension JSONWriter {
    /// Writes the member `audit`; nothing if nothing was recorded.
    mutating func member(audit reference: AuditReference?) {
        guard let reference else { return }
        member("audit") { json in
            json.member("node", reference.node)
            json.member("sequence", reference.sequence)
        }
    }
}
