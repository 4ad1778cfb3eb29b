import Crypto
import Encodings
import Foundation
import GooglePayToken
import Testing
import TokenForge

@Suite("Google's root keys")
struct GoogleRootKeysTests {
    private let root = P256.Signing.PrivateKey().publicKey
    private static let time = GooglePayText.time(Fixture.tomorrow)

    @Test("Takes of a file only the keys for ECv2 that have an expiration")
    func entries() throws {
        let others = (0..<4).map { _ in P256.Signing.PrivateKey().publicKey }
        let keys = try GoogleRootKeys(
            parsing: GooglePayText.rootKeys([
                (others[0], "ECv1", nil), (others[1], "ECv1", Self.time), (root, "ECv2", Self.time),
                (others[2], "ECv2", nil), (others[3], "ECv2SigningOnly", Self.time),
            ]))
        #expect(keys.keys.map { Data($0.key.der) } == [root.derRepresentation])
        #expect(keys.keys.map(\.expiration) == [Fixture.tomorrow])
        #expect(keys.keys.map(\.sha256) == [Array(SHA256.hash(data: root.derRepresentation))])
    }

    @Test("Does not read the keys of other versions, which may be of other kinds")
    func otherVersions() throws {
        let file = String(decoding: GooglePayText.rootKeys([(root, "ECv2", Self.time)]), as: UTF8.self)
            .replacing("[{", with: "[{\"keyValue\":7,\"protocolVersion\":\"ECv9\"},{")
        #expect(try GoogleRootKeys(parsing: Array(file.utf8)).keys.count == 1)
    }

    @Test("Keeps an expired key, which counts no more when a payment token is verified")
    func expired() throws {
        #expect(try GoogleRootKeys(parsing: GooglePayText.rootKeys([(root, "ECv2", "1")])).keys.count == 1)
    }

    @Test("Recognises the key of Google's TEST environment")
    func test() throws {
        // Published by Google in the keys.json of its TEST environment.
        let published =
            "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEGnJ7Yo1sX9b4kr4Aa5uq58JRQfzD8bIJXw7WXaap/hVE+PnFxvjx4nVxt79SdRuUVeu++HZD0cGAv4IOznc96w=="
        let key = try P256.Signing.PublicKey(derRepresentation: #require(Data(base64Encoded: published)))
        let file = GooglePayText.rootKeys([(root, "ECv2", Self.time), (key, "ECv2", "2154841200000")])
        #expect(try GoogleRootKeys(parsing: file).keys.map(\.isTest) == [false, true])
    }

    @Test(
        "Refuses a file without a usable key, and one with a damaged key, and says which entry it is",
        arguments: [
            ("", "not JSON at byte 0"), ("{\"keys\":[],\"keys\":[]}", "a member name is repeated before byte 21"),
            ("[]", "not an object with an array keys of at most 16 entries"),
            ("{\"keys\":{}}", "not an object with an array keys of at most 16 entries"),
            ("{\"keys\":[]}", "no entry has the protocolVersion ECv2 and a keyExpiration"),
            ("{\"keys\":[1]}", "keys[0] has no text protocolVersion"),
            ("{\"keys\":[{\"protocolVersion\":2}]}", "keys[0] has no text protocolVersion"),
            ("{\"keys\":[\(entry("ECv1"))]}", "no entry has the protocolVersion ECv2 and a keyExpiration"),
            (
                "{\"keys\":[\(Array(repeating: entry("ECv2"), count: 17).joined(separator: ","))]}",
                "not an object with an array keys of at most 16 entries"
            ),
            (
                "{\"keys\":[\(entry("ECv1")),\(entry("ECv2", key: offCurve))]}",
                "keys[1].keyValue is not base64 of a P-256 SubjectPublicKeyInfo in DER, 91 bytes, with padding"
            ),
            (
                "{\"keys\":[\(entry("ECv2").replacing("\"\(time)\"", with: time))]}",
                "keys[0].keyExpiration is not a string of 1 to 15 digits, the milliseconds since 1970"
            ),
        ])
    func refused(file: String, reason: String) throws {
        let error = #expect(throws: UnsuitableKey.self) { _ = try GoogleRootKeys(parsing: Array(file.utf8)) }
        #expect(error?.reason == reason)
    }

    private static let offCurve: Data = {
        var der = P256.Signing.PrivateKey().publicKey.derRepresentation
        der[90] ^= 1
        return der
    }()

    private static func entry(_ version: String, key: Data = P256.Signing.PrivateKey().publicKey.derRepresentation)
        -> String
    {
        "{\"keyValue\":\"\(key.base64EncodedString())\",\"protocolVersion\":\"\(version)\",\"keyExpiration\":\"\(time)\"}"
    }
}
