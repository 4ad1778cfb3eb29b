public import DaemonAPI

/// The body of the gateway's `POST /v1/session-check`: a merchant session is asked for and thrown away.
public struct SessionCheckRequest: StrictRequest {
    public var merchantIdentifier: String
    /// A domain that is registered for the merchant with Apple.
    public var domain: String

    public enum CodingKeys: CodingKey, CaseIterable { case merchantIdentifier, domain }

    public init(merchantIdentifier: String, domain: String) {
        self.merchantIdentifier = merchantIdentifier
        self.domain = domain
    }
}
