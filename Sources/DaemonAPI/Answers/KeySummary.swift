public import Foundation

/// One merchant key as `GET /v1/keys`, `GET /v1/keys/{hex}` and the import answers show it.
///
/// The members are always there: what is not known is null, so that scripts need not test for presence.
public struct KeySummary: Codable, Sendable, Equatable {
    /// Base64 of the 32 bytes, as it stands in Apple's tokens.
    public var publicKeyHash: String
    public var merchantIdentifier: String?
    /// `EC` or `RSA`.
    public var algorithm: String
    /// The state's name, SP 800-57 part 1 §7: `pre-activation`, `active`, `suspended`, `deactivated`, `compromised`,
    /// `destroyed`.
    public var state: String
    /// Until when a deactivated key still decrypts, or did; null where it was given no time.
    public var cutOff: Date?
    /// The certificate's end; null without a certificate.
    public var notAfter: Date?
    /// Whole days until `notAfter`, rounded down; negative when it has passed.
    public var daysLeft: Int?
    /// The protection tier that serves the key now, `A`, `B` or `C`; null when none does.
    public var tier: String?
    /// The last release with this key that this process made.
    public var lastUse: Date?
    /// Releases with this key since this process started.
    public var uses: Int
    /// `served`, `external`, `inconsistent` or `missing`.
    public var condition: String
    /// Why, where the condition is not `served`.
    public var remark: String?
    /// The configured names of the tokens that hold the key.
    public var tokens: [String]

    public init(
        publicKeyHash: String, merchantIdentifier: String?, algorithm: String, state: String, notAfter: Date?,
        daysLeft: Int?, tier: String?, lastUse: Date?, uses: Int, condition: String, remark: String?, tokens: [String],
        cutOff: Date? = nil
    ) {
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.state = state
        self.cutOff = cutOff
        self.notAfter = notAfter
        self.daysLeft = daysLeft
        self.tier = tier
        self.lastUse = lastUse
        self.uses = uses
        self.condition = condition
        self.remark = remark
        self.tokens = tokens
    }

    /// Whole days from `now` to `notAfter`, rounded down.
    public static func daysLeft(until notAfter: Date, now: Date) -> Int {
        Int((notAfter.timeIntervalSince(now) / 86_400).rounded(.down))
    }

    private enum CodingKeys: String, CodingKey {
        case publicKeyHash, merchantIdentifier, algorithm, state, cutOff, notAfter, daysLeft, tier, lastUse, uses
        case condition, remark, tokens
    }

    // Written out because the synthesised form leaves absent members out.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(publicKeyHash, forKey: .publicKeyHash)
        try container.encode(merchantIdentifier, forKey: .merchantIdentifier)
        try container.encode(algorithm, forKey: .algorithm)
        try container.encode(state, forKey: .state)
        try container.encode(cutOff, forKey: .cutOff)
        try container.encode(notAfter, forKey: .notAfter)
        try container.encode(daysLeft, forKey: .daysLeft)
        try container.encode(tier, forKey: .tier)
        try container.encode(lastUse, forKey: .lastUse)
        try container.encode(uses, forKey: .uses)
        try container.encode(condition, forKey: .condition)
        try container.encode(remark, forKey: .remark)
        try container.encode(tokens, forKey: .tokens)
    }
}
