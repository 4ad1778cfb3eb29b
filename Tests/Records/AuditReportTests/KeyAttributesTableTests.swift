import AuditChain
import DaemonAPI
import Foundation
import Testing

@testable import AuditReport

/// The report's table that compares key attributes in the HSM tokens with the audit record.
@Suite("The report's table of attributes")
struct KeyAttributesTableTests {
    /// The attributes that an HSM token reports for a P-256 key that it made.
    private static let made = KeyAttributes.Values(
        sensitive: true, extractable: false, alwaysSensitive: true, neverExtractable: true, local: true, private: true,
        modifiable: true, uses: ["derive"], strength: "P-256")

    /// The attributes that an HSM token reports for a key imported from a file.
    private static var imported: KeyAttributes.Values {
        var values = made
        (values.local, values.alwaysSensitive, values.neverExtractable) = (false, false, false)
        return values
    }

    private static func key(_ attributes: [KeyAttributes]?) -> KeySummary {
        KeySummary(
            publicKeyHash: RecordBook.key.base64, merchantIdentifier: "merchant.test", algorithm: "EC", state: "active",
            notAfter: nil, daysLeft: nil, tier: "C", lastUse: nil, uses: 0, condition: "served", remark: nil,
            tokens: ["primary"], attributes: attributes)
    }

    private static func warnings(_ values: KeyAttributes.Values, arrival: KeyHistory.Step?) -> [String] {
        let attributes = KeyAttributes(token: "primary", values)
        return KeyTableFacts.warnings(attributes, key([attributes]), arrival: arrival)
    }

    @Test("shows no warning for a made or imported key whose attributes agree with the audit record")
    func asRecorded() {
        #expect(Self.warnings(Self.made, arrival: .generated).isEmpty)
        #expect(Self.warnings(Self.imported, arrival: .imported).isEmpty)
        #expect(Self.warnings(Self.imported, arrival: .adopted).isEmpty)
        #expect(Self.warnings(Self.imported, arrival: nil).isEmpty)
    }

    @Test("shows three warnings for a key that the audit record calls generated and the HSM token calls imported")
    func replaced() {
        let warnings = Self.warnings(Self.imported, arrival: .generated)
        #expect(warnings.count == 3 && warnings.allSatisfy { $0.hasPrefix("Made in a token by the record") })
    }

    @Test("shows a warning for a key that the audit record calls imported and the HSM token calls generated")
    func generatedNotImported() {
        let warnings = Self.warnings(Self.made, arrival: .imported)
        #expect(warnings.count == 1 && warnings[0].hasPrefix("Came from a file by the record"))
    }

    @Test("shows a warning for a key strength that differs from the ledger's, and for each shortcoming")
    func strength() {
        var values = Self.made
        values.strength = "RSA-1024"
        values.shortcomings = ["CKA_EXTRACTABLE is true."]
        #expect(
            Self.warnings(values, arrival: .generated) == [
                "CKA_EXTRACTABLE is true.", "P-256 by the ledger, RSA-1024 by the token.",
            ])
    }

    @Test("shows one warning for a key that is missing from its HSM token, and none if the HSM token is absent")
    func absent() {
        let gone = KeyAttributes.Values(shortcomings: ["The token shows no private key with this CKA_ID now."])
        #expect(Self.warnings(gone, arrival: .generated) == gone.shortcomings)
        let away = KeyAttributes(token: "primary", message: "It is not open.")
        #expect(KeyTableFacts.warnings(away, Self.key([away]), arrival: .generated).isEmpty)
    }

    // MARK: The page

    private static let hostile = "<img src=x>"

    private static func page(_ keys: [KeySummary], faults: [String: String] = [:]) throws -> String {
        var book = RecordBook()
        try book.add(.start(version: AuditText("1.0.0")), at: 0)
        try book.add(.keyGenerate(), at: 1, by: "alice", key: RecordBook.key, merchant: "merchant.test")
        let status = StatusAnswer(
            version: "1.0.0", node: "node-1", startedAt: RecordBook.time(0).date, ready: true, reasons: [],
            tokens: [
                HSMTokenStatus(
                    name: "primary", condition: "ready", serialNumber: "1a2b", model: "Example HSM",
                    hardwareVersion: "3.0", firmwareVersion: "7.12")
            ], ledger: LedgerStatus(engine: "sqlite", condition: "ready"),
            trust: TrustStatus(roots: [], distrusted: 0, signingTimeWindow: "5m"), warnings: [])
        return try book.page(
            live: LiveState(
                askedAt: RecordBook.time(2), status: status, keys: keys, attributeFaults: faults))
    }

    @Test("shows each key, its HSM tokens, its warnings and the reason why it was not read, and escapes names")
    func shown() throws {
        var values = Self.made
        values.extractable = true
        values.shortcomings = ["CKA_EXTRACTABLE is true: \(Self.hostile)"]
        let keys = [
            Self.key([
                KeyAttributes(token: "primary", Self.made), KeyAttributes(token: "second", values),
                KeyAttributes(token: "third", message: "It is not open."),
            ])
        ]
        let page = try Self.page(keys)
        #expect(page.contains("1 of 2 private keys in tokens are not as they have to be"))
        #expect(page.contains("<strong>CKA_EXTRACTABLE is true: &lt;img src=x&gt;</strong>"))
        #expect(page.contains("<td>P-256</td><td>yes</td><td>no</td><td>yes</td><td>yes</td><td>yes</td>"))
        #expect(page.contains("<td>away</td>") && page.contains("It is not open."))
        #expect(!page.contains(Self.hostile))
        // The key with the warning comes first, and then the key whose HSM token did not answer.
        let second = try #require(page.range(of: "<span class=\"t\">second</span>"))
        let primary = try #require(page.range(of: "<span class=\"t\">primary</span>"))
        let third = try #require(page.range(of: "<span class=\"t\">third</span>"))
        #expect(second.lowerBound < third.lowerBound && third.lowerBound < primary.lowerBound)

        let unread = try Self.page([Self.key(nil)], faults: [RecordBook.key.base64: "hsm_unavailable: \(Self.hostile)"])
        #expect(unread.contains("Of 1 keys the attributes were not read"))
        #expect(unread.contains("hsm_unavailable: &lt;img src=x&gt;"))
    }

    @Test("shows no warning for faultless keys, and lists the HSM tokens' versions with the system's")
    func quiet() throws {
        let page = try Self.page([Self.key([KeyAttributes(token: "primary", Self.made)])])
        #expect(!page.contains("are not as they have to be"))
        #expect(page.contains("<td>1a2b</td><td>3.0</td><td>7.12</td>"))
    }
}
