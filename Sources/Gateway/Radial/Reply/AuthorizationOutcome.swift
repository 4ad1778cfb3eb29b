/// The outcome of an authorization, as far as a reply's codes are conclusive.
public enum AuthorizationOutcome: Sendable, Equatable {
    /// The bank has authorized the payment.
    case approved
    /// Radial or the card's processor received no response in time. It is unknown whether the bank has authorized the
    /// payment.
    case timeout
    case declined(Decline)
    /// Any other outcome: unknown codes, an approval whose AuthorizationResponseCode is not that of approvals,
    /// contradictory codes, or codes that leave open whether the bank has authorized the payment (`AVS`, `CSC`,
    /// `AVSCSC` and `AcceptOrderWithException` occur with approvals and are not declines). A person must decide.
    case other

    /// The AuthorizationResponseCodes with which Radial reports that a payment was declined.
    public enum Decline: String, Sendable, CaseIterable {
        case declined = "DECL"
        /// The account lacks funds or credit.
        case funds = "DECLF"
        /// The issuer asks for a telephone call.
        case referral = "DECLR"
    }

    /// Evaluates a reply's codes.
    ///
    /// - Parameters:
    ///   - responseCode: ResponseCode, as described on Radial's page "Credit Card Authorization Response Codes" and the
    ///     published schema (Order-Datatypes-Common-1.0.xsd, CreditCardAuthorization); nil if the reply has none, as
    ///     for a request whose SchemaVersion is below 1.1.
    ///   - authorizationResponseCode: AuthorizationResponseCode. The SDK names three values (ICreditCardAuth.php).
    init(responseCode: String?, authorizationResponseCode: String) {
        let stated = Self(authorizationResponseCode: authorizationResponseCode)
        guard let responseCode else {
            self = stated ?? .other
            return
        }
        let outcome = Self(responseCode: responseCode)
        // The SDK names a single code for approvals. An approval with an unknown AuthorizationResponseCode may be a
        // decline, so its outcome is `other`.
        self = stated == outcome || stated == nil && outcome != .approved ? outcome : .other
    }

    /// The ResponseCodes that mean ``timeout``.
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
