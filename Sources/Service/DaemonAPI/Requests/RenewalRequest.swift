/// One change at Apple: the next step of a renewal, and what a person approves.
public struct RenewalChange: Codable, Sendable, Equatable {
    /// The renewal's identifier, 16 hex characters.
    public var renewal: String
    /// `create`, `activate` or `revoke`.
    public var change: String
    /// The number of the attempt at this change, from 1.
    public var number: Int
    /// Apple's id of the certificate that is activated or revoked; absent for a new one.
    public var certificateId: String?
    /// True if wallets may use the new certificate as soon as Apple has issued it.
    public var usedAtOnce: Bool
    /// The names of the nodes that are left out, in ascending order; absent for none.
    public var excludedNodes: [String]?

    public init(
        renewal: String, change: String, number: Int, certificateId: String? = nil, usedAtOnce: Bool = false,
        excludedNodes: [String]? = nil
    ) {
        self.renewal = renewal
        self.change = change
        self.number = number
        self.certificateId = certificateId
        self.usedAtOnce = usedAtOnce
        self.excludedNodes = excludedNodes
    }

    enum CodingKeys: CodingKey, CaseIterable { case renewal, change, number, certificateId, usedAtOnce, excludedNodes }
}

/// The body of `POST /v1/renewals`, which starts or continues the renewal of one of a merchant's certificates.
public struct RenewalRequest: StrictRequest {
    /// An attempt at a change at Apple that a person wants repeated.
    public struct Attempt: Codable, Sendable, Equatable {
        /// `create`, `activate` or `revoke`.
        public var change: String
        public var number: Int

        public init(change: String, number: Int) { (self.change, self.number) = (change, number) }

        enum CodingKeys: CodingKey, CaseIterable { case change, number }
    }

    public var merchantIdentifier: String
    /// `processing`, the default, or `identity`.
    public var use: String?
    /// `EC` or `RSA`; by default that of the open renewal, or of the merchant's active key.
    public var algorithm: String?
    /// The identifier of the renewal to go on with; absent for the open one, or to start one.
    public var renewal: String?
    /// The names of nodes without which the renewal goes on, 1 to 16; absent for none.
    public var excludeNodes: [String]?
    /// An attempt whose repetition a person has decided; absent if there is none.
    public var repeatAttempt: Attempt?
    /// True if a person has made a payment with the new key on each node. Absent means false, as for all of the following.
    public var testPaymentMade: Bool
    /// True to go on with the revocation of the previous certificate, after the renewal is finished.
    public var revokeOld: Bool
    /// True to give the open renewal up.
    public var abandon: Bool
    /// The change at Apple to begin, as an answer showed it: nothing begins if another is next. Absent to begin none.
    public var approve: RenewalChange?
    /// The identifier of a request for approval that another person has approved.
    public var approval: String?

    public init(
        merchantIdentifier: String, use: String? = nil, algorithm: String? = nil, renewal: String? = nil,
        excludeNodes: [String]? = nil, repeatAttempt: Attempt? = nil, testPaymentMade: Bool = false,
        revokeOld: Bool = false, abandon: Bool = false, approve: RenewalChange? = nil, approval: String? = nil
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.use = use
        self.algorithm = algorithm
        self.renewal = renewal
        self.excludeNodes = excludeNodes
        self.repeatAttempt = repeatAttempt
        self.testPaymentMade = testPaymentMade
        self.revokeOld = revokeOld
        self.abandon = abandon
        self.approve = approve
        self.approval = approval
    }

    public enum CodingKeys: CodingKey, CaseIterable {
        case merchantIdentifier, use, algorithm, renewal, excludeNodes, repeatAttempt, testPaymentMade, revokeOld
        case abandon, approve, approval
    }

    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        merchantIdentifier = try members.decode(String.self, forKey: .merchantIdentifier)
        use = try members.decodeIfPresent(String.self, forKey: .use)
        algorithm = try members.decodeIfPresent(String.self, forKey: .algorithm)
        renewal = try members.decodeIfPresent(String.self, forKey: .renewal)
        excludeNodes = try members.decodeIfPresent([String].self, forKey: .excludeNodes)
        repeatAttempt = try members.decodeIfPresent(Attempt.self, forKey: .repeatAttempt)
        testPaymentMade = try members.decodeIfPresent(Bool.self, forKey: .testPaymentMade) ?? false
        revokeOld = try members.decodeIfPresent(Bool.self, forKey: .revokeOld) ?? false
        abandon = try members.decodeIfPresent(Bool.self, forKey: .abandon) ?? false
        approve = try members.decodeIfPresent(RenewalChange.self, forKey: .approve)
        approval = try members.decodeIfPresent(String.self, forKey: .approval)
    }
}
