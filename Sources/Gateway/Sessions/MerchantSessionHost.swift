public import TLSHandshake

/// Where merchant sessions are asked for: the environment's exact host, never a name from a request.
public struct MerchantSessionHost: Sendable, Equatable {
    public let host: ApplePayGatewayHost

    public init(_ host: ApplePayGatewayHost) {
        self.host = host
    }
}
