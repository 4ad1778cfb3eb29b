import Crypto
import Foundation
import KeyTypes
import PKCS11
import SecretMemory
import StrictJSON
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import HSMWorker

/// Google Pay's ECv2 in the worker: the tiers of each library, compared with swift-crypto and with Google's TEST tokens.
@Suite struct GooglePayTierTests {
    /// The encrypted part of a message, as the forge seals it.
    private struct Sealed {
        var point: [UInt8]
        var ciphertext: [UInt8]
        var tag: [UInt8]

        init(signedMessage: String) throws {
            let members = try #require(JSONValue(parsing: signedMessage).objectValue)
            func bytes(_ name: String) throws -> [UInt8] {
                Array(try #require(Data(base64Encoded: members[name]?.stringValue ?? "")))
            }
            (point, ciphertext, tag) = (
                try bytes("ephemeralPublicKey"), try bytes("encryptedMessage"), try bytes("tag")
            )
        }

        func decryption(with publicKeyHash: [UInt8]) -> Decryption {
            Decryption(
                publicKeyHash: publicKeyHash, scheme: .ecV2, keyMaterial: point, otherInfo: [],
                ciphertext: ciphertext + tag)
        }
    }

    private static func key() throws -> P256.KeyAgreement.PrivateKey {
        try P256.KeyAgreement.PrivateKey(derRepresentation: SharedForge.ecMerchant.key.pkcs8)
    }

    /// Messages of many sizes; every fourth has one of seven faults. The point is exchanged in one of them, so that
    /// faults outside the ciphertext are among them.
    private static func messages(_ count: Int) throws -> [Sealed] {
        let key = try key()
        return try (0..<count).map { number in
            let plaintext = (0..<(1 + number * 37 % 900)).map { _ in UInt8.random(in: .min ... .max) }
            var sealed = try Sealed(signedMessage: GooglePaySealing(plaintext, to: key.publicKey).signedMessage)
            guard number % 4 == 3 else { return sealed }
            switch number / 4 % 7 {
            case 0: sealed.tag[number % 32] ^= 1
            case 1: sealed.ciphertext[number % sealed.ciphertext.count] ^= 0x80
            case 2: sealed.point = Array(P256.KeyAgreement.PrivateKey().publicKey.x963Representation)
            case 3:
                let other = P256.KeyAgreement.PrivateKey().publicKey
                sealed = try Sealed(signedMessage: GooglePaySealing(plaintext, to: other).signedMessage)
            case 4: (sealed.ciphertext, sealed.tag) = (sealed.tag, Array(sealed.ciphertext.prefix(32)))
            case 5: sealed.ciphertext.removeLast()
            default: sealed.ciphertext.append(0)
            }
            return sealed
        }
    }

    @Test("opens the same messages to the same bytes as swift-crypto, at the tier of each library")
    func differential() async throws {
        let (key, messages) = (try Self.key(), try Self.messages(84))
        let expected = try messages.map { message in
            try GooglePaySealing.open(
                message.ciphertext, tag: message.tag, ephemeralPublicKey: message.point, with: key)
        }
        #expect(expected.count { $0 == nil } == 21)
        let publicKeyHash = Array(SHA256.hash(data: try SharedForge.ecMerchant.key.subjectPublicKeyInfo))
        for kind in TokenKind.installed {
            let hsmToken = try await kind.fresh()
            let worker = try WorkerUnderTest(hsmToken)
            let description = try await worker.open(hsmToken)
            #expect(description.tierECv2 == kind.tierECv2 && description.shortcomingECv2.isEmpty, "\(kind)")
            try await worker.mustImport(SharedForge.ecMerchant, description)
            for (message, plaintext) in zip(messages, expected) {
                let answer = try await worker.call(.decrypt(message.decryption(with: publicKeyHash)))
                if let plaintext {
                    #expect(answer == .plaintext(plaintext, tier: kind.tierECv2), "\(kind)")
                } else {
                    #expect(answer.failureKind == .decryptionFailed, "\(kind)")
                }
            }
            #expect(try await worker.end() == 0)
        }
    }

