import Crypto
import Foundation
import GooglePayToken
import Refusals
import StrictJSON
import Testing
import TokenForge

@Suite("The form of a Google Pay token")
struct GooglePayEnvelopeTests {
    @Test("Reads the object, and the string with the object that Google delivers, to the same parts")
    func forms() throws {
        let envelope = try Fixture.envelope()
        let object = try GooglePayToken(json: JSONValue(parsing: envelope.json))
        #expect(try GooglePayToken(json: .string(envelope.json)) == object)
        #expect(try GooglePayToken(json: .string(" \n" + envelope.json + "\t")) == object)
        #expect(object.signedMessage == Array(envelope.signedMessage.utf8))
        #expect(object.ephemeralPublicKey.count == 65 && object.tag.count == 32)
        #expect(object.encryptedMessage.count == GooglePayForge.plaintext(expiring: Fixture.tomorrow).count)
        #expect(object.intermediateKey.expiration == Fixture.tomorrow)
        #expect(
            Data(object.intermediateKey.key.der) == Fixture.forge.intermediateKey.publicKey.derRepresentation)
    }

    @Test("Names the payment by the SHA-256 of signedMessage")
    func identifier() throws {
        let envelope = try Fixture.envelope()
        let digest = SHA256.hash(data: Data(envelope.signedMessage.utf8)).map { String(format: "%02x", $0) }.joined()
        #expect(try GooglePayToken(json: JSONValue(parsing: envelope.json)).transactionIdentifier.hex == digest)
    }

    @Test(
        "Refuses other versions as unsupported before it reads anything else",
        arguments: ["ECv1", "ECv2SigningOnly", "ecv2", "ECv3", ""])
    func versions(version: String) throws {
        #expect(try Fixture.verdict("{\"protocolVersion\":\"\(version)\"}") == "unsupported_version")
        var envelope = try Fixture.envelope()
        envelope.protocolVersion = version
        try Fixture.forge.sign(&envelope, recipient: Fixture.recipient, version: version)
        #expect(try Fixture.verdict(envelope.json) == "unsupported_version")
    }

    @Test("Refuses every departure from Google's form", arguments: outer + inner)
    func malformed(change: Change) async throws {
        let genuine = try Fixture.envelope()
        let json = try change.json(genuine)
        #expect(json != genuine.json, "the change must change something")
        #expect(try Fixture.verdict(json) == "malformed_token")
        #expect(try await Fixture.secondOpinion(Array(json.utf8)) == ["malformed_token"])
    }

    @Test("Never repeats a part of the payment token in a refusal, and never prints the payment token")
    func secrecy() throws {
        let genuine = try Fixture.envelope()
        for change in Self.outer + Self.inner {
            guard let value = try? JSONValue(parsing: try change.json(genuine)) else { continue }
            let refusal = try #require(throws: Refusal.self) { _ = try GooglePayToken(json: value) }
            for part in [genuine.signature, "4111111111111111", "unknownMember"] {
                #expect(!refusal.reason.contains(part), "\(change.testDescription)")
            }
        }
        let paymentToken = try GooglePayToken(json: JSONValue(parsing: genuine.json))
        #expect("\(paymentToken)" == "GooglePayToken(not printable)")
    }

    private static let outer: [Change] = [
        Change("an array", text: { "[\($0.json)]" }),
        Change("a string in a string", text: { JSONText.string(JSONText.string($0.json)) }),
        Change("a string without JSON", text: { _ in "\"ECv2\"" }),
        Change("two values in the string", text: { JSONText.string($0.json + $0.json) }),
        Change("a byte order mark in the string", text: { JSONText.string("\u{FEFF}" + $0.json) }),
        Change(
            "an unknown member",
            text: { $0.json.replacing("{\"signature\"", with: "{\"unknownMember\":1,\"signature\"") }),
        Change("no signature", text: { $0.json.replacing("\"signature\":\"\($0.signature)\",", with: "") }),
        Change("no protocolVersion", text: { $0.json.replacing("\"protocolVersion\":\"ECv2\",", with: "") }),
        Change("a comment", text: { $0.json.replacing("{\"signature\"", with: "{/* */\"signature\"") }),
        Change("single quotes", text: { $0.json.replacing("{\"signature\"", with: "{'signature'") }),
        Change("a name without quotes", text: { $0.json.replacing("{\"signature\"", with: "{signature") }),
        Change("protocolVersion as a number", text: { $0.json.replacing("\"ECv2\"", with: "2") }),
        Change(
            "a member twice", text: { $0.json.replacing("{\"signature\"", with: "{\"signature\":\"\",\"signature\"") }),
        Change(
            "a member twice, once with an escape",
            text: { $0.json.replacing("{\"signature\"", with: "{\"signatur\\u0065\":\"\",\"signature\"") }),
        Change(
            "a member twice inside a string",
            text: { envelope in
                JSONText.string(envelope.json.replacing("{\"signature\"", with: "{\"signature\":\"\",\"signature\""))
            }),
        Change(
            "an unpaired surrogate",
            text: { $0.json.replacing("\"signature\":\"", with: "\"signature\":\"\\ud800") }),
        Change(
            "signedMessage as an object",
            text: { envelope in
                envelope.json.replacing(JSONText.string(envelope.signedMessage), with: envelope.signedMessage)
            }),
        Change(
            "signedKey as an object",
            text: { envelope in
                envelope.json.replacing(JSONText.string(envelope.signedKey), with: envelope.signedKey)
            }),
        Change(
            "intermediateSigningKey null",
            text: { envelope in
                let start = envelope.json.range(of: "{\"signedKey\"")?.lowerBound ?? envelope.json.startIndex
                let end = envelope.json.range(of: "]}")?.upperBound ?? envelope.json.endIndex
                return envelope.json.replacingCharacters(in: start..<end, with: "null")
            }),
        Change(
            "an unknown member of intermediateSigningKey",
            text: { $0.json.replacing("{\"signedKey\"", with: "{\"unknownMember\":1,\"signedKey\"") }),
        Change(
            "signatures as a string",
            text: { envelope in
                envelope.json.replacing("[\"\(envelope.signatures[0])\"]", with: "\"\(envelope.signatures[0])\"")
            }),
        Change("a signature as a number", text: { $0.json.replacing("[\"\($0.signatures[0])\"]", with: "[1]") }),
        Change("no signature of the intermediate key") { $0.signatures = [] },
        Change("nine signatures") { $0.signatures = Array(repeating: $0.signatures[0], count: 9) },
        Change("an empty signature") { $0.signature = "" },
        Change("a signature of 513 bytes") { $0.signature = Data(repeating: 48, count: 513).base64EncodedString() },
        Change("a signature in the URL alphabet") { $0.signature = "-_" + $0.signature.dropFirst(2) },
        Change("a signature without padding") { $0.signature = String("AAAA" + "AA") },
        Change("a signature with set bits after its last byte") { $0.signature = "AAAAAB==" },
        Change("a signature with a line break") {
            $0.signature = $0.signature.prefix(64) + "\n" + $0.signature.dropFirst(64)
        },
        Change("signedMessage and signedKey exchanged") { swap(&$0.signedKey, &$0.signedMessage) },
        Change("signedMessage with spaces up to 16385 bytes") {
            $0.signedMessage += String(repeating: " ", count: 16_385 - $0.signedMessage.utf8.count)
        },
    ]

    private static let inner = messages + points + keys

    private static let messages: [Change] = {
        let replacements: [(String, String, String)] = [
            ("{\"encryptedMessage\"", "{\"unknownMember\":1,\"encryptedMessage\"", "an unknown member"),
            ("{\"encryptedMessage\"", "{\"tag\":\"\",\"encryptedMessage\"", "a member twice"),
            ("{\"encryptedMessage\"", "{/* */\"encryptedMessage\"", "a comment"),
            ("{\"encryptedMessage\"", "{'encryptedMessage'", "single quotes"),
            ("{\"encryptedMessage\"", "{encryptedMessage", "a name without quotes"),
            ("\"tag\"", "\"mac\"", "no tag"),
            ("\\u003d\"}", "\"}", "a tag without padding"),
            ("\"}", "\"},{}", "a second value"),
        ]
        return replacements.map { text, replacement, name in
            Change("signedMessage with \(name)") { $0.signedMessage.replace(text, with: replacement) }
        }
    }()

    private static let points: [Change] = {
        let point = P256.KeyAgreement.PrivateKey().publicKey.x963Representation
        let values: [(String, String, Data)] = [
            ("a tag of 31 bytes", "tag", Data(repeating: 1, count: 31)),
            ("a tag of 33 bytes", "tag", Data(repeating: 1, count: 33)),
            ("an empty ciphertext", "encryptedMessage", Data()),
            ("a point of 64 bytes", "ephemeralPublicKey", Data(point.dropFirst())),
            ("a compressed point", "ephemeralPublicKey", Data([2 + point[64] % 2]) + point[1..<33]),
            ("a hybrid point", "ephemeralPublicKey", Data([6 + point[64] % 2]) + point[1...]),
            ("a point off the curve", "ephemeralPublicKey", point.dropLast() + Data([point[64] ^ 1])),
            ("a coordinate above the prime", "ephemeralPublicKey", Data([4]) + Data(repeating: 255, count: 64)),
            ("the point 0, 0", "ephemeralPublicKey", Data([4]) + Data(repeating: 0, count: 64)),
        ]
        return values.map { name, member, bytes in
            Change("signedMessage with \(name)") {
                $0.signedMessage = try replacing(member, in: $0.signedMessage, by: bytes)
            }
        }
    }()

    private static let keys: [Change] = {
        let replacements: [(String, String, String)] = [
            ("keyExpiration as a number", "\"\(time)\"", time), ("an empty keyExpiration", time, ""),
            ("a keyExpiration of 16 digits", time, "1000000000000000"), ("a signed keyExpiration", time, "+1"),
            ("a keyExpiration with a fraction", time, "1.5"),
            ("a keyExpiration in Arabic digits", time, "\u{0661}\u{0662}"),
            ("a comment", "{", "{/* */"), ("single quotes", "\"keyValue\"", "'keyValue'"),
            ("a name without quotes", "\"keyValue\"", "keyValue"),
            ("a keyExpiration with a space", time, " 1"), ("no keyExpiration", "keyExpiration", "expiration"),
            ("keyExpiration twice", "{", "{\"keyExpiration\":\"1\","), ("no keyValue", "keyValue", "value"),
            ("an unpaired surrogate", "{", "{\"note\":\"\\udc00\","),
            ("a keyValue without padding", "\\u003d\\u003d", ""),
            ("a keyValue on another curve", "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE", "MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAE"),
        ]
        return replacements.map { name, text, replacement in
            Change("signedKey with \(name)") { $0.signedKey.replace(text, with: replacement) }
        } + [
            Change("signedKey with a point off the curve") { envelope in
                var der = Fixture.forge.intermediateKey.publicKey.derRepresentation
                der[90] ^= 1
                envelope.signedKey = try replacing("keyValue", in: envelope.signedKey, by: der)
            },
            Change("signedKey with a byte after the key") { envelope in
                let der = Fixture.forge.intermediateKey.publicKey.derRepresentation + [0]
                envelope.signedKey = try replacing("keyValue", in: envelope.signedKey, by: der)
            },
            Change("signedKey with spaces up to 4097 bytes") {
                $0.signedKey += String(repeating: " ", count: 4_097 - $0.signedKey.utf8.count)
            },
        ]
    }()

    private static let time = GooglePayText.time(Fixture.tomorrow)

    /// Replaces the value of a text member in the JSON of a signed text.
    private static func replacing(_ member: String, in text: String, by bytes: Data) throws -> String {
        let name = try #require(text.range(of: "\"\(member)\":\""))
        let end = try #require(text[name.upperBound...].firstIndex(of: "\""))
        return text.replacingCharacters(in: name.upperBound..<end, with: bytes.base64EncodedString())
    }
}
