import Encodings
import Foundation
import Refusals
import StrictJSON
import TestSupport
import Testing
import TokenForge

@testable import PaymentToken

@Suite("CMS signature")
struct SignatureEvidenceTests {
    @Test(
        "Returns signer, issuer and signing time for every form of signature that Apple has used since 2014",
        arguments: PaymentTokenVersion.allCases,
        [WireForm.since2014, .since2019, .since2023, .distinguished])
    func wireForms(version: PaymentTokenVersion, wire: WireForm) throws {
        let minted = try Minting.minted(version, wire: wire, applicationData: [7])
        let evidence = try SignatureEvidence(of: Minting.paymentToken(minted))
        #expect(evidence.leafDER == minted.certificates[0])
        #expect(evidence.intermediateDER == minted.certificates[1])
        #expect(evidence.signingTime == minted.signingTime)
    }

    @Test("Accepts the two certificates in either order, and either RSA name of the signature algorithm")
    func freeForms() throws {
        var wire = WireForm.since2019
        (wire.issuerFirst, wire.rsaEncryptionAlgorithm) = (true, true)
        for version in PaymentTokenVersion.allCases {
            let minted = try Minting.minted(version, wire: wire)
            #expect(try SignatureEvidence(of: Minting.paymentToken(minted)).leafDER == minted.certificates[0])
        }
    }

    /// Deviations, each with a part of the expected refusal. The part proves which check refused it.
    static let deviations: [(Deviation, String)] = [
        (.notCMS, "not a CMS signedData structure"), (.truncatedSignature, "not a CMS signedData structure"),
        (.trailingBytes, "not a CMS signedData structure"), (.encapsulatedContent, "not detached"),
        (.noCertificates, "no certificates"), (.onlyLeafCertificate, "not exactly two certificates"),
        (.duplicateCertificate, "not exactly two certificates"),
        (.rootCertificateIncluded, "not exactly two certificates"),
        (.thirdCertificateSigns, "not exactly two certificates"), (.noSigner, "not exactly one signer"),
        (.twoSigners, "not exactly one signer"), (.signerNotAmongCertificates, "not the signer's and one other"),
        (.signerByKeyIdentifier, "version of signedData is not 1"), (.digestSHA1, "not SHA-256 alone"),
        (.revocationLists, "other parts"), (.noSignedAttributes, "no signed attributes"),
        (.missingContentType, "contentType is missing"), (.missingSigningTime, "signingTime is missing"),
        (.missingMessageDigest, "messageDigest is missing"), (.duplicateContentType, "attribute is repeated"),
        (.duplicateSigningTime, "attribute is repeated"), (.duplicateMessageDigest, "attribute is repeated"),
        (.twoMessageDigestValues, "messageDigest has not exactly one value"),
        (.wrongContentType, "contentType is not data"), (.wrongMessageDigest, "covers other content"),
        (.algorithmProtectionMismatch, "cmsAlgorithmProtection"), (.generalizedSigningTime, "GeneralizedTime"),
        (.flippedSignature, "not made with the signer's key"), (.signatureByOtherKey, "not made with the signer's key"),
        (.otherContent, "covers other content"), (.dataChanged, "covers other content"),
        (.keyMaterialChanged, "covers other content"), (.transactionIdentifierChanged, "covers other content"),
        (.applicationDataAdded, "covers other content"), (.applicationDataRemoved, "covers other content"),
        (.applicationDataChanged, "covers other content"),
    ]

    @Test(
        "Refuses each kind of forged signature with its specific reason", arguments: PaymentTokenVersion.allCases,
        deviations)
    func forged(version: PaymentTokenVersion, deviation: (Deviation, String)) throws {
        let hasApplicationData = [.applicationDataRemoved, .applicationDataChanged].contains(deviation.0)
        let paymentToken = try Minting.paymentToken(
            version, [deviation.0], wire: .since2019, applicationData: hasApplicationData ? [1] : nil)
        let refusal = try #require(try refusal { _ = try SignatureEvidence(of: paymentToken) })
        #expect(refusal.code == .signatureInvalid)
        #expect(refusal.details?.contains(deviation.1) == true, "\(refusal.details ?? "")")
    }

    @Test("Tests every forged signature that TokenForge can make")
    func allForgeries() {
        let listed = Set(Self.deviations.map(\.0))
        #expect(listed == Set(Deviation.allCases.filter { deviation in deviation.refusal == "signature_invalid" }))
    }

    @Test("Refuses a genuine signature of another payment token", arguments: PaymentTokenVersion.allCases)
    func genuineSignatureOfAnotherToken(version: PaymentTokenVersion) throws {
        let (one, other) = (try Minting.minted(version), try Minting.minted(version))
        let swapped = try JSONValue(parsing: one.paymentData).setting(
            "signature", to: .string(Base64.encode(other.signature)))
        #expect(try details(of: PaymentToken(json: swapped))?.contains("covers other content") == true)
    }

    @Test("Refuses an EC_v1 payment token signed with RSA, and an RSA_v1 one with ECDSA")
    func signatureOfTheOtherVersion() throws {
        let (ec, rsa) = (try Minting.minted(.ecV1), try Minting.minted(.rsaV1))
        let ecWithRSA = try JSONValue(parsing: ec.paymentData).setting(
            "signature", to: .string(Base64.encode(rsa.signature)))
        #expect(try details(of: PaymentToken(json: ecWithRSA))?.contains("no P-256 key") == true)
        let rsaWithEC = try JSONValue(parsing: rsa.paymentData).setting(
            "signature", to: .string(Base64.encode(ec.signature)))
        #expect(try details(of: PaymentToken(json: rsaWithEC))?.contains("no RSA key") == true)
    }

    @Test("Refuses a change of any tested byte of the signature message", arguments: PaymentTokenVersion.allCases)
    func changedBytes(version: PaymentTokenVersion) async throws {
        let minted = try Minting.minted(version, wire: .distinguished)
        let json = try JSONValue(parsing: minted.paymentData)
        let policy = try Minting.policy(chainCacheCapacity: 0)
        // Positions seven bytes apart suffice to change every field of the message.
        for position in stride(from: 0, to: minted.signature.count, by: 7) {
            var signature = minted.signature
            signature[position] ^= 1
            let changed = json.setting("signature", to: .string(Base64.encode(signature)))
            let refusal = try await awaitedRefusal {
                _ = try await policy.evaluate(SignatureEvidence(of: PaymentToken(json: changed)))
            }
            #expect(refusal != nil, "byte \(position)")
        }
    }

    private func details(of paymentToken: PaymentToken) throws -> String? {
        try refusal { _ = try SignatureEvidence(of: paymentToken) }?.details
    }
}
