public import Refusals

/// The body of `POST /v1/audit/key`.
public struct AuditKeyChangeRequest: StrictRequest {
    /// The reason, which goes into the record: 1 to 200 characters.
    public var reason: String
    /// The configured name of the HSM token that seals from then on. Absent for the one that seals now.
    public var token: String?
    /// True if the HSM token that seals now is lost for good, so that its key cannot seal the announcement of the new key.
    /// Absent means false.
    public var lost: Bool?

    public init(reason: String, token: String? = nil, lost: Bool? = nil) {
        self.reason = reason
        self.token = token
        self.lost = lost
    }

    public enum CodingKeys: CodingKey, CaseIterable { case reason, token, lost }

    public func validate() throws(Refusal) { try validate(reason: reason) }
}

/// The body of `POST /v1/ledger/accept-restore`.
public struct AcceptRestoreRequest: StrictRequest {
    /// The reason, which goes into the record. The daemon shortens a reason that is too long instead of refusing it, since
    /// the operation may be an emergency.
    public var reason: String
    /// True if the daemon is to set the fence without a finding. An operator does so for releases that a lost process may
    /// have made in its last minute. Absent means false.
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
    /// The reason, which goes into the record. The daemon shortens a reason that is too long instead of refusing it, since
    /// the operation may be an emergency.
    public var reason: String

    public init(reason: String) {
        self.reason = reason
    }

    public enum CodingKeys: CodingKey, CaseIterable { case reason }

    public func validate() throws(Refusal) {
        guard !reason.isEmpty else {
            throw Refusal(.malformedRequest, "reason is empty; give a reason for the record.", details: "reason")
        }
    }
}

/// The body of `POST /v1/approvals/{id}`.
public struct ApprovalDecisionRequest: StrictRequest {
    /// `approve`, `reject` or `withdraw`.
    public var decision: String
    /// The reason, which goes into the record: 1 to 200 characters.
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

/// The body of `POST /v1/audit/reports`.
public struct AuditReportRequest: StrictRequest {
    public static var maximumElements: Int { 64 }

    /// The last record of one node.
    public struct Node: Codable, Sendable, Equatable {
        /// The node's name.
        public var node: String
        /// The sequence of the last record in the export.
        public var lastSequence: Int

        public init(node: String, lastSequence: Int) {
            self.node = node
            self.lastSequence = lastSequence
        }

        public enum CodingKeys: CodingKey, CaseIterable { case node, lastSequence }
    }

    /// SHA-256 of the page's file: 64 lower-case hexadecimal digits.
    public var pageSha256: String
    /// The beginning of the page's period, and its end, which is not included; in RFC 3339, to the millisecond.
    public var since: String
    public var until: String
    /// The nodes whose records the page was made from, 1 to 64.
    public var nodes: [Node]

    public init(pageSha256: String, since: String, until: String, nodes: [Node]) {
        self.pageSha256 = pageSha256
        self.since = since
        self.until = until
        self.nodes = nodes
    }

    public enum CodingKeys: CodingKey, CaseIterable { case pageSha256, since, until, nodes }
}

/// The body of an operation without parameters: an object without members.
/// `POST /v1/keys/{key}/csr`, `POST /v1/keys/{key}/proofs`, `POST /v1/ledger/backup`, `POST /v1/reload` and
/// `POST /v1/tokens/{token}/remove-test-keys` take it.
public struct EmptyRequest: StrictRequest {
    public init() {}

    public enum CodingKeys: CodingKey, CaseIterable {
        public static var allCases: [CodingKeys] { [] }
    }
}
