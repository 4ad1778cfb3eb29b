import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import Testing
import WorkerProtocol

@Suite("The keys that are tried with a Google Pay message")
struct GooglePayKeysTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)
    private static let merchant = "BCR2DN4TEXAMPLE"

    private static func hash(_ number: UInt8) -> PublicKeyHash { .of(subjectPublicKeyInfo: [0x30, number]) }

    /// A record made `age` days ago.
    private static func record(
        _ number: UInt8, _ state: KeyState = .active, age: Double = 1, cutOff: Date? = nil,
        merchant: String = merchant, use: KeyUse = .googlePay
    ) -> KeyRecord {
        KeyRecord(
            publicKeyHash: hash(number), merchantIdentifier: merchant, algorithm: .ec, use: use, state: state,
            cutOff: cutOff, createdAt: now.addingTimeInterval(-age * 86_400), origin: .generated)
    }

    private static func tried(_ records: [KeyRecord]) -> [PublicKeyHash] {
        let index = KeyIndex()
        index.rebuild(hsmTokens: [], keyRecords: records, now: now)
        return index.googlePayKeys(of: merchant, at: now).map(\.publicKeyHash)
    }

    @Test("tries newer keys first, and active ones before retired ones")
    func order() {
        let later = Self.now.addingTimeInterval(60)
        #expect(
            Self.tried([
                Self.record(1, age: 30), Self.record(2, .deactivated, age: 1, cutOff: later), Self.record(3, age: 2),
            ]) == [3, 1, 2].map(Self.hash))
    }

    @Test("tries four keys at most, of one merchant and of Google Pay alone")
    func limits() {
        let own = (1...6).map { Self.record(UInt8($0), age: Double($0)) }
        let others = [
            Self.record(10, age: 0, merchant: "OTHER"), Self.record(11, age: 0, use: .processing),
            Self.record(12, age: 0, merchant: "bcr2dn4texample"),
        ]
        #expect(Self.tried(own + others) == [1, 2, 3, 4].map(Self.hash))
        #expect(Self.tried(others).isEmpty)
    }

    @Test(
        "never tries a key in another state, nor one past its cut-off",
        arguments: [
            (KeyState.preActivation, nil), (.suspended, nil), (.suspended, 60), (.compromised, nil), (.destroyed, nil),
            (.deactivated, nil), (.deactivated, 0), (.deactivated, -60),
        ] as [(KeyState, Double?)])
    func states(state: KeyState, cutOff: Double?) {
        let record = Self.record(1, state, cutOff: cutOff.map { Self.now.addingTimeInterval($0) })
        #expect(Self.tried([record, Self.record(2, age: 9)]) == [Self.hash(2)])
    }

    @Test("gives keys of the same moment one order")
    func ties() {
        let records = (1...4).map { Self.record(UInt8($0)) }
        let order = Self.tried(records)
        #expect(order.count == 4 && order == Self.tried(records.reversed()))
    }

    @Test("follows a single key's change of state")
    func update() {
        let index = KeyIndex()
        index.rebuild(hsmTokens: [], keyRecords: [Self.record(1)], now: Self.now)
        index.update(Self.hash(2), hsmTokens: [], keyRecord: Self.record(2, age: 0), now: Self.now)
        #expect(index.googlePayKeys(of: Self.merchant, at: Self.now).map(\.publicKeyHash) == [2, 1].map(Self.hash))
        index.update(Self.hash(2), hsmTokens: [], keyRecord: Self.record(2, .suspended, age: 0), now: Self.now)
        #expect(index.googlePayKeys(of: Self.merchant, at: Self.now).map(\.publicKeyHash) == [Self.hash(1)])
    }

    @Test("serves a Google Pay key whose attributes are those of a processing key, and no key of another use")
    func attributes() throws {
        let der = Array(
            try #require(
                Data(
                    base64Encoded:
                        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEGnJ7Yo1sX9b4kr4Aa5uq58JRQfzD8bIJXw7WXaap/hVE+PnFxvjx4nVxt79SdRuUVeu++HZD"
                        + "0cGAv4IOznc96w==")))
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: der)
        func entry(_ use: KeyUse, _ recorded: KeyUse) throws -> KeyEntry {
            let index = KeyIndex()
            let shown = KeyDescription(
                identifier: hash.bytes, label: Self.merchant, algorithm: .ec, use: use, subjectPublicKeyInfo: der,
                certificates: [], isProtected: true, inconsistency: nil)
            var record = Self.record(1, use: recorded)
            record.publicKeyHash = hash
            index.rebuild(hsmTokens: [("primary", [shown])], keyRecords: [record], now: Self.now)
            return try #require(index.entry(hash))
        }
        let key = try entry(.processing, .googlePay)
        #expect(key.condition == .served && key.use == .googlePay && key.warnings.isEmpty)
        #expect(key.decrypts(at: Self.now) && !key.signs(at: Self.now))
        guard case .inconsistent = try entry(.service, .googlePay).condition else {
            Issue.record("a key that signs is served for Google Pay")
            return
        }
    }
}
