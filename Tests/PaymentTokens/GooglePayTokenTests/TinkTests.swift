import Crypto
import Foundation
import GooglePayToken
import Refusals
import TestSupport
import Testing
import TokenForge

/// Every case for ECv2 in Tink's PaymentMethodTokenRecipientTest.java (github.com/tink-crypto/tink-java-apps, Apache-2.0, commit
/// f06b4ce). Each test names its cases; the keys are Tink's. testUnsealECV2WithCustomKem, in which Tink has the key agreement made
/// elsewhere, is what `GooglePayTierTests` does with HSM tokens.
///
/// Two cases have another outcome. Tink ends with "no trusted keys are available" both for an expired key and for one without an
/// expiration. Here a key without an expiration makes the file unusable unless it has another one, and the daemon does not start
/// with it. Tink opens plaintexts that Google does not write, which its tests use; they are refused here.
///
/// The article "Google Pay: stricter than Tink" has the table of what Tink accepts and is refused here.
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
        #expect(throws: Refusal.self) { _ = try GooglePayPayload(plaintext: Array("plaintext".utf8)) }
    }

    @Test("testShouldAcceptNonExpiredECV2Message, testShouldFailIfECV2MessageIsExpired")
    func messageExpiration() throws {
        let day = 86_400.0
        for (time, fault) in [(day, nil), (-day, .expired)] as [(Double, GooglePayMessageTimes.Fault?)] {
            let expiration = Fixture.now.addingTimeInterval(time)
            let payload = try GooglePayPayload(plaintext: GooglePayForge.plaintext(expiring: expiration))
            let times = GooglePayMessageTimes(expiration: payload.messageExpiration, lifetime: .seconds(7 * day))
            #expect(times.fault(at: Fixture.now, window: .seconds(300)) == fault)
            // Tink's test has no other member.
            let alone = "{\"messageExpiration\":\"\(GooglePayText.time(expiration))\"}"
            #expect(throws: Refusal.self) { _ = try GooglePayPayload(plaintext: Array(alone.utf8)) }
        }
    }

    @Test(
        "testShouldFailIfECV1SetsWrongProtocolVersion, testShouldFailIfProtocolSetToAnInt, testShouldFailIfProtocolSetToAnFloat",
        arguments: ["\"ECv2\"", "1", "1.1"])
    func ecv1(version: String) throws {
        func json(_ version: String) -> String {
            let (signature, message) = (JSONText.string(genuine.signature), JSONText.string(genuine.signedMessage))
            return "{\"protocolVersion\":\(version),\"signature\":\(signature),\"signedMessage\":\(message)}"
        }
        #expect(try Fixture.verdict(json(version), for: Self.recipient) == "malformed_token")
        #expect(try Fixture.verdict(json("\"ECv1\""), for: Self.recipient) == "unsupported_version")
    }

    @Test("testVerifyECV2SigningOnly: unsupported, with the signatures of that version and with those of ECv2")
    func signingOnly() throws {
        var envelope = genuine
        envelope.protocolVersion = "ECv2SigningOnly"
        try expect("unsupported_version", envelope)
        try forge.sign(&envelope, recipient: "merchant:\(Self.recipient)", version: "ECv2SigningOnly")
        try expect("unsupported_version", envelope)
        envelope.protocolVersion = "ECv2"
        try expect("signature_invalid", envelope)
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
        // A key for another version does not count, as in testShouldFailIfSignedECV1WithKeyForWrongProtocolVersion.
        try expect(
            "signature_invalid", genuine,
            under: GooglePayText.rootKeys([
                (alternate, "ECv2", time), (forge.root.publicKey, "ECv2SigningOnly", time),
            ]))
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
