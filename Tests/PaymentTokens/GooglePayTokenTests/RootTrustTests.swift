import Crypto
import Foundation
import GooglePayToken
import Refusals
import StrictJSON
import TestSupport
import Testing
import TokenForge

@Suite("Google's accepted and fetched root keys")
struct RootTrustTests {
    private static let forges = (0..<3).map { _ in GooglePayForge() }
    private static let (soon, later) = (
        Date(timeIntervalSince1970: 1_900_000_000), Date(timeIntervalSince1970: 2_000_000_000)
    )

    private static func keys(_ places: [Int], until expiration: Date = later) throws -> [GoogleRootKey] {
        try GoogleRootKeys(
            parsing: GooglePayText.rootKeys(
                places.map { (forges[$0].root.publicKey, "ECv2", GooglePayText.time(expiration)) })
        ).keys
    }

    @Test("trusts a key that both files have, and names those of one file only")
    func both() throws {
        let trust = try GoogleRootTrust(accepted: Self.keys([0, 1]), fetched: Self.keys([1, 2]))
        #expect(try trust.trusted.keys == Self.keys([1]))
        #expect(try trust.notAccepted == Self.keys([2]))
        #expect(try trust.vanished == Self.keys([0]))
    }

    @Test("ends a key at the earlier of both expirations, so that the account that fetches prolongs none")
    func expirations() throws {
        for (accepted, fetched) in [(Self.soon, Self.later), (Self.later, Self.soon)] {
            let trust = try GoogleRootTrust(
                accepted: Self.keys([0], until: accepted), fetched: Self.keys([0], until: fetched))
            #expect(trust.trusted.keys.map(\.expiration) == [Self.soon])
        }
    }

    @Test("trusts every accepted key without a fetched file, and none if no key is in both")
    func ends() throws {
        let accepted = try Self.keys([0, 1])
        #expect(GoogleRootTrust(accepted: accepted, fetched: nil).trusted.keys == accepted)
        let foreign = try GoogleRootTrust(accepted: accepted, fetched: Self.keys([2]))
        #expect(foreign.trusted.keys.isEmpty && foreign.vanished == accepted)
        let envelope = try Self.forges[0].mint(
            [1], to: P256.KeyAgreement.PrivateKey().publicKey, recipient: "merchant:BCR2", expiration: Self.soon)
        let token = try GooglePayToken(json: JSONValue(parsing: envelope.json))
        let merchant = try #require(GooglePayMerchant("BCR2"))
        let refusal = try #require(throws: Refusal.self) {
            try token.verify(for: merchant, under: foreign.trusted, at: Self.soon.addingTimeInterval(-1))
        }
        #expect(refusal.code == .certificateUntrusted)
    }

    @Test("trusts a new key without a person only if the configuration says so, and then not the TEST key")
    func automatic() throws {
        let test = try GoogleRootKeys(parsing: Fixtures.googlePayTestRoots).keys
        let fetched = try Self.keys([1]) + test
        let automatic = try GoogleRootTrust(accepted: Self.keys([0]), fetched: fetched, acceptsAll: true)
        #expect(try automatic.trusted.keys == Self.keys([1]) && automatic.notAccepted == test)
        #expect(try GoogleRootTrust(accepted: Self.keys([0]), fetched: fetched).trusted.keys.isEmpty)
    }

    @Test("reads what it writes, with the times of the fetch or without, to the millisecond of each expiration")
    func written() throws {
        let keys = try Self.keys([0, 1], until: Date(timeIntervalSince1970: 2_154_841_200.123))
        for fetch in [GoogleRootFile.Fetch(at: Self.soon, freshUntil: Self.later), nil] {
            let file = GoogleRootFile(keys: keys, fetch: fetch)
            #expect(try GoogleRootFile(parsing: file.json) == file)
            #expect(try GoogleRootKeys(parsing: file.json).keys == keys)
        }
    }

    @Test(
        "refuses times of a fetch that are not two times",
        arguments: [
            #""fetchedAt": "yesterday", "freshUntil": "2026-01-01T00:00:00Z""#, #""fetchedAt": "2026-01-01T00:00:00Z""#,
            #""fetchedAt": 1, "freshUntil": 2"#,
        ])
    func times(_ members: String) throws {
        let json = try String(decoding: GoogleRootFile(keys: Self.keys([0])).json, as: UTF8.self)
        #expect(throws: (any Error).self) {
            try GoogleRootFile(parsing: Array(json.replacing("{\"keys\"", with: "{\(members), \"keys\"").utf8))
        }
    }
}