    @Test("refuses every malformed input with decryptionFailed, and serves the next message")
    func malformed() async throws {
        let genuine = try Self.messages(1)[0]
        let publicKeyHash = Array(SHA256.hash(data: try SharedForge.ecMerchant.key.subjectPublicKeyInfo))
        let rsaHash = Array(SHA256.hash(data: try SharedForge.rsaMerchant.key.subjectPublicKeyInfo))
        var offCurve = genuine.decryption(with: publicKeyHash)
        offCurve.keyMaterial[64] ^= 1
        var compressed = genuine.decryption(with: publicKeyHash)
        compressed.keyMaterial = [2 + compressed.keyMaterial[64] % 2] + compressed.keyMaterial[1..<33]
        var faults = [offCurve, compressed, genuine.decryption(with: rsaHash)]
        for size in [0, 1, 31, 32] {
            var short = genuine.decryption(with: publicKeyHash)
            short.ciphertext = Array(short.ciphertext.prefix(size))
            faults.append(short)
        }
        for kind in TokenKind.installed {
            let hsmToken = try await kind.fresh()
            let worker = try WorkerUnderTest(hsmToken)
            let description = try await worker.open(hsmToken)
            try await worker.mustImport(SharedForge.ecMerchant, description)
            try await worker.mustImport(SharedForge.rsaMerchant, description)
            for fault in faults {
                #expect(try await worker.call(.decrypt(fault)).failureKind == .decryptionFailed, "\(kind)")
                let answer = try await worker.call(.decrypt(genuine.decryption(with: publicKeyHash)))
                guard case .plaintext = answer else {
                    Issue.record("\(kind): \(answer)")
                    continue
                }
            }
        }
    }

    @Test(
        "opens Google's TEST tokens with their keys, to what swift-crypto opens them to",
        .enabled(if: Fixtures.directory != nil, "set PAYTOKEND_INTEROP_FIXTURES to a folder of real tokens"))
    func realTokens() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        try realTokens([ECDHSecretTier(scheme: .ecV2)], &session)
        guard NSSSoftoken.isInstalled else { return }
        try NSSSoftoken.alone { session in try realTokens([HKDFTier(), ECDHSecretTier(scheme: .ecV2)], &session) }
    }

