package import DaemonAPI
package import HTTPListener
package import Refusals

/// A refusal for the caller: paytokend's ``Refusal``, or another program's type with further codes.
package protocol ServerRefusal: Error, Sendable {
    /// The `code` member of the answer, and the `outcome` in metrics and logs. It is part of the public contract.
    var outcome: String { get }
    /// One sentence for a person.
    var message: String { get }
    var details: String? { get }
    /// Returns true for a defect of this program, which is logged as an error.
    var isDefect: Bool { get }

    /// Creates a refusal with a code that all programs have.
    init(_ refusal: Refusal)

    /// The only place that turns the program's refusals into answers.
    func answer(as form: DocumentForm) -> HTTPAnswer
}

/// The form of a request's body and of its refusals.
package enum DocumentForm: Sendable {
    case json
    case xml

    /// The media types of a body in this form.
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

    /// Creates the refusal of a condition that the listener itself detects.
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
    /// Creates paytokend's answer.
    ///
    /// - Parameter audit: the refusal's audit record; nil if it was not recorded.
    package init(refusal: Refusal, audit: AuditReference? = nil) {
        let row = ErrorTable.row(for: refusal.code)
        self.init(
            refusing: RefusalAnswer(refusal, audit: audit).json, status: row.status,
            headers: [Header(name: "Content-Type", value: "application/json")],
            retryAfter: refusal.retryAfter ?? row.retryAfter)
    }

    /// Creates the answer of any refusal.
    ///
    /// - Parameter retryAfter: seconds for the Retry-After header.
    package init(refusing body: [UInt8], status: Int, headers: [Header], retryAfter: Int?) {
        let again = retryAfter.map { [Header(name: "Retry-After", value: String($0))] } ?? []
        // After 408 and 413 the rest of the request may still arrive, and would be read as the next one. An unknown caller
        // (401) keeps no connection.
        self.init(status: status, headers: headers + again, body: body, closes: [401, 408, 413].contains(status))
    }
}
