import AccessControl
import ConfigurationFile
import GooglePayToken
import TestSupport
import Testing

@testable import Gateway

extension GatewayConfigurationTests {
    /// A configuration in which the client on line 2 and the processor on line 4 use Google Pay alone.
    private static let google = """
        clients:
          - { name: shop, key_sha256: "\(String(repeating: "0a", count: 32))", operations: [pay, status], google_pay: { merchants: [BCR2DN4TEXAMPLE] } }
        processors:
          - { name: a, kind: simulator, url: "unix:/s", google_pay: { merchants: [BCR2DN4TEXAMPLE] } }

        """

    @Test("lets a client and a processor use Google Pay alone, for the merchants named and with cryptograms only")
    func googlePayAlone() throws {
        let configuration = try load(Self.google)
        let client = try #require(configuration.clients.first)
        #expect(client.allows(merchant: "BCR2DN4TEXAMPLE", of: .googlePay))
        #expect(!client.allows(merchant: "BCR2DN4TEXAMPLE") && !client.allows(merchant: "BCR2OTHER", of: .googlePay))
        let processor = try #require(configuration.payments?.processors.first)
        #expect(processor.merchants.isEmpty && processor.googlePay?.authMethods == [.cryptogram3DS])
        #expect(processor.googlePay?.merchants == [MerchantPattern("BCR2DN4TEXAMPLE")])
        #expect(!configuration.warnings.map(\.setting).contains(.cardNumbers))
    }

    @Test("gives no wallet to a client or a processor that names only the other's merchants")
    func applePayAlone() throws {
        let configuration = try load(
            Self.google.replacing("google_pay: { merchants: [BCR2DN4TEXAMPLE] }", with: "merchants: [\"*\"]"))
        let client = try #require(configuration.clients.first)
        #expect(client.allows(merchant: "merchant.com.example") && !client.allows(merchant: "BCR2A", of: .googlePay))
        #expect(configuration.payments?.processors.first?.googlePay == nil)
    }

    @Test("permits cards' own numbers only if the processor's entry says so, and warns about them")
    func cardNumbers() throws {
        let configuration = try load(
            Self.google.replacing(
                "/s\", google_pay: {", with: "/s\", google_pay: { auth_methods: [PAN_ONLY, CRYPTOGRAM_3DS],"))
        #expect(configuration.payments?.processors.first?.googlePay?.authMethods == [.panOnly, .cryptogram3DS])
        #expect(configuration.warnings.map(\.setting).contains(.cardNumbers))
    }

    @Test(
        "reports each problem of Google Pay with its line",
        arguments: [
            (
                "operations: [pay, status]", "operations: [status]",
                "2 clients[0].google_pay: has no effect without the operation pay"
            ),
            (
                "operations: [pay, status]", "operations: [pay, session], domains: [shop.example]",
                "2 clients[0].merchants: is missing or empty"
            ),
            (
                "status], google_pay: { merchants: [BCR2DN4TEXAMPLE] }",
                "status], google_pay: { merchants: [BCR2DN4TEXAMPLE], auth_methods: [PAN_ONLY] }",
                "2 clients[0].google_pay.auth_methods: unknown key"
            ),
            (
                "status], google_pay: { merchants: [BCR2DN4TEXAMPLE] }", "status], google_pay: { merchants: [] }",
                "2 clients[0].google_pay.merchants: is missing or empty"
            ),
            (
                "status], google_pay: { merchants: [BCR2DN4TEXAMPLE] }",
                "status], google_pay: { merchants: [merchant.com.example] }",
                "2 clients[0].google_pay.merchants: has a value that is no merchant's identifier at Google"
            ),
            (
                "/s\", google_pay: { merchants: [BCR2DN4TEXAMPLE] }", "/s\"",
                "4 processors[0].merchants: is missing or empty"
            ),
            (
                "/s\", google_pay: {", "/s\", merchants: [], google_pay: {",
                "4 processors[0].merchants: is missing or empty"
            ),
            (
                "/s\", google_pay: {", "/s\", google_pay: { auth_methods: [PAN],",
                "4 processors[0].google_pay.auth_methods[0]: “PAN” is not known"
            ),
            (
                "kind: simulator, url: \"unix:/s\"", "kind: radial, url: \"https://r.example/v1.0/stores/S/payments\"",
                "4 processors[0].google_pay: is not possible with the kind radial"
            ),
        ])
    func googlePayProblems(old: String, new: String, problem: String) {
        #expect(Self.google.contains(old))
        let found = problems(Self.google.replacing(old, with: new))
        #expect(found.contains { $0.hasPrefix(problem) }, "\(found)")
    }
}
