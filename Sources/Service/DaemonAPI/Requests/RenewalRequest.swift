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
    /// True to begin the next step if it changes something at Apple.
    public var approve: Bool
    /// The identifier of a request for approval that another person has approved.
    public var approval: String?

    public init(
        merchantIdentifier: String, use: String? = nil, algorithm: String? = nil, excludeNodes: [String]? = nil,
        repeatAttempt: Attempt? = nil, testPaymentMade: Bool = false, revokeOld: Bool = false, abandon: Bool = false,
        approve: Bool = false, approval: String? = nil
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.use = use
        self.algorithm = algorithm
        self.excludeNodes = excludeNodes
        self.repeatAttempt = repeatAttempt
        self.testPaymentMade = testPaymentMade
        self.revokeOld = revokeOld
        self.abandon = abandon
        self.approve = approve
        self.approval = approval
    }

    public enum CodingKeys: CodingKey, CaseIterable {
        case merchantIdentifier, use, algorithm, excludeNodes, repeatAttempt, testPaymentMade, revokeOld, abandon,
            approve
        case approval
    }

    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        merchantIdentifier = try members.decode(String.self, forKey: .merchantIdentifier)
        use = try members.decodeIfPresent(String.self, forKey: .use)
        algorithm = try members.decodeIfPresent(String.self, forKey: .algorithm)
        excludeNodes = try members.decodeIfPresent([String].self, forKey: .excludeNodes)
        repeatAttempt = try members.decodeIfPresent(Attempt.self, forKey: .repeatAttempt)
        testPaymentMade = try members.decodeIfPresent(Bool.self, forKey: .testPaymentMade) ?? false
        revokeOld = try members.decodeIfPresent(Bool.self, forKey: .revokeOld) ?? false
        abandon = try members.decodeIfPresent(Bool.self, forKey: .abandon) ?? false
        approve = try members.decodeIfPresent(Bool.self, forKey: .approve) ?? false
        approval = try members.decodeIfPresent(String.self, forKey: .approval)
    }
}
