import DaemonAPI
import Foundation
import HTTPListener
import Radial
import Refusals
import ServerProgram
import StrictJSON

/// The reason why a backend's request is refused: PaymentError of the merchant server's API.
///
/// The caller receives `message` and `details`, and the log contains them. Both consist of fixed sentences, names of
/// members, sizes and times. Neither contains a part of a body, a key or a header value.
struct GatewayRefusal: Error, Sendable, Equatable {
    let code: GatewayCode
    /// One sentence for display.
    let message: String
    /// A more precise reason; nil if there is none that the caller may know.
    let details: String?
    /// The seconds for the Retry-After header, if this refusal has a more precise value than the table of codes.
    let retryAfter: Int?
    /// The path of the faulty element of an XML document.
    var element: String?
    /// True if the connection ends with the refusal, so that a flooding client cannot immediately continue on it.
    var endsConnection = false

    init(_ code: GatewayCode, _ message: String, details: String? = nil, retryAfter: Int? = nil) {
        self.code = code
        self.message = message
        self.details = details
        self.retryAfter = retryAfter
    }

    /// Converts a refusal by the listener or by paytokend, keeping its code.
    init(_ refusal: Refusal) {
        self.init(
            .daemon(refusal.code), refusal.message, details: refusal.details, retryAfter: refusal.retryAfter)
    }

    /// The refusal for a case that only a defect of this program can cause. The caller learns nothing more.
    static let defect = GatewayRefusal(.daemon(.internalError), "The gateway has a defect; its log says more.")
}

/// The closed set of the gateway's refusal codes: its own, and those that it shares with paytokend.
///
/// The raw value is the `code` member of a response and the `outcome` in metrics. It is part of the public contract.
enum GatewayCode: Sendable, Hashable, CaseIterable {
    /// A code that paytokend's responses also use, with the same meaning.
    case daemon(RefusalCode)
    /// The request has neither a known bearer key nor a known client certificate.
    case unauthorized
    /// The client has exceeded its limit of requests or connections.
    case rateLimited

    /// A code of merchant sessions.
    case session(SessionCode)
    /// A code of payments.
    case payment(PaymentCode)

    static let allCases: [GatewayCode] =
        [.unauthorized, .rateLimited] + RefusalCode.allCases.map(Self.daemon) + SessionCode.allCases.map(Self.session)
        + PaymentCode.allCases.map(Self.payment)

    var rawValue: String {
        switch self {
        case .daemon(let code): code.rawValue
        case .unauthorized: "unauthorized"
        case .rateLimited: "rate_limited"
        case .session(let code): code.rawValue
        case .payment(let code): code.rawValue
        }
    }

    /// The only table from codes to HTTP statuses (RFC 9110 §15) and, if another attempt makes sense, the seconds for
    /// Retry-After.
    ///
    /// The switch has no default, so that a new code does not compile without a row.
    var statusAndRetryAfter: (status: Int, retryAfter: Int?) {
        switch self {
        case .daemon(let code):
            let row = ErrorTable.row(for: code)
            return (row.status, row.retryAfter)
        case .unauthorized: return (401, nil)
        case .rateLimited: return (429, 1)
        case .session(let code): return code.statusAndRetryAfter
        case .payment(let code): return code.statusAndRetryAfter
        }
    }
}

extension GatewayRefusal: ServerRefusal {
    var outcome: String { code.rawValue }
    var isDefect: Bool { code == .daemon(.internalError) }

    func answer(as form: DocumentForm) -> HTTPAnswer {
        let row = code.statusAndRetryAfter
        let (body, type) =
            switch form {
            case .json: (json, "application/json")
            case .xml: (xml(at: Date()), "text/xml")
            }
        var answer = HTTPAnswer(
            refusing: body, status: row.status,
            headers: [.init(name: "Content-Type", value: type), .init(name: "Cache-Control", value: "no-store")],
            retryAfter: retryAfter ?? row.retryAfter)
        if row.status == 401 {
            // A 401 response must name the authentication scheme (RFC 9110 §15.5.2, RFC 6750 §3).
            answer.headers.append(.init(name: "WWW-Authenticate", value: "Bearer realm=\"paytoken-gateway\""))
        }
        if endsConnection { answer.closes = true }
        return answer
    }

    /// The JSON document, `{"code":"…","message":"…","details":"…"}`.
    private var json: [UInt8] {
        JSONWriter.object { json in
            json.member("code", outcome)
            json.member("message", message)
            json.member("details", details)
        }
    }

    /// Radial's Fault document, in which `details` follow `message`.
    private func xml(at time: Date) -> [UInt8] {
        let description = details.map { "\(message) (\($0))" } ?? message
        return ErrorReply(code: outcome, message: description, element: element)
            .document(millisecondsSince1970: Int(time.timeIntervalSince1970 * 1000))
    }
}

extension RequestHead {
    /// Refuses a request with a query. No path on either socket accepts a query.
    func requireNoQuery() throws(GatewayRefusal) {
        guard query.isEmpty else {
            throw GatewayRefusal(.daemon(.malformedRequest), "This path takes no query; leave it out.")
        }
    }
}
