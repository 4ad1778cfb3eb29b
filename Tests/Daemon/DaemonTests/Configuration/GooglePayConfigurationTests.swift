import Foundation
import TestSupport
import Testing
import TokenForge

@testable import DaemonConfiguration

@Suite("The configuration of Google Pay")
struct GooglePayConfigurationTests {
    /// A configuration to which a rule is added.
    private static let onePerson = ConfigurationFixture.minimum + "approvals: { people: 1 }\n"
    private static let google = "wallets: [google-pay]\n    google_pay: "
    private static let rule = "access:\n  - user: root\n    roles: [decrypt]\n    "

    @Test(
        "refuses rules that leave open what they permit, and times that could release a message twice",
        arguments: [
            ("google_pay: { message_lifetime: 6d }", "6 google_pay.message_lifetime: is out of range"),
            ("google_pay: { message_lifetime: 31d }", "6 google_pay.message_lifetime: is out of range"),
            (rule + "wallets: []", "9 access[0].wallets: is empty"),
            (rule + "wallets: [google]", "9 access[0].wallets[0]: “google” is not known"),
            (rule + "wallets: [google-pay]", "access[0].google_pay: is missing"),
            (rule + "google_pay: { merchants: [BCR2] }", "access[0].wallets: does not name google-pay"),
            (rule + google + "{}", "access[0].google_pay.merchants: is missing"),
            (
                rule + google + "{ merchants: [merchant.com.example] }",
                "access[0].google_pay.merchants: has a value that is no merchant's identifier at Google"
            ),
            (
                rule + google + "{ merchants: [\"merchant:BCR2\"] }",
                "access[0].google_pay.merchants: has a value that is no merchant's identifier at Google"
            ),
            (
                rule + google + "{ merchants: [BCR2], auth_methods: [PAN] }",
                "access[0].google_pay.auth_methods[0]: “PAN” is not known"
            ),
            (
                rule + google + "{ merchants: [BCR2] }\n    merchants: [\"*\"]",
                "access[0].merchants: applies to Apple Pay alone"
            ),
            (
                rule + google + "{ merchants: [BCR2] }\n    require_expected: [currencyCode]",
                "access[0].require_expected: applies to Apple Pay alone"
            ),
        ])
    func problems(section: String, problem: String) throws {
        let problems = try ConfigurationFixture().problems(ConfigurationFixture.minimum + section)
        #expect(problems.contains { $0.contains(problem) }, "\(problems)")
    }

    @Test("requires claims to be kept for twice the lifetime of messages once Google's root keys are configured")
    func retention() throws {
        let fixture = try ConfigurationFixture()
        try fixture.directory.write(GooglePayForge().rootKeys(expiration: Date()), to: "google.json")
        let text = ConfigurationFixture.minimum + "ledger: { retain_claims: 13d }\n"
        #expect(fixture.problems(text) == [])
        let problems = fixture.problems(text + "trust: { google_pay: google.json }\n")
        #expect(problems.contains { $0.contains("ledger.retain_claims: must be at least twice google_pay.message") })
        let longer = "trust: { google_pay: google.json }\ngoogle_pay: { message_lifetime: 30d }\n"
        #expect(fixture.problems(ConfigurationFixture.minimum + "ledger: { retain_claims: 59d }\n" + longer) != [])
        #expect(fixture.problems(ConfigurationFixture.minimum + "ledger: { retain_claims: 60d }\n" + longer) == [])
    }

    @Test("warns of a rule that serves Google Pay without Google's root keys")
    func rootKeysMissing() throws {
        let fixture = try ConfigurationFixture()
        let text = Self.onePerson + Self.rule + Self.google + "{ merchants: [BCR2] }\n"
        let missing = try fixture.load(text).warnings.filter { $0.setting == .googlePayRoots }
        #expect(missing.map { String($0.place.split(separator: " ").last ?? "") } == ["access[0].google_pay"])
        try fixture.directory.write(GooglePayForge().rootKeys(expiration: Date()), to: "google.json")
        let named = try fixture.load("trust: { google_pay: google.json }\n" + text).warnings
        #expect(!named.contains { $0.setting == .googlePayRoots })
        #expect(!(try fixture.load(Self.onePerson + Self.rule).warnings.contains { $0.setting == .googlePayRoots }))
    }

    @Test("serves Apple Pay alone without wallets, and cryptograms alone without auth_methods")
    func defaults() throws {
        let fixture = try ConfigurationFixture()
        let apple = try #require(try fixture.load(Self.onePerson + Self.rule).access.rules.first)
        #expect(apple.servesApplePay && apple.googlePay == nil)
        let google = try #require(
            try fixture.load(
                Self.onePerson + Self.rule + Self.google + "{ merchants: [BCR2*] }"
            ).access.rules.first)
        #expect(!google.servesApplePay && google.googlePay?.authMethods == [.cryptogram3DS])
        #expect(google.googlePay?.allows(merchant: "BCR2DN4T") == true)
        #expect(google.googlePay?.allows(merchant: "BCR") == false)
    }

    @Test("records a rule's wallets with the merchants and methods of each, and the lifetime of messages")
    func recorded() throws {
        let fixture = try ConfigurationFixture()
        try fixture.directory.write(GooglePayForge().rootKeys(expiration: Date()), to: "google.json")
        let values = try fixture.load(
            Self.onePerson + "trust: { google_pay: google.json }\n" + Self.rule
                + Self.google + "{ merchants: [BCR2], auth_methods: [PAN_ONLY, CRYPTOGRAM_3DS] }\n"
        ).recordedValues
        #expect(values["google_pay.message_lifetime"] == "7d")
        #expect(values["access.1.wallets"] == "google-pay")
        #expect(values["access.1.merchants"] == nil)
        #expect(values["access.1.google_pay.merchants"] == "BCR2")
        #expect(values["access.1.google_pay.auth_methods"] == "CRYPTOGRAM_3DS, PAN_ONLY")
    }
}
