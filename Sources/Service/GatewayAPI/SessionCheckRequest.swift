public import DaemonAPI

/// The body of the gateway's `POST /v1/session-check`, which asks for a merchant session and discards it.
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
