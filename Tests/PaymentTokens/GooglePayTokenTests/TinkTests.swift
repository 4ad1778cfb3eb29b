import Crypto
import Foundation
import GooglePayToken
import TestSupport
import Testing
import TokenForge

/// The cases for ECv2 in Tink's PaymentMethodTokenRecipientTest.java (github.com/tink-crypto/tink-java-apps, Apache-2.0), as far
/// as they concern envelope, signatures, expirations and recipient. Each test names its case; the keys are Tink's.
///
/// Cases about the plaintext are not here, as nothing decrypts yet. Two cases have another outcome: Tink ends with "no trusted
/// keys are available" both for an expired key and for one without an expiration. Here a key without an expiration makes the
/// file unusable unless it has another one, and the daemon does not start with it.
///
/// Where Tink is laxer, the refusal is right, and `GooglePayEnvelopeTests` has the case:
///
/// | Tink accepts | because |
/// |---|---|
/// | comments, single quotes and names without quotes in all three JSON texts | Gson parses leniently |
/// | a member twice | Gson takes the last one; a signer and a verifier could each read another |
/// | unknown members of the envelope and of intermediateSigningKey | it reads only those that it knows |
/// | a number for keyExpiration, and a negative one | `getAsLong` converts |
/// | an expiration of 16 or more digits, if it fits a long | the same |
@Suite("Tink's cases for ECv2")
struct TinkTests {
    private static let root = key(
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgKvEdSS8f0mjTCNKevaKXIzfNC5b4A104gJWI9TsLIMqhRANCAAT/X7ccFVJt2/6P"
            + "s1oCt2AzKhIAzjfJHJ3Op2DVPGh1LMD3oOPgxzUSIqujHG6dq9Ui93Eacl4VWJPMW/MVHHIL")
    private static let merchantKey = key(
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgCPSuFr4iSIaQprjjchHPyDu2NXFe0vDBoTpPkYaK9dehRANCAATnaFz/vQKuO90p"
            + "xsINyVNWojabHfbx9qIJ6uD7Q7ZSxmtyo/Ez3/o2kDT8g0pIdyVIYktCsq65VoQIDWSh2Bdm")
    /// ALTERNATE_PUBLIC_SIGNING_KEY.
    private static let alternate =
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEU8E6JppGKFG40r5dDU1idHRN52NuwsemFzXZh1oUqh3bGUPgPioH+RoWnmVSUQz1WfM2426w9f0GADuX"
        + "zpUkcw=="
    private static let recipient = "someRecipient"

    private static func key(_ base64: String) -> P256.Signing.PrivateKey? {
        Data(base64Encoded: base64).flatMap { try? P256.Signing.PrivateKey(derRepresentation: $0) }
    }

    /// Tink signs with one key as root key and as intermediate key.
    private let forge: GooglePayForge
    private let genuine: GooglePayEnvelope

    init() throws {
        let root = try #require(Self.root)
        forge = GooglePayForge(root: root, intermediateKey: root)
        genuine = try Self.seal(forge, expiration: Fixture.tomorrow)
    }

    private static func seal(_ forge: GooglePayForge, expiration: Date) throws -> GooglePayEnvelope {
        let merchant = try P256.KeyAgreement.PrivateKey(rawRepresentation: #require(merchantKey).rawRepresentation)
        return try forge.mint(
            Array("plaintext".utf8), to: merchant.publicKey, recipient: "merchant:\(recipient)", expiration: expiration)
    }

    private func expect(
        _ expected: String, _ envelope: GooglePayEnvelope, for merchant: String = recipient,
        under roots: [UInt8]? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let roots = roots ?? forge.rootKeys(expiration: Fixture.tomorrow)
        #expect(
            try Fixture.verdict(envelope.json, for: merchant, under: roots) == expected, sourceLocation: sourceLocation)
    }

    @Test("testUnsealECV2: verified, and opened by the second opinion to Tink's plaintext")
    func unseal() async throws {
        try expect("ok", genuine)
        let opened = try await Fixture.secondOpinion(
            Array(genuine.json.utf8), for: Self.recipient, under: forge.rootKeys(expiration: Fixture.tomorrow),
            key: #require(Self.merchantKey).pemRepresentation)
        #expect(opened.last == SHA256.hash(data: Data("plaintext".utf8)).hexadecimal)
    }

    @Test("testShouldFailIfSignedMessageWasChangedInECV2")
    func changedMessage() throws {
        var envelope = genuine
        envelope.signedMessage += " "
        try expect("signature_invalid", envelope)
    }

    @Test("testShouldThrowIfECV2UseWrongSenderId")
    func otherSender() throws {
        var envelope = genuine
        try forge.sign(&envelope, recipient: "merchant:\(Self.recipient)", sender: "not-Google")
        try expect("signature_invalid", envelope)
    }

    @Test("testShouldFailIfVerifyingWithDifferentKeyECV2, testShouldTryAllKeysToVerifySignatureECV2")
    func otherKeys() throws {
        let alternate = try P256.Signing.PublicKey(derRepresentation: #require(Data(base64Encoded: Self.alternate)))
        let time = GooglePayText.time(Fixture.tomorrow)
        try expect("signature_invalid", genuine, under: GooglePayText.rootKeys([(alternate, "ECv2", time)]))
        try expect(
            "ok", genuine,
            under: GooglePayText.rootKeys([(alternate, "ECv2", time), (forge.root.publicKey, "ECv2", time)]))
    }

    @Test("testShouldFailIfTrustedKeyIsExpiredInECV2")
    func expiredRoot() throws {
        try expect(
            "certificate_untrusted", genuine, under: forge.rootKeys(expiration: Fixture.now.addingTimeInterval(-86_400))
        )
    }

    @Test("testShouldFailIfKeyExpirationIsMissingInTrustedKeyECV2")
    func rootWithoutExpiration() throws {
        #expect(throws: (any Error).self) {
            _ = try GoogleRootKeys(parsing: GooglePayText.rootKeys([(forge.root.publicKey, "ECv2", nil)]))
        }
    }

    @Test("testShouldFailIfSignedKeyWasChangedInECV2")
    func changedKey() throws {
        var envelope = genuine
        envelope.signedKey += " "
        try expect("signature_invalid", envelope)
    }

    @Test(
        "testShouldThrowIfSignatureForSignedKeyIsIncorrectInECV2, testShouldTryVerifyingAllSignaturesForSignedKeyInECV2"
    )
    func wrongSignature() throws {
        var envelope = genuine
        var wrong = try #require(Data(base64Encoded: genuine.signatures[0]))
        wrong[0] = ~wrong[0]
        envelope.signatures = [wrong.base64EncodedString()]
        try expect("signature_invalid", envelope)
        // Tink's own test of several signatures verifies the unchanged payment token by mistake.
        envelope.signatures.append(genuine.signatures[0])
        try expect("ok", envelope)
    }

    @Test("testShouldThrowIfECV2UseWrongRecipientId")
    func otherRecipient() throws {
        try expect("signature_invalid", genuine, for: "not\(Self.recipient)")
    }

    @Test("testShouldFailIfIntermediateSigningKeyIsExpiredInECV2")
    func expiredIntermediateKey() throws {
        try expect("certificate_untrusted", Self.seal(forge, expiration: Fixture.now.addingTimeInterval(-86_400)))
    }
}
