package import Crypto
internal import CryptoExtras
internal import Encodings
public import Foundation
public import Refusals
internal import SwiftASN1

/// Proof that a certificate's owner signed a payment token, and the signing time. `TrustPolicy` checks that the owner
/// is Apple.
///
/// This is step 1 of Apple's payment token format reference and RFC 5652 §5.4 to §5.6, with the stricter rules of this
/// program. The only certificates allowed are the signer's and its issuer's. There must be exactly one signer, and it
/// must use SHA-256. The attributes contentType, signingTime and messageDigest must each occur once.
public struct SignatureEvidence: Sendable {
    /// The signer's certificate, DER.
    public let leafDER: [UInt8]
    /// The certificate whose subject is the leaf's issuer; its signature on the leaf is not checked yet.
    public let intermediateDER: [UInt8]
    /// The signingTime attribute, to the second.
    public let signingTime: Date

    /// - Throws: `signature_invalid`, with the fault in `details`.
    public init(of paymentToken: PaymentToken) throws(Refusal) {
        do {
            self = try Self.evidence(of: paymentToken)
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

    private static func evidence(of paymentToken: PaymentToken) throws -> SignatureEvidence {
        let signedData = try CMSSignedData(contentInfo: paymentToken.signature)
        let signer = signedData.signer
        let (leaf, intermediate) = try chain(of: signedData)

        let key = try SignerKey(subjectPublicKeyInfo: leaf.subjectPublicKeyInfo, version: paymentToken.version)
        guard key.accepts(signer.signatureAlgorithm)
        else { throw CMSDefect("the signature algorithm does not fit \(paymentToken.version.rawValue)") }
        // swift-crypto compares these in constant time.
        guard SHA256.hash(data: paymentToken.signedContent) == signer.signedAttributes.messageDigest
        else { throw CMSDefect("the signature covers other content than the payment token's") }
        guard key.isValid(signature: signer.signature, over: signer.signedAttributes.der)
        else { throw CMSDefect("the signature was not made with the signer's key") }

        return SignatureEvidence(
            leafDER: leaf.der, intermediateDER: intermediate.der, signingTime: signer.signedAttributes.signingTime)
    }

    /// Distinguishes the signer's certificate from its issuer's, since their order in the message is not defined.
    private static func chain(
        of signedData: CMSSignedData
    ) throws -> (leaf: CertificateFields, intermediate: CertificateFields) {
        func isSigners(_ certificate: CertificateFields) -> Bool {
            certificate.issuer == signedData.signer.issuer
                && certificate.serialNumberContent == signedData.signer.serialNumber
        }
        let signers = signedData.certificates.filter(isSigners)
        let others = signedData.certificates.filter { certificate in !isSigners(certificate) }
        guard signers.count == 1, others.count == 1
        else { throw CMSDefect("the two certificates are not the signer's and one other") }
        guard others[0].subject == signers[0].issuer
        else { throw CMSDefect("the second certificate is not that of the signer's issuer") }
        return (signers[0], others[0])
    }
}

/// The public key for a payment token's signature. Its kind must be the one that Apple's reference requires for the
/// version.
enum SignerKey {
    /// EC_v1: ecdsa-with-SHA256 on P-256.
    case p256(P256.Signing.PublicKey)
    /// RSA_v1: RSASSA-PKCS1-v1_5 with SHA-256, 2048 to 4096 bits.
    case rsa(_RSA.Signing.PublicKey)

    /// The longest RSA key that is accepted for a signature. A caller can present any signer, and doubling the bits
    /// makes the check four times slower. Apple's keys have 2048 bits.
    static let maximumRSABits = 4_096

    /// Returns true for an RSA key with more than ``maximumRSABits`` bits.
    ///
    /// - Parameter subjectPublicKeyInfo: DER, for any kind of key.
    static func isTooLong(subjectPublicKeyInfo: ArraySlice<UInt8>) -> Bool {
        // A modulus of more than 4,096 bits alone has more than 512 bytes. A shorter DER, such as that of any P-256
        // key, therefore cannot contain a key that is too long, and is not parsed.
        guard subjectPublicKeyInfo.count > maximumRSABits / 8,
            let key = try? _RSA.Signing.PublicKey(derRepresentation: Array(subjectPublicKeyInfo))
        else { return false }
        return key.keySizeInBits > maximumRSABits
    }

    /// - Parameter subjectPublicKeyInfo: From the signer's certificate, in DER.
    init(subjectPublicKeyInfo: ArraySlice<UInt8>, version: PaymentTokenVersion) throws {
        guard !Self.isTooLong(subjectPublicKeyInfo: subjectPublicKeyInfo)
        else { throw CMSDefect("the signer's key has more than \(Self.maximumRSABits) bits") }
        do {
            switch version {
            case .ecV1:
                guard let point = SubjectPublicKeyInfo.p256Point(in: Array(subjectPublicKeyInfo)) else {
                    throw BERReader.Malformed()
                }
                self = .p256(try P256.Signing.PublicKey(x963Representation: point))
            case .rsaV1: self = .rsa(try _RSA.Signing.PublicKey(derRepresentation: Array(subjectPublicKeyInfo)))
            }
        } catch {
            throw CMSDefect(
                version == .ecV1
                    ? "the signer of an EC_v1 payment token has no P-256 key"
                    : "the signer of an RSA_v1 payment token has no RSA key")
        }
    }

    /// Returns true if a CMS signer may specify this algorithm for its signature. RSA signers may specify the key's
    /// algorithm alone, since the digest is specified separately (RFC 3370 §3.2); Apple's signers use both forms.
    func accepts(_ algorithm: AlgorithmIdentifier) -> Bool {
        switch self {
        case .p256: algorithm == AlgorithmIdentifier(.ecdsaWithSHA256)
        case .rsa:
            algorithm == AlgorithmIdentifier(.rsaEncryption)
                || algorithm == AlgorithmIdentifier(.sha256WithRSAEncryption)
        }
    }

    /// - Parameter signature: for ECDSA, `SEQUENCE { r INTEGER, s INTEGER }` in DER (RFC 3279 §2.2.3); for RSA, as many
    ///   bytes as the modulus.
    func isValid(signature: ArraySlice<UInt8>, over message: [UInt8]) -> Bool {
        switch self {
        case .p256(let key): key.hasMade(signature, over: message)
        case .rsa(let key):
            key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: Array(signature)), for: SHA256.hash(data: message),
                padding: .insecurePKCS1v1_5)
        }
    }
}

