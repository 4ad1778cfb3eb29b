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
        var json = JSONWriter()
        json.beginObject()
        json.member("code")
        json.string(code)
        json.member("message")
        json.string(message)
        if let details {
            json.member("details")
            json.string(details)
        }
        json.member(audit: audit)
        json.endObject()
        return json.bytes
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
