import DaemonAPI
import Foundation
import HTTPListener
import Radial
import Refusals
import StrictJSON

/// Why a request of a merchant's backend is not answered with what it asked for: PaymentError of the merchant server's API.
///
/// Both texts are shown to the caller and logged: fixed sentences, names of members, sizes and times; nothing of a body, no
/// key, no header's value.
struct GatewayRefusal: Error, Sendable, Equatable {
    let code: GatewayCode
    /// One sentence for a person.
    let message: String
    /// What narrows it down, where that gives nothing away.
    let details: String?
    /// Seconds for the Retry-After header, where this refusal knows better than the table of codes.
    let retryAfter: Int?
    /// Of an XML document: the path of the element that is wrong.
    var element: String?

    init(_ code: GatewayCode, _ message: String, details: String? = nil, retryAfter: Int? = nil) {
        self.code = code
        self.message = message
        self.details = details
        self.retryAfter = retryAfter
    }

    /// One that the listener made, or paytokend: its code passes through.
    init(_ refusal: Refusal) {
        self.init(
            .daemon(refusal.code), refusal.message, details: refusal.details, retryAfter: refusal.retryAfter)
    }

    /// For what cannot happen unless this program is wrong. The caller learns only that.
    static let defect = GatewayRefusal(.daemon(.internalError), "The gateway has a defect; its log says more.")
}

/// The closed set of codes with which the gateway says no: its own, and those that it shares with paytokend.
///
/// The raw value is the `code` member of an answer and the `outcome` of metrics: public contract.
enum GatewayCode: Sendable, Hashable, CaseIterable {
    /// paytokend's, with paytokend's meaning.
    case daemon(RefusalCode)
    /// Neither a known bearer key nor a known client certificate.
    case unauthorized
    /// More requests or connections than one client may have.
    case rateLimited

    /// Of merchant sessions.
    case session(SessionCode)
    /// Of payments.
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

    /// The one table from code to HTTP status (RFC 9110 §15) and, where another try makes sense, seconds for Retry-After.
    ///
    /// The switch is closed on purpose: a new code does not compile until somebody has decided its row.
    var row: (status: Int, retryAfter: Int?) {
        switch self {
        case .daemon(let code):
            let row = ErrorTable.row(for: code)
            return (row.status, row.retryAfter)
        case .unauthorized: return (401, nil)
        case .rateLimited: return (429, 1)
        case .session(let code): return code.row
        case .payment(let code): return code.row
        }
    }
}

extension HTTPAnswer {
    /// The one place where a refusal becomes an answer.
    init(_ refusal: GatewayRefusal, as form: DocumentForm = .json) {
        let row = refusal.code.row
        let body: [UInt8]
        var headers: [Header]
        switch form {
        case .json: (body, headers) = (refusal.json, [Header(name: "Content-Type", value: "application/json")])
        case .xml: (body, headers) = (refusal.xml(at: Date()), [Header(name: "Content-Type", value: "text/xml")])
        }
        headers.append(Header(name: "Cache-Control", value: "no-store"))
        if let seconds = refusal.retryAfter ?? row.retryAfter {
            headers.append(Header(name: "Retry-After", value: String(seconds)))
        }
        if row.status == 401 {
            // RFC 9110 §15.5.2, RFC 6750 §3.
            headers.append(Header(name: "WWW-Authenticate", value: "Bearer realm=\"paytoken-gateway\""))
        }
        // After 408 and 413 the rest of the request may still be on its way, and would be read as the next one. Nobody who is
        // not known keeps a connection.
        let closes = [401, 408, 413].contains(row.status)
        self.init(status: row.status, headers: headers, body: body, closes: closes)
    }

    /// - Parameter methods: which the path knows; a 405 names them (RFC 9110 §15.5.6).
    init(_ refusal: GatewayRefusal, knowing methods: [String], as form: DocumentForm = .json) {
        self.init(refusal, as: form)
        if refusal.code == .daemon(.methodNotAllowed) {
            headers.append(Header(name: "Allow", value: methods.sorted().joined(separator: ", ")))
        }
    }
}

extension RequestHead {
    /// What holds for every path of both routers.
    func requirePlain(takesBody: Bool, form: DocumentForm = .json) throws(GatewayRefusal) {
        guard query.isEmpty else {
            throw GatewayRefusal(.daemon(.malformedRequest), "This path takes no query; leave it out.")
        }
        if takesBody, !form.mediaTypes.contains(contentType ?? "") {
            throw GatewayRefusal(
                .daemon(.unsupportedMediaType),
                "The body must be \(form.name), with the header Content-Type: \(form.mediaTypes.joined(separator: " or "))."
            )
        }
    }
}

extension GatewayRefusal {
    static func methodNotAllowed(of methods: [String]) -> GatewayRefusal {
        GatewayRefusal(
            .daemon(.methodNotAllowed), "This path does not know this method.",
            details: "it knows \(methods.sorted().joined(separator: ", "))")
    }
}

extension GatewayRefusal {
    /// `{"code":"…","message":"…","details":"…"}`
    var json: [UInt8] {
        var writer = JSONWriter(capacity: 256)
        writer.beginObject()
        writer.member("code", code.rawValue)
        writer.member("message", message)
        if let details { writer.member("details", details) }
        writer.endObject()
        return writer.bytes
    }

    /// Radial's Fault, with `details` behind the sentence.
    func xml(at time: Date) -> [UInt8] {
        let description = details.map { "\(message) (\($0))" } ?? message
        return ErrorReply(code: code.rawValue, message: description, element: element)
            .document(millisecondsSince1970: Int(time.timeIntervalSince1970 * 1000))
    }
}