extension P256.Signing.PublicKey {
    /// Returns true if `signature`, an Ecdsa-Sig-Value in DER (RFC 3279 §2.2.3), is this key's over the SHA-256 of
    /// `message`.
    package func hasMade(_ signature: ArraySlice<UInt8>, over message: [UInt8]) -> Bool {
        guard let signature = try? P256.Signing.ECDSASignature(derRepresentation: Array(signature)) else {
            return false
        }
        return isValidSignature(signature, for: SHA256.hash(data: message))
    }
}

extension Refusal {
    fileprivate static func signatureInvalid(_ details: String) -> Refusal {
        Refusal(
            .signatureInvalid, "The payment token does not carry a valid signature over its content; do not use it.",
            details: details)
    }

    static func certificateUntrusted(_ details: String) -> Refusal {
        Refusal(
            .certificateUntrusted, "The payment token's signer is not trusted; do not use it.", details: details)
    }
}

/// The allowed difference between a payment token's signing time and the current time: Apple's step 1, last point. An
/// old signature may be a replay; a signature from the future means that a clock is wrong.
public enum SigningTimeWindow: Sendable, Equatable {
    /// Every signing time is accepted.
    case off
    /// The largest allowed difference before or after the current time, inclusive.
    case within(Duration)

    /// - Parameter now: the time that the signing time is compared with: the current time, or a time that a request to
    ///   verify names.
    /// - Throws: `signing_time_outside_window`.
    public func check(signingTime: Date, now: Date) throws(Refusal) {
        guard case .within(let limit) = self else { return }
        let age = now.timeIntervalSince(signingTime)
        guard abs(age) <= limit / .seconds(1) else {
            throw Refusal(
                .signingTimeOutsideWindow,
                "The payment token was signed too long ago or in the future; ask the customer to pay again, and check this "
                    + "host's clock.",
                details: "signed \(Int(abs(age).rounded())) s \(age < 0 ? "after" : "before") the current time, "
                    + "\(Int((limit / .seconds(1)).rounded())) s are allowed")
        }
    }
}

extension SigningTimeWindow: CustomStringConvertible {
    /// The allowed difference in both directions; nil for `off`.
    public var duration: Duration? {
        switch self {
        case .off: nil
        case .within(let duration): duration
        }
    }

    /// `off`, or seconds in the configuration's form: `300s`.
    public var description: String {
        duration.map { "\($0.components.seconds)s" } ?? "off"
    }
}
