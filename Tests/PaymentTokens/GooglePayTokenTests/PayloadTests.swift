import Crypto
import Foundation
import GooglePayToken
import PaymentToken
import Refusals
import StrictJSON
import TestSupport
import Testing
import TokenForge

@Suite("The plaintext of a Google Pay token")
struct GooglePayPayloadTests {
    private static let genuine = """
        {"messageExpiration":"1708953259025","messageId":"AH2E-jt_f","paymentMethod":"CARD","paymentMethodDetails":\
        {"expirationYear":2026,"expirationMonth":12,"pan":"4111111111111111","authMethod":"CRYPTOGRAM_3DS",\
        "cryptogram":"AgAA\\u003d","eciIndicator":"07"}}
        """

    /// Each text of the first column is replaced by that of the second one.
    static let malformed: [(String, String, String)] = [
        ("no messageExpiration", "messageExpiration", "expiration"),
        ("an expiration as a number", "\"1708953259025\"", "1708953259025"),
        ("an empty expiration", "1708953259025", ""), ("a negative expiration", "1708", "-1708"),
        ("an expiration of 16 digits", "1708953259025", "1708953259025000"),
        ("an expiration with a fraction", "1708953259025", "1708953259.025"),
        ("an expiration in Arabic digits", "1708953259025", "\u{0661}\u{0662}"),
        ("an expiration of null", "\"1708953259025\"", "null"), ("no messageId", "messageId", "message"),
        ("an empty messageId", "AH2E-jt_f", ""), ("a messageId as a number", "\"AH2E-jt_f\"", "7"),
        ("a messageId with a space", "AH2E-jt_f", "AH2E jt"), ("a messageId with a control", "AH2E-jt_f", "A\\u0000"),
        ("a messageId beyond ASCII", "AH2E-jt_f", "\u{E9}"),
        ("a messageId of 1025 characters", "AH2E-jt_f", String(repeating: "a", count: 1_025)),
        ("an expiration twice", "{\"messageE", "{\"messageExpiration\":\"1\",\"messageE"),
        ("a messageId twice, once with an escape", "{\"messageE", "{\"message\\u0049d\":\"1\",\"messageE"),
        ("a pan twice", "{\"expirationYear", "{\"pan\":\"4111111111111111\",\"expirationYear"),
        ("another payment method", "CARD", "TOKENIZED_CARD"), ("no payment method", "paymentMethod\"", "method\""),
        ("no details", "paymentMethodDetails", "details"),
        ("details as a string", "{\"messageE", "{\"paymentMethodDetails\":\"\",\"messageE"),
        ("another authMethod", "CRYPTOGRAM_3DS", "cryptogram_3ds"), ("no authMethod", "authMethod", "auth"),
        ("no pan", "\"pan\"", "\"dpan\""), ("a pan as a number", "\"4111111111111111\"", "4111111111111111"),
        ("a pan with letters", "4111111111111111", "411111111111111x"),
        ("a pan of 7 digits", "4111111111111111", "4111111"),
        ("a pan of 20 digits", "4111111111111111", "41111111111111111111"),
        ("no cryptogram", "cryptogram\":", "gram\":"), ("an empty cryptogram", "AgAA\\u003d", ""),
        ("a cryptogram of null", "\"AgAA\\u003d\"", "null"), ("a comment", "{\"messageE", "{/**/\"messageE"),
        ("single quotes", "\"CARD\"", "'CARD'"), ("a second value", "\"07\"}}", "\"07\"}}{}"),
        ("an unpaired surrogate", "\"07\"", "\"\\ud800\""), ("a byte order mark", "{\"messageE", "\u{FEFF}{\"messageE"),
        ("an array", "{\"messageE", "[{\"messageE"), ("nothing", genuine, ""),
        ("text that is no JSON", genuine, "plaintext"), ("a name without quotes", "\"messageId\"", "messageId"),
        ("an expiration with a sign", "1708953259025", "+1708953259025"),
    ]

