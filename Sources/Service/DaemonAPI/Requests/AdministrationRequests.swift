public import Refusals

/// The body of `POST /v1/keys/{key}/adopt` and of `POST /v1/audit/key`.
public struct ReasonRequest: StrictRequest {
    /// Why, for the record: 1 to 200 characters.
    public var reason: String

    public init(reason: String) {
        self.reason = reason
    }

    public enum CodingKeys: CodingKey, CaseIterable { case reason }

    public func validate() throws(Refusal) { try validate(reason: reason) }
}

/// The body of `POST /v1/ledger/accept-restore`.
public struct AcceptRestoreRequest: StrictRequest {
    /// Why, for the record. The record shortens what is too long for it: an emergency does not wait for a better wording.
    public var reason: String
    /// True: also where nobody has found the ledger behind anything, for what a lost process did in its last minute. Absent is
    /// false.
    public var withoutFinding: Bool?

    public init(reason: String, withoutFinding: Bool? = nil) {
        self.reason = reason
        self.withoutFinding = withoutFinding
    }

    public enum CodingKeys: CodingKey, CaseIterable { case reason, withoutFinding }

    public func validate() throws(Refusal) { try LedgerAcceptanceRequest(reason: reason).validate() }
}

/// The body of `POST /v1/ledger/accept-clock`.
public struct LedgerAcceptanceRequest: StrictRequest {
    /// Why, for the record. The record shortens what is too long for it: an emergency does not wait for a better wording.
    public var reason: String

    public init(reason: String) {
        self.reason = reason
    }

    public enum CodingKeys: CodingKey, CaseIterable { case reason }

    public func validate() throws(Refusal) {
        guard !reason.isEmpty else {
            throw Refusal(.malformedRequest, "reason is empty: the record should say why.", details: "reason")
        }
    }
}

/// The body of `POST /v1/approvals/{id}`.
public struct ApprovalDecisionRequest: StrictRequest {
    /// `approve`, `reject` or `withdraw`.
    public var decision: String
    /// 1 to 200 characters.
    public var reason: String?

    public init(decision: String, reason: String? = nil) {
        self.decision = decision
        self.reason = reason
    }

    public enum CodingKeys: CodingKey, CaseIterable { case decision, reason }

    public func validate() throws(Refusal) {
        if let reason { try validate(reason: reason) }
    }
}

/// The body of operations that need no words, an object without members: `POST /v1/keys/{key}/csr` and
/// `POST /v1/ledger/backup`.
public struct EmptyRequest: StrictRequest {
    public init() {}

    public enum CodingKeys: CodingKey, CaseIterable {
        public static var allCases: [CodingKeys] { [] }
    }
}
