import Crypto
import Encodings
import Foundation
import TestSupport
import Testing
import TokenForge

@testable import GooglePayToken

@Suite("The signatures of a Google Pay token")
struct GooglePaySignatureTests {
    @Test("Accepts a genuine payment token in both forms, and returns the root key that signed the intermediate key")
    func genuine() throws {
        let json = try Fixture.envelope().json
        let (_, root) = try Fixture.verified(json)
        #expect(Data(root.key.der) == Fixture.forge.root.publicKey.derRepresentation)
        #expect(root.expiration == Fixture.tomorrow)
        #expect(!root.isTest)
        #expect(try Fixture.verdict(JSONText.string(json)) == "ok")
    }

    @Test("Writes each signed part after its length in four little-endian bytes")
    func signedBytes() {
        #expect(
            GooglePayToken.signedBytes([Array("Google".utf8), [], [UInt8](repeating: 7, count: 258)])
                == [6, 0, 0, 0, 0x47, 0x6F, 0x6F, 0x67, 0x6C, 0x65, 0, 0, 0, 0, 2, 1, 0, 0]
                + [UInt8](repeating: 7, count: 258))
    }

    @Test(
        "Refuses a payment token of another merchant",
        arguments: ["1234567890123456789", "123456789012345678901", "other"])
    func merchants(merchant: String) throws {
        #expect(try Fixture.verdict(Fixture.envelope().json, for: merchant) == "signature_invalid")
    }

    @Test(
        "Refuses a signature for another recipient, sender or version",
        arguments: [
            ("gateway:\(Fixture.merchant)", "Google", "ECv2"), (Fixture.merchant, "Google", "ECv2"),
            (Fixture.recipient, "google", "ECv2"), (Fixture.recipient, "Google", "ECv1"),
            (Fixture.recipient, "Google", "ECv2SigningOnly"), ("Merchant:\(Fixture.merchant)", "Google", "ECv2"),
        ])
    func otherParts(recipient: String, sender: String, version: String) throws {
        var envelope = try Fixture.envelope()
        try Fixture.forge.sign(&envelope, recipient: recipient, sender: sender, version: version)
        #expect(try Fixture.verdict(envelope.json) == "signature_invalid")
    }

    @Test("Refuses signatures that were changed, stripped or moved", arguments: changes)
    func changed(change: Change) async throws {
        let genuine = try Fixture.envelope()
        let json = try change.json(genuine)
        #expect(json != genuine.json)
        #expect(try Fixture.verdict(json) == "signature_invalid")
        #expect(try await Fixture.secondOpinion(Array(json.utf8)) == ["signature_invalid"])
    }

    private static let changes: [Change] = [
        Change("the message with a space at its end") { $0.signedMessage += " " },
        Change("the signed key with a space at its end") { $0.signedKey += " " },
        Change("escapes of the message written as the characters") { $0.signedMessage.replace("\\u003d", with: "=") },
        Change("escapes of the signed key written as the characters") { $0.signedKey.replace("\\u003d", with: "=") },
        Change("escapes in upper case") { $0.signedMessage.replace("\\u003d", with: "\\u003D") },
        Change("members of the signed key in another order") {
            let members = $0.signedKey.dropFirst().dropLast().split(separator: ",")
            $0.signedKey = "{\(members.reversed().joined(separator: ","))}"
        },
        Change("a later expiration of the intermediate key") {
            $0.signedKey.replace(GooglePayText.time(Fixture.tomorrow), with: "999999999999999")
        },
        Change("the two signatures exchanged") { envelope in
            let signature = envelope.signature
            envelope.signature = envelope.signatures[0]
            envelope.signatures = [signature]
        },
        Change("a message signed by the root key, with no part of the intermediate key") {
            $0.signature = try GooglePayForge.signature(
                of: ["Google", Fixture.recipient, "ECv2", $0.signedMessage], by: Fixture.forge.root)
        },
        Change("an intermediate key signed by itself") {
            $0.signatures = [
                try GooglePayForge.signature(of: ["Google", "ECv2", $0.signedKey], by: Fixture.forge.intermediateKey)
            ]
        },
        Change("an intermediate key signed as a message") {
            $0.signatures = [
                try GooglePayForge.signature(
                    of: ["Google", Fixture.recipient, "ECv2", $0.signedKey], by: Fixture.forge.root)
            ]
        },
        Change("parts whose boundary is moved by one byte") {
            $0.signature = try GooglePayForge.signature(
                of: ["Google", "\(Fixture.recipient)E", "Cv2", $0.signedMessage], by: Fixture.forge.intermediateKey)
        },
        Change("parts without their lengths") { envelope in
            let bytes = Data("Google\(Fixture.recipient)ECv2\(envelope.signedMessage)".utf8)
            envelope.signature = try signature(over: bytes)
        },
        Change("lengths in big-endian order") { envelope in
            var bytes = Data()
            for part in ["Google", Fixture.recipient, "ECv2", envelope.signedMessage] {
                bytes += [0, 0, UInt8(part.utf8.count >> 8), UInt8(part.utf8.count & 0xFF)] + Array(part.utf8)
            }
            envelope.signature = try signature(over: bytes)
        },
        Change("the signature's r and s without DER") { envelope in
            let der = try #require(Data(base64Encoded: envelope.signature))
            envelope.signature = try P256.Signing.ECDSASignature(derRepresentation: der).rawRepresentation
                .base64EncodedString()
        },
        Change("a byte after the signature's DER") { envelope in
            let der = try #require(Data(base64Encoded: envelope.signature))
            envelope.signature = (der + [0]).base64EncodedString()
        },
        Change("a length of the signature's DER in two bytes") { envelope in
            let der = try #require(Data(base64Encoded: envelope.signature))
            envelope.signature = (der.prefix(1) + [0x81] + der.dropFirst()).base64EncodedString()
        },
        Change("r and s zero") { $0.signature = Data([0x30, 6, 2, 1, 0, 2, 1, 0]).base64EncodedString() },
        Change("one byte as each signature") { ($0.signature, $0.signatures) = ("AA==", ["AA=="]) },
    ]

    private static func signature(over bytes: Data) throws -> String {
        try Fixture.forge.intermediateKey.signature(for: bytes).derRepresentation.base64EncodedString()
    }

    @Test("Accepts an intermediate key of which any one signature is by any trusted root key")
    func severalSignatures() async throws {
        let other = GooglePayForge(intermediateKey: Fixture.forge.intermediateKey)
        var envelope = try Fixture.envelope()
        let foreign = try GooglePayForge.signature(of: ["Google", "ECv2", envelope.signedKey], by: other.root)
        let genuine = envelope.signatures[0]
        let roots = GooglePayText.rootKeys(
            [other.root, Fixture.forge.root].map { ($0.publicKey, "ECv2", GooglePayText.time(Fixture.tomorrow)) })
        // A signature by another algorithm is longer than ECDSA's on P-256.
        let unknown = Data(repeating: 7, count: 512).base64EncodedString()
        for (signatures, expected) in [
            ([foreign, genuine], "ok"), ([genuine, foreign], "ok"), ([unknown, genuine], "ok"),
            ([foreign, foreign], "signature_invalid"), ([unknown], "signature_invalid"),
            (Array(repeating: foreign, count: 7) + [genuine], "ok"),
        ] {
            envelope.signatures = signatures
            #expect(try Fixture.verdict(envelope.json) == expected)
            #expect(try await Fixture.secondOpinion(Array(envelope.json.utf8)).first == expected)
            let isForeign = signatures.contains(foreign)
            #expect(try Fixture.verdict(envelope.json, under: roots) == (isForeign ? "ok" : expected))
        }
    }

    @Test("Accepts further members of the signed key, which Google may add")
    func furtherMembers() throws {
        var envelope = try Fixture.envelope()
        envelope.signedKey = "{\"note\":{\"a\":[1]}," + envelope.signedKey.dropFirst()
        try Fixture.forge.sign(&envelope, recipient: Fixture.recipient)
        #expect(try Fixture.verdict(envelope.json) == "ok")
    }

    @Test("Refuses an intermediate key from the millisecond of its expiration on")
    func intermediateExpiration() async throws {
        let envelope = try Fixture.envelope(expiration: Fixture.now)
        let before = Fixture.now.addingTimeInterval(-0.001)
        #expect(try Fixture.verdict(envelope.json, at: before) == "ok")
        #expect(try Fixture.verdict(envelope.json) == "certificate_untrusted")
        #expect(try await Fixture.secondOpinion(Array(envelope.json.utf8), at: before).first == "ok")
        #expect(try await Fixture.secondOpinion(Array(envelope.json.utf8)) == ["certificate_untrusted"])
    }

    @Test("Refuses a root key from the millisecond of its expiration on")
    func rootExpiration() async throws {
        let json = try Fixture.envelope().json
        let roots = Fixture.forge.rootKeys(expiration: Fixture.now)
        let before = Fixture.now.addingTimeInterval(-0.001)
        #expect(try Fixture.verdict(json, under: roots, at: before) == "ok")
        #expect(try Fixture.verdict(json, under: roots) == "certificate_untrusted")
        #expect(try await Fixture.secondOpinion(Array(json.utf8), under: roots) == ["certificate_untrusted"])
        // With another key that has not expired, the environment may be a wrong one.
        let mixed = GooglePayText.rootKeys([
            (Fixture.forge.root.publicKey, "ECv2", GooglePayText.time(Fixture.now)),
            (GooglePayForge().root.publicKey, "ECv2", GooglePayText.time(Fixture.tomorrow)),
        ])
        #expect(try Fixture.verdict(json, under: mixed) == "signature_invalid")
    }

    @Test("Refuses a payment token of another environment: its root key is not in the file")
    func otherEnvironment() throws {
        let json = try Fixture.envelope(by: GooglePayForge()).json
        #expect(try Fixture.verdict(json) == "signature_invalid")
    }

    @Test("Accepts the other s of an ECDSA signature without another transactionId, so that it is no second payment")
    func otherS() throws {
        var envelope = try Fixture.envelope()
        let genuine = try Fixture.verified(envelope.json).0
        let der = try #require(Data(base64Encoded: envelope.signature))
        let raw = try P256.Signing.ECDSASignature(derRepresentation: der).rawRepresentation
        // n − s, with the order n of P-256's group (SEC 2 §2.4.2), from the last byte on.
        let order = try #require(
            [UInt8](hexadecimal: "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"))
        var (difference, borrow) = ([UInt8](repeating: 0, count: 32), 0)
        for place in (0..<32).reversed() {
            let digit = Int(order[place]) - Int(raw[32 + place]) - borrow
            (difference[place], borrow) = (UInt8(digit & 0xFF), digit < 0 ? 1 : 0)
        }
        let other = try P256.Signing.ECDSASignature(rawRepresentation: raw.prefix(32) + difference).derRepresentation
        envelope.signature = other.base64EncodedString()
        #expect(other != der)
        #expect(try Fixture.verified(envelope.json).0.transactionIdentifier == genuine.transactionIdentifier)
    }

    @Test(
        "Takes as a merchant's identifier only what can be one of Google's",
        arguments: [
            ("BCR2DN4TEXAMPLE", true), ("a-b_9", true), (String(repeating: "1", count: 64), true), ("", false),
            (String(repeating: "1", count: 65), false), ("merchant:1", false), ("merchant.com.example", false),
            ("a b", false), ("é", false), ("a/b", false), ("a+b", false), ("a\n", false), ("１", false),
        ])
    func merchantIdentifiers(text: String, isOne: Bool) {
        #expect((GooglePayMerchant(text) != nil) == isOne)
    }
}