    /// Members that no decision depends on, in forms that Google writes or may write.
    static let wellFormed: [(String, String, String)] = [
        ("as it is", "", ""), ("an unknown member", "{\"messageE", "{\"assuranceDetails\":{\"a\":[true]},\"messageE"),
        ("an unknown member of the details", "{\"expirationYear", "{\"assuranceDetails\":{},\"expirationYear"),
        ("no eciIndicator", ",\"eciIndicator\":\"07\"", ""),
        ("PAN_ONLY with a cryptogram", "CRYPTOGRAM_3DS", "PAN_ONLY"),
        ("PAN_ONLY without a cryptogram", "CRYPTOGRAM_3DS\",\"cryptogram\":\"AgAA\\u003d", "PAN_ONLY"),
        ("an expiration of 15 digits", "1708953259025", "999999999999999"),
        ("an expiration of 0", "1708953259025", "0"),
        ("a messageId of 1024 characters", "AH2E-jt_f", String(repeating: "~", count: 1_024)),
        ("an escape in the messageId", "AH2E", "\\u0041H2E"), ("white space around it", genuine, " \(genuine)\n"),
    ]

    private static func changed(_ change: (String, String, String)) -> [UInt8] {
        Array(change.1.isEmpty ? genuine.utf8 : genuine.replacing(change.1, with: change.2).utf8)
    }

    @Test("reads expiration, identifier and method of a message")
    func values() throws {
        let payload = try GooglePayPayload(plaintext: Array(Self.genuine.utf8))
        #expect(payload.messageExpiration == Date(timeIntervalSince1970: 1_708_953_259.025))
        #expect(payload.messageId == "AH2E-jt_f" && payload.authMethod == .cryptogram3DS)
    }

    @Test("agrees with the second opinion on every well-formed and malformed plaintext")
    func differential() async throws {
        let plaintexts = (Self.malformed + Self.wellFormed).map(Self.changed)
        let merchant = try #require(GooglePayMerchant(Fixture.merchant))
        let lifetime = Duration.seconds(604_800)
        let directory = try FreshDirectory()
        let file = try directory.write(
            Array(plaintexts.map { $0.hexadecimal }.joined(separator: "\n").utf8), to: "plaintexts")
        let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "open-google-pay").path
        let result = try await RunningProgram(
            "/usr/bin/env", ["python3", script, "--plaintexts", file, Fixture.merchant, "604800000"]
        ).result()
        #expect(result.status == 0, "\(result)")
        let opinions = result.output.split(separator: "\n").map(String.init)
        try #require(opinions.count == plaintexts.count)
        for (number, plaintext) in plaintexts.enumerated() {
            let isWellFormed = number >= Self.malformed.count
            var verdict = "malformed_token"
            if let payload = try? GooglePayPayload(plaintext: plaintext) {
                let times = GooglePayMessageTimes(expiration: payload.messageExpiration, lifetime: lifetime)
                let signedAt = Int((times.signedAt.timeIntervalSince1970 * 1_000).rounded())
                let claims = GooglePayClaims(
                    of: try #require(TransactionIdentifier(bytes: [UInt8](repeating: 7, count: 32))),
                    messageId: payload.messageId, for: merchant)
                verdict = "ok \(payload.authMethod.rawValue) \(signedAt) \(claims.messageId.hex)"
            }
            let name = (Self.malformed + Self.wellFormed)[number].0
            #expect(verdict == opinions[number], "\(name)")
            #expect(verdict.hasPrefix(isWellFormed ? "ok " : "malformed_token"), "\(name)")
        }
    }

    @Test("refuses bytes that are not UTF-8")
    func notUTF8() {
        let bytes = Array(Self.genuine.utf8)
        for place in bytes.indices where bytes[place] >= UInt8(ascii: "A") {
            var changed = bytes
            changed[place] = 0xff
            #expect(throws: Refusal.self) { _ = try GooglePayPayload(plaintext: changed) }
        }
    }

    @Test("names the member in a refusal, never its value, and is never printed")
    func secrecy() throws {
        for change in Self.malformed {
            let refusal = try #require(throws: Refusal.self, "\(change.0)") {
                _ = try GooglePayPayload(plaintext: Self.changed(change))
            }
            #expect(refusal.code == .malformedToken && refusal.details?.contains("paymentData") == true)
            for secret in ["4111111", "AgAA", "AH2E", "1708953259025"] {
                #expect(!refusal.reason.contains(secret), "\(change.0): \(refusal.reason)")
            }
        }
        let payload = try GooglePayPayload(plaintext: Array(Self.genuine.utf8))
        #expect("\(payload)" == "GooglePayPayload(not printable)")
    }

    @Test(
        "reads what Google's TEST tokens contain, about a week before they expire",
        .enabled(if: Fixtures.directory != nil, "set PAYTOKEND_INTEROP_FIXTURES to a folder of real tokens"))
    func real() throws {
        var methods: [GooglePayPayload.AuthMethod] = []
        for fixture in try Fixtures.googlePayTokens() {
            let paymentToken = try GooglePayToken(json: JSONValue(parsing: fixture.json))
            let plaintext = try #require(
                try GooglePaySealing.open(
                    paymentToken.encryptedMessage, tag: paymentToken.tag,
                    ephemeralPublicKey: paymentToken.ephemeralPublicKey,
                    with: P256.KeyAgreement.PrivateKey(pemRepresentation: fixture.privateKey)))
            methods.append(try GooglePayPayload(plaintext: plaintext).authMethod)
        }
        #expect(methods == [.panOnly, .panOnly, .cryptogram3DS])
    }
}

