package import DaemonAPI
package import HTTPListener
package import Refusals

/// A refusal on its way to the caller: paytokend's ``Refusal``, or another program's own with further codes.
package protocol ServerRefusal: Error, Sendable {
    /// The `code` member of the answer, and the `outcome` of metrics and logs: public contract.
    var outcome: String { get }
    /// One sentence for a person.
    var message: String { get }
    var details: String? { get }
    /// Returns true for a defect of this program, which is logged as an error.
    var isDefect: Bool { get }

    /// One with a code that all programs have.
    init(_ refusal: Refusal)

    /// The one place where the program's refusals become answers.
    func answer(as form: DocumentForm) -> HTTPAnswer
}

/// The form of a request's body and of its refusals.
package enum DocumentForm: Sendable {
    case json
    case xml

    /// Media types of a body.
    var mediaTypes: [String] {
        switch self {
        case .json: ["application/json"]
        case .xml: ["text/xml", "application/xml"]
        }
    }

    var name: String {
        switch self {
        case .json: "JSON"
        case .xml: "XML"
        }
    }
}

extension Refusal: ServerRefusal {
    package var outcome: String { code.rawValue }
    package var isDefect: Bool { code == .internalError }

    package init(_ refusal: Refusal) { self = refusal }

    /// The code of what the listener itself refuses.
    package init(_ condition: HTTPCondition) {
        let code: RefusalCode =
            switch condition.kind {
            case .malformed: .malformedRequest
            case .timeout: .requestTimeout
            case .tooLarge: .requestTooLarge
            case .tooManyConnections: .overloaded
            }
        self.init(code, condition.message)
    }

    package func answer(as form: DocumentForm) -> HTTPAnswer { HTTPAnswer(refusal: self) }
}

extension HTTPAnswer {
    /// paytokend's answer.
    ///
    /// - Parameter audit: the refusal's own record, where it was recorded.
    package init(refusal: Refusal, audit: AuditReference? = nil) {
        let row = ErrorTable.row(for: refusal.code)
        self.init(
            refusing: RefusalAnswer(refusal, audit: audit).json, status: row.status,
            headers: [Header(name: "Content-Type", value: "application/json")],
            retryAfter: refusal.retryAfter ?? row.retryAfter)
    }

    /// The answer of any refusal.
    ///
    /// - Parameter retryAfter: seconds for the Retry-After header.
    package init(refusing body: [UInt8], status: Int, headers: [Header], retryAfter: Int?) {
        let again = retryAfter.map { [Header(name: "Retry-After", value: String($0))] } ?? []
        // After 408 and 413 the rest of the request may still be on its way, and would be read as the next one. An unknown
        // caller keeps no connection.
        self.init(status: status, headers: headers + again, body: body, closes: [401, 408, 413].contains(status))
    }
}
