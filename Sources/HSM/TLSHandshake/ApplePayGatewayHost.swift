/// The hosts that give Apple's merchant sessions, by environment; a session of one is of no use in another.
///
/// Source: Apple, "Requesting an Apple Pay payment session" and "Setting up your server".
public enum ApplePayGatewayHost: String, Sendable, CaseIterable {
    case production = "apple-pay-gateway.apple.com"
    case sandbox = "apple-pay-gateway-cert.apple.com"
    case china = "cn-apple-pay-gateway.apple.com"
    case chinaSandbox = "cn-apple-pay-gateway-cert.apple.com"

    /// The host's DNS name, in lower case.
    public var name: String { rawValue }
}
