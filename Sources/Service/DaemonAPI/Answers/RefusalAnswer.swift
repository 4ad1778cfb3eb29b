public import Refusals
import StrictJSON

/// The body of every answer that says no: `{"code", "message", "details"?, "audit"?}`.
public struct RefusalAnswer: Codable, Sendable, Equatable {
    /// As the daemon wrote it: a newer daemon may know codes that this program does not.
    public let code: String
    /// One sentence for a person.
    public let message: String
    public let details: String?
    /// The refusal's record, where it was recorded.
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

    /// What `paytokenctl` exits with: by the code where it is known, else by the HTTP status.
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

/// Where an answer's record stands: the member `audit` of answers and refusals.
public struct AuditReference: Codable, Sendable, Equatable {
    /// Whose chain it is in.
    public let node: String
    /// From 1, without gaps.
    public let sequence: Int

    public init(node: String, sequence: Int) {
        self.node = node
        self.sequence = sequence
    }
}

extension AuditReference {
    /// Nil for anything else.
    init?(_ json: JSONValue?) {
        guard let object = json?.objectValue, let node = object["node"]?.stringValue,
            let sequence = object["sequence"]?.numberValue.flatMap({ Int($0.text) })
        else { return nil }
        self.init(node: node, sequence: sequence)
    }
}

extension JSONWriter {
    /// Writes the member `audit`, or nothing where nothing was recorded.
    mutating func member(audit reference: AuditReference?) {
        guard let reference else { return }
        member("audit") { json in
            json.member("node", reference.node)
            json.member("sequence", reference.sequence)
        }
    }
}
