/// The outcome of an authorization, as far as a reply's codes are certain.
public enum AuthorizationOutcome: Sendable, Equatable {
    /// The bank has authorized the payment.
    case approved
    /// Radial or the card's processor got no answer in time. It is not known whether the bank has authorized the
    /// payment.
    case timeout
    case declined(Decline)
    /// Any other outcome: unknown codes, an approval with another code than an approval's, codes that contradict each
    /// other, or codes that leave open whether the bank has authorized (`AVS`, `CSC`, `AVSCSC` and
    /// `AcceptOrderWithException` occur with approvals and are no declines). A person decides.
    case other

    /// Radial's codes of declines.
    public enum Decline: String, Sendable, CaseIterable {
        case declined = "DECL"
        /// The account lacks funds or credit.
        case funds = "DECLF"
        /// The issuer asks for a telephone call.
        case referral = "DECLR"
    }

    /// - Parameters:
    ///   - responseCode: ResponseCode, by Radial's page "Credit Card Authorization Response Codes" and the published
    ///     schema
    ///     (Order-Datatypes-Common-1.0.xsd, CreditCardAuthorization); nil if the request's SchemaVersion has none.
    ///   - authorizationResponseCode: AuthorizationResponseCode, of which the SDK names three (ICreditCardAuth.php).
    init(responseCode: String?, authorizationResponseCode: String) {
        let stated = Self(authorizationResponseCode: authorizationResponseCode)
        guard let responseCode else {
            self = stated ?? .other
            return
        }
        let outcome = Self(responseCode: responseCode)
        // The SDK has one code of approvals, so an approval with another code may be a decline.
        self = stated == outcome || stated == nil && outcome != .approved ? outcome : .other
    }

    /// The ResponseCodes of ``timeout``.
    public static let timeoutCodes = ["TIMEOUT", "PaymentProcessorTimeout"]

    private init(responseCode: String) {
        switch responseCode {
        case "APPROVED": self = .approved
        case _ where Self.timeoutCodes.contains(responseCode): self = .timeout
        default: self = Decline(rawValue: responseCode).map { .declined($0) } ?? .other
        }
    }

    private init?(authorizationResponseCode: String) {
        switch authorizationResponseCode {
        case "AP01": self = .approved
        case "TO01", "NR01": self = .timeout
        default: return nil
        }
    }
}
