internal import Crypto
public import Foundation
public import Refusals

/// Proof that somebody's certificate signed a token, and when. `TrustPolicy` then says whether that somebody is Apple.
///
/// Apple's step 1 and RFC 5652 §5.4 to §5.6, by the contract's rules: exactly the signer's and its issuer's
/// certificates, exactly one signer, SHA-256, the attributes contentType, signingTime and messageDigest once each.
public struct SignatureEvidence: Sendable {
    /// The signer's certificate, DER.
    public let leafDER: [UInt8]
    /// The certificate of the signer's issuer, by name; whether it issued the leaf is not known yet.
    public let intermediateDER: [UInt8]
    /// The signingTime attribute, to the second.
    public let signingTime: Date

    /// - Throws: `signature_invalid`, with what was wrong in `details`.
    public init(of token: PaymentToken) throws(Refusal) {
        do {
            self = try Self.evidence(of: token)
        } catch let defect as CMSDefect {
            throw .signatureInvalid(defect.reason)
        } catch {
            throw .signatureInvalid("the signature is not a CMS signedData structure in BER")
        }
    }

    init(leafDER: [UInt8], intermediateDER: [UInt8], signingTime: Date) {
        self.leafDER = leafDER
        self.intermediateDER = intermediateDER
        self.signingTime = signingTime
    }

    private static func evidence(of token: PaymentToken) throws -> SignatureEvidence {
        let signedData = try CMSSignedData(contentInfo: token.signature)
        let signer = signedData.signer
        let (leaf, intermediate) = try chain(of: signedData)

        let key = try SignerKey(subjectPublicKeyInfo: leaf.subjectPublicKeyInfo, version: token.version)
        guard key.accepts(signer.signatureAlgorithm)
        else { throw CMSDefect("the signature algorithm does not fit \(token.version.rawValue)") }
        // Compared in constant time by swift-crypto.
        guard SHA256.hash(data: token.signedContent) == signer.signedAttributes.messageDigest
        else { throw CMSDefect("the signature is over another content") }
        guard key.isValid(signature: signer.signature, over: signer.signedAttributes.der)
        else { throw CMSDefect("the signature is not by the signer's key") }

        return SignatureEvidence(
            leafDER: leaf.der, intermediateDER: intermediate.der, signingTime: signer.signedAttributes.signingTime)
    }

    /// Which certificate is whose: their order in the message means nothing.
    private static func chain(
        of signedData: CMSSignedData
    ) throws -> (leaf: CertificateFields, intermediate: CertificateFields) {
        func isSigners(_ certificate: CertificateFields) -> Bool {
            certificate.issuer == signedData.signer.issuer && certificate.serialNumber == signedData.signer.serialNumber
        }
        let signers = signedData.certificates.filter(isSigners)
        let others = signedData.certificates.filter { certificate in !isSigners(certificate) }
        guard signers.count == 1, others.count == 1
        else { throw CMSDefect("the two certificates are not the signer's and another") }
        guard others[0].subject == signers[0].issuer
        else { throw CMSDefect("the certificate beside the signer's is not its issuer's") }
        return (signers[0], others[0])
    }
}
