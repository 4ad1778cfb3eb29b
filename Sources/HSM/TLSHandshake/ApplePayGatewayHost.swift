/// The Apple hosts that issue merchant sessions, one for each environment. A session from one environment is not valid
/// in another.
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