    private func realTokens(_ tiers: [any RestorationTier], _ session: inout Session) throws {
        let fixtures = try Fixtures.googlePayTokens()
        #expect(fixtures.count == 3)
        for fixture in fixtures {
            let envelope = try #require(JSONValue(parsing: fixture.json).objectValue)
            let message = try Sealed(signedMessage: try #require(envelope["signedMessage"]?.stringValue))
            let key = try P256.KeyAgreement.PrivateKey(pemRepresentation: fixture.privateKey)
            let plaintext = try GooglePaySealing.open(
                message.ciphertext, tag: message.tag, ephemeralPublicKey: message.point, with: key)
            #expect(plaintext.map { String(decoding: $0, as: UTF8.self).contains("\"messageId\"") } == true)
            let pkcs8 = try PrivateKeyInfo(pkcs8: SecretBytes(copying: Array(key.derRepresentation)))
            let pair = try session.createTestPair(pkcs8, TestKeyPair.usage(.ec, .processing))
            let entry = PrivateKeyEntry(
                publicKey: try #require(try session.publicKey(pair.publicKey, .ec)), object: pair.privateKey,
                working: pair.privateKey)
            for tier in tiers {
                let opened = try tier.open(
                    message.decryption(with: entry.publicKey.publicKeyHash), with: entry, in: &session)
                #expect(opened == plaintext, "\(fixture.name) at tier \(tier.protection.rawValue)")
            }
            session.destroy([pair.privateKey, pair.publicKey])
        }
    }

    @Test(
        "reads no secret from the HSM token at tier B, and destroys every key that it derives",
        .enabled(if: NSSTokenDirectory.isInstalled, "needs Debian's libnss3"))
    func nothingRead() async throws {
        let hsmToken = try ScriptedToken(try await NSSTokenDirectory())
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        #expect(description.tierECv2 == .b)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        let publicKeyHash = Array(SHA256.hash(data: try SharedForge.ecMerchant.key.subjectPublicKeyInfo))
        let (genuine, before) = (try Self.messages(1)[0], hsmToken.calls().count)
        var forged = genuine
        forged.tag[0] ^= 1
        for message in [genuine, forged] {
            _ = try await worker.call(.decrypt(message.decryption(with: publicKeyHash)))
        }
        let calls = hsmToken.calls().dropFirst(before).map(\.function)
        #expect(!calls.contains("C_GetAttributeValue"))
        // ECDH, concatenation, HKDF and two extractions; without the second extraction where the tag is wrong.
        #expect(calls.count { $0 == "C_DeriveKey" } == 9)
        #expect(calls.count { $0 == "C_DestroyObject" } == 9)
        #expect(calls.count { $0 == "C_Sign" } == 2 && calls.count { $0 == "C_Decrypt" } == 1)
    }

    @Test("has no tier for ECv2 without extractable secrets on SoftHSM, and says so apart from Apple's shortcomings")
    func forbidden() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        let tiers = TierSelection(in: &session, allowExtractableSecret: false)
        #expect(tiers.chosen[.ecV2] == nil)
        for part in ["ECv2", "CKM_HKDF_DERIVE", "allow_extractable_secret is false"] {
            #expect(tiers.shortcomingECv2.contains(part), "\(tiers.shortcomingECv2)")
        }
        #expect(!tiers.shortcomings.contains { $0.contains("ECv2") })
        #expect(TierSelection(in: &session, allowExtractableSecret: true).chosen[.ecV2] is ECDHSecretTier)
    }

    @Test("has no tier for ECv2 on an HSM token without plain ECDH, and refuses its messages as not supported")
    func refused() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "one-step-kdf", "refuse-null-kdf")
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1)
        #expect(description.tierECv1 == .a && description.tierECv2 == nil)
        #expect(description.shortcomings.isEmpty && description.shortcomingECv2.contains("CKM_ECDH1_DERIVE"))
        try await worker.mustImport(SharedForge.ecMerchant, description)
        let publicKeyHash = Array(SHA256.hash(data: try SharedForge.ecMerchant.key.subjectPublicKeyInfo))
        let request = WorkerRequest.decrypt(try Self.messages(1)[0].decryption(with: publicKeyHash))
        #expect(try await worker.call(request).failureKind == .notSupported)
    }

    @Test("generates a Google Pay key, which has the rights of a processing key and needs no right to sign")
    func generates() async throws {
        for kind in TokenKind.installed {
            let hsmToken = try await kind.fresh()
            let worker = try WorkerUnderTest(hsmToken)
            try await worker.open(hsmToken)
            let order = KeyGeneration(merchantIdentifier: "BCR2DN4TEXAMPLE", algorithm: .ec, use: .googlePay)
            guard case .generatedKey(let key) = try await worker.call(.generateKey(order)) else {
                Issue.record("\(kind): no key")
                continue
            }
            #expect(key.use == .processing && key.isProtected && key.inconsistency == nil, "\(kind)")
            let point = Array(key.subjectPublicKeyInfo.suffix(65))
            let sealed = try Sealed(
                signedMessage: GooglePaySealing(
                    [1, 2, 3], to: P256.KeyAgreement.PublicKey(x963Representation: point)
                ).signedMessage)
            let answer = try await worker.call(.decrypt(sealed.decryption(with: key.identifier)))
            #expect(answer == .plaintext([1, 2, 3], tier: kind.tierECv2), "\(kind)")
            let rsa = KeyGeneration(merchantIdentifier: "BCR2DN4TEXAMPLE", algorithm: .rsa, use: .googlePay)
            #expect(try await worker.call(.generateKey(rsa)).failureKind == .importRefused)
        }
    }
}
