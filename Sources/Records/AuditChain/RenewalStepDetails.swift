internal import StrictJSON

/// A step of the renewal of a merchant's certificate at Apple, or the request for one.
public struct RenewalStepDetails: Sendable, Equatable {
    /// The raw values are part of the public contract.
    public enum Step: String, Sendable, CaseIterable {
        case start
        /// An attempt to have the certificate issued begins. Its request follows this record.
        case create
        /// An attempt to make wallets use the certificate begins.
        case activate
        /// An attempt to revoke the previous certificate begins.
        case revoke
        /// The answer to an attempt.
        case answer
        /// Apple's list shows the certificate that an attempt without an answer created.
        case find
        case finish
        case abandon
    }

    /// One attempt at a change at Apple.
    public struct Attempt: Sendable, Equatable {
        public var identifier: RenewalAttemptId
        /// The number among the renewal's attempts at the same change, from 1.
        public var number: Int
        /// The outcome of an answer, such as `accepted`; nil when the attempt begins.
        public var outcome: AuditText?
        /// Apple's status and code of a refusal.
        public var code: AuditText?

        public init(identifier: RenewalAttemptId, number: Int, outcome: AuditText? = nil, code: AuditText? = nil) {
            (self.identifier, self.number, self.outcome, self.code) = (identifier, number, outcome, code)
        }
    }

    public var step: Step
    /// The renewal's identifier in hexadecimal; nil if the request was refused before it was known.
    public var renewal: AuditText?
    public var attempt: Attempt?
    /// The id of Apple's resource: of the merchant identifier for a new certificate, otherwise of the certificate.
    public var appleId: AuditText?
    /// SHA-256 of the new certificate in DER.
    public var certificate: AuditDigest?
    /// The nodes without whose proofs the change was approved.
    public var excludedNodes: [AuditNode] = []
    public var approval: ApprovalIdentifier?

    public init(
        step: Step, renewal: AuditText? = nil, attempt: Attempt? = nil, appleId: AuditText? = nil,
        certificate: AuditDigest? = nil, excludedNodes: [AuditNode] = [], approval: ApprovalIdentifier? = nil
    ) {
        self.step = step
        self.renewal = renewal
        self.attempt = attempt
        self.appleId = appleId
        self.certificate = certificate
        self.excludedNodes = excludedNodes
        self.approval = approval
    }

    func write(into writer: inout JSONWriter) {
        writer.member("step", step.rawValue)
        writer.member("renewal", renewal?.text)
        writer.member("attempt", attempt?.identifier.hex)
        writer.member("number", attempt?.number)
        writer.member("result", attempt?.outcome?.text)
        writer.member("code", attempt?.code?.text)
        writer.member("appleId", appleId?.text)
        writer.member("certificateSha256", certificate?.hex)
        let nodes = excludedNodes.map(\.name).sorted().joined(separator: ",")
        writer.member("excludedNodes", nodes.isEmpty ? nil : nodes)
        writer.member("approval", approval?.hex)
    }
}