@Suite("The times of a Google Pay message")
struct GooglePayMessageTimesTests {
    private static let expiration = Date(timeIntervalSince1970: 1_800_000_000)
    private static let times = GooglePayMessageTimes(expiration: expiration, lifetime: .seconds(7 * 86_400))

    private static func fault(_ seconds: Double, window: Duration? = .seconds(300)) -> GooglePayMessageTimes.Fault? {
        times.fault(at: expiration.addingTimeInterval(seconds), window: window)
    }

    @Test("counts a message as signed one lifetime before its expiration")
    func signingTime() {
        #expect(Self.times.signedAt == Date(timeIntervalSince1970: 1_799_395_200))
    }

    @Test("releases a message from one window before its signing time until just before its expiration")
    func limits() {
        let lifetime = 7 * 86_400.0
        #expect(Self.fault(-lifetime - 300.5) == .signedInFuture)
        #expect(Self.fault(-lifetime - 300) == nil)
        #expect(Self.fault(-lifetime) == nil)
        #expect(Self.fault(-0.001) == nil)
        #expect(Self.fault(0) == .expired)
        #expect(Self.fault(86_400) == .expired)
    }

    @Test("judges only the expiration while the window is off")
    func windowOff() {
        #expect(Self.fault(-30 * 86_400, window: nil) == nil)
        #expect(Self.fault(0, window: nil) == .expired)
    }
}

@Suite("The claims of a Google Pay message")
struct GooglePayClaimsTests {
    private static func transaction(_ byte: UInt8) throws -> TransactionIdentifier {
        try #require(TransactionIdentifier(bytes: [UInt8](repeating: byte, count: 32)))
    }

    private static func merchant(_ name: String) throws -> GooglePayMerchant { try #require(GooglePayMerchant(name)) }

    @Test("are the SHA-256 of length-prefixed parts with wallet, kind and merchant")
    func form() throws {
        let claims = GooglePayClaims(of: try Self.transaction(1), messageId: "id", for: try Self.merchant("BCR2"))
        func name(_ kind: String, _ value: Data) -> [UInt8] {
            var hash = SHA256()
            for part in [
                Data("paytokend claim".utf8), Data("google-pay".utf8), Data(kind.utf8), Data("BCR2".utf8), value,
            ] {
                hash.update(data: [UInt8(part.count), 0, 0, 0])
                hash.update(data: part)
            }
            return Array(hash.finalize())
        }
        #expect(claims.signedMessage.bytes == name("signed-message", Data(repeating: 1, count: 32)))
        #expect(claims.messageId.bytes == name("message-id", Data("id".utf8)))
    }

    @Test("differ between kinds, merchants, values, and places at which texts are divided")
    func separation() throws {
        let (one, two) = (try Self.transaction(1), try Self.transaction(2))
        let (merchant, other) = (try Self.merchant("AB"), try Self.merchant("A"))
        let text = String(repeating: "\u{1}", count: 32)
        let all = [
            GooglePayClaims(of: one, messageId: "C", for: merchant),
            GooglePayClaims(of: two, messageId: "D", for: merchant),
            GooglePayClaims(of: one, messageId: "BC", for: other),
            GooglePayClaims(of: two, messageId: text, for: other),
        ]
        let names = all.flatMap { [$0.signedMessage, $0.messageId] }
        #expect(Set(names).count == names.count)
        #expect(
            !names.contains(one) && !names.contains(two), "no claim has the name that Apple could give a transaction")
    }

    @Test("have one name of the signed bytes before and after decryption")
    func beforeDecryption() throws {
        let (transaction, merchant) = (try Self.transaction(9), try Self.merchant("BCR2"))
        #expect(
            GooglePayClaims.name(ofSignedMessage: transaction, for: merchant)
                == GooglePayClaims(of: transaction, messageId: "x", for: merchant).signedMessage)
    }
}