@Suite("The remembered signatures of root keys over Google's intermediate keys")
struct VerifiedKeySignaturesTests {
    private let roots = (1...3).map { _ in P256.Signing.PrivateKey() }

    private func rootKeys(_ places: Int...) throws -> [GoogleRootKey] {
        try places.map { place in
            GoogleRootKey(
                key: try SubjectPublicKeyInfo(.ec(point: Array(roots[place].publicKey.x963Representation))),
                expiration: Fixture.tomorrow)
        }
    }

    private func signature(of bytes: [UInt8], by root: Int) throws -> [UInt8] {
        Array(try roots[root].signature(for: bytes).derRepresentation)
    }

    @Test("Remembers a valid signature, and accepts it again for the same root key and the same bytes alone")
    func remembered() throws {
        let known = VerifiedKeySignatures()
        let genuine = try signature(of: [1, 2, 3], by: 1)
        for _ in 1...2 {
            #expect(known.signer(of: [1, 2, 3], [genuine], among: try rootKeys(0, 1)) == (try rootKeys(1)[0]))
            #expect(known.count == 1)
        }
        #expect(known.signer(of: [1, 2, 4], [genuine], among: try rootKeys(0, 1)) == nil)
        #expect(known.signer(of: [1, 2, 3], [genuine], among: try rootKeys(0, 2)) == nil)
        #expect(known.signer(of: [1, 2, 3], [genuine], among: []) == nil)
        #expect(known.signer(of: [1, 2, 3], [genuine.dropLast() + [0]], among: try rootKeys(0, 1)) == nil)
        #expect(known.count == 1)
    }

    @Test("Remembers no signature that is not by a root key, and no more than its capacity")
    func bounded() throws {
        let known = VerifiedKeySignatures(capacity: 2)
        #expect(known.signer(of: [1], [try signature(of: [1], by: 2), [0, 1]], among: try rootKeys(0, 1)) == nil)
        #expect(known.count == 0)
        for byte in UInt8(1)...4 {
            #expect(known.signer(of: [byte], [try signature(of: [byte], by: 0)], among: try rootKeys(0)) != nil)
            #expect(known.count == min(Int(byte), 2))
        }
    }

    @Test("Checks expirations and trusted root keys again for a remembered intermediate key")
    func checkedAgain() throws {
        let json = try Fixture.envelope().json
        #expect(try Fixture.verdict(json) == "ok")
        #expect(try Fixture.verdict(json, at: Fixture.tomorrow) == "certificate_untrusted")
        #expect(
            try Fixture.verdict(json, under: GooglePayForge().rootKeys(expiration: Fixture.tomorrow))
                == "signature_invalid")
        #expect(try Fixture.verdict(json) == "ok")
    }
}
