import Gateway
import TLSHandshake
import Testing

@Suite struct MerchantSessionHostTests {
    @Test func aHostIsOneOfApples() {
        #expect(MerchantSessionHost(.production).host.name == "apple-pay-gateway.apple.com")
    }
}
