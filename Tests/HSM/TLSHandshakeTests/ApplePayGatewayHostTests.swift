import TLSHandshake
import Testing

@Suite struct ApplePayGatewayHostTests {
    @Test func everyEnvironmentHasAHostOfItsOwnUnderApple() {
        let names = ApplePayGatewayHost.allCases.map(\.name)
        #expect(Set(names).count == 4)
        #expect(names.allSatisfy { $0.hasSuffix(".apple.com") })
    }
}
