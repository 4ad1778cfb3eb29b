import Encodings
public import Foundation
public import Refusals

/// The body of `POST /v1/keys/{hex}/state`.
public struct KeyStateRequest: Codable, Sendable, Equatable {
    /// A state's name, SP 800-57 part 1 §7: `active` (resume), `suspended`, `deactivated` (retire), `compromised` or
    /// `destroyed`.
    public var to: String
    /// At most 200 printable characters; recorded.
    public var reason: String
    /// Until when a deactivated key still decrypts; without it, it does not.
    public var cutOff: Date?

    public init(to: String, reason: String, cutOff: Date? = nil) {
        self.to = to
        self.reason = reason
        self.cutOff = cutOff
    }

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["to", "reason", "cutOff"])
        to = try body.requiredString("to")
        reason = try body.reason()
        cutOff = nil
        if let text = try body.string("cutOff") {
            guard let date = RFC3339.date(text) else { throw RequestBody.wrongType("cutOff", "an RFC 3339 time") }
            cutOff = date
        }
    }
}

/// The body of `POST /v1/keys/{hex}/adopt`.
public struct KeyAdoptRequest: Codable, Sendable, Equatable {
    public var reason: String

    public init(reason: String) {
        self.reason = reason
    }

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        reason = try RequestBody(parsing: body, known: ["reason"]).reason()
    }
}

/// The body of `POST /v1/approvals/{id}`.
public struct ApprovalDecisionRequest: Codable, Sendable, Equatable {
    /// `approve`, `reject` or `withdraw`.
    public var decision: String
    public var reason: String?

    public init(decision: String, reason: String? = nil) {
        self.decision = decision
        self.reason = reason
    }

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["decision", "reason"])
        decision = try body.requiredString("decision")
        reason = body.members["reason"] == nil ? nil : try body.reason()
    }
}

extension RequestBody {
    /// `reason`: 1 to 200 characters.
    func reason() throws(Refusal) -> String {
        let reason = try requiredString("reason")
        guard (1...200).contains(reason.unicodeScalars.count) else {
            throw Refusal(.malformedRequest, "reason must have 1 to 200 characters.", details: "reason")
        }
        return reason
    }
}
