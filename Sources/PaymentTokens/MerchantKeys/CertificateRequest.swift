import Crypto
import Foundation
public import PaymentToken
import SwiftASN1
public import WorkerProtocol
import X509

/// A request for a merchant's certificate in the form that Apple's developer portal accepts: PKCS#10 (RFC 2986). The
/// certificate's own key signs it, with SHA-256.
public struct CertificateRequest: Sendable, Equatable {
    /// CertificationRequest in DER.
    public let der: [UInt8]

    /// `CERTIFICATE REQUEST` in PEM (RFC 7468 §7).
    public var pem: String { PEMDocument(type: "CERTIFICATE REQUEST", derBytes: der).pemString + "\n" }

    /// Builds the request and calls `sign` for its signature.
    ///
    /// The subject is the merchant identifier as common name, for human readers. Apple ignores it, and certifies for
    /// the merchant chosen in the portal.
    ///
    /// - Parameters:
    ///   - subjectPublicKeyInfo: DER, P-256 or RSA.
    ///   - merchantIdentifier: Its first 64 characters are used (RFC 5280 appendix A.1, ub-common-name).
    ///   - sign: Signs CertificationRequestInfo's DER: ECDSA in DER, or RSA PKCS #1 v1.5.
    /// - Throws: The error of `sign`; `protocolViolation` if the key or the signature is of a different kind.
    public init(
        subjectPublicKeyInfo: [UInt8], merchantIdentifier: String,
        sign: @escaping @Sendable ([UInt8]) async throws(WorkerFailure) -> [UInt8]
    ) async throws(WorkerFailure) {
        do {
            let publicKey = try Certificate.PublicKey(derEncoded: subjectPublicKeyInfo)
            let key = KeyInHSMToken(publicKey: publicKey, sign: sign)
            let subject = try DistinguishedName { CommonName(String(merchantIdentifier.prefix(64))) }
            let request = try await CertificateSigningRequest(
                version: .v1, subject: subject, asyncPrivateKey: Certificate.PrivateKey(key),
                attributes: CertificateSigningRequest.Attributes(), signatureAlgorithm: key.defaultSignatureAlgorithm)
            guard publicKey.isValidSignature(request.signature, for: request) else {
                throw WorkerFailure(.protocolViolation, "The certificate request's signature does not verify.")
            }
            var serializer = DER.Serializer()
            try serializer.serialize(request)
            der = serializer.serializedBytes
        } catch let failure as WorkerFailure {
            throw failure
        } catch {
            throw WorkerFailure(.protocolViolation, "The certificate request could not be built.")
        }
    }
}

extension CertificateRequest {
    /// Returns the hash of the key in a certificate request in DER; nil unless it is PKCS#10 and this key signed it.
    public static func publicKeyHash(in der: [UInt8]) -> PublicKeyHash? {
        guard let request = try? CertificateSigningRequest(derEncoded: der),
            request.publicKey.isValidSignature(request.signature, for: request)
        else { return nil }
        var serializer = DER.Serializer()
        guard (try? serializer.serialize(request.publicKey)) != nil else { return nil }
        return PublicKeyHash.of(subjectPublicKeyInfo: serializer.serializedBytes)
    }
}

/// A private key in the HSM token. This program has only the closure that signs with it.
private struct KeyInHSMToken: CustomPrivateKey {
    let publicKey: Certificate.PublicKey
    let sign: @Sendable ([UInt8]) async throws(WorkerFailure) -> [UInt8]

    var defaultSignatureAlgorithm: Certificate.SignatureAlgorithm {
        P256.Signing.PublicKey(publicKey) == nil ? .sha256WithRSAEncryption : .ecdsaWithSHA256
    }

    var supportedSignatureAlgorithms: [Certificate.SignatureAlgorithm] { [defaultSignatureAlgorithm] }

    func signAsynchronously(
        bytes: some DataProtocol & Sendable, signatureAlgorithm: Certificate.SignatureAlgorithm
    ) async throws -> Certificate.Signature {
        let signature = try await sign(Array(bytes))
        return try Certificate.Signature(
            signatureAlgorithm: signatureAlgorithm, signatureBytes: ASN1BitString(bytes: signature[...]))
    }

    private struct SignedElsewhere: Error {}

    func signSynchronously(
        bytes: some DataProtocol, signatureAlgorithm: Certificate.SignatureAlgorithm
    ) throws -> Certificate.Signature { throw SignedElsewhere() }

    static let defaultPEMDiscriminator = "PRIVATE KEY"

    func serializeAsPEM(discriminator: String) throws -> PEMDocument { throw SignedElsewhere() }

    func serialize(into coder: inout DER.Serializer) throws { throw SignedElsewhere() }

    static func == (one: KeyInHSMToken, other: KeyInHSMToken) -> Bool { one.publicKey == other.publicKey }

    func hash(into hasher: inout Hasher) { hasher.combine(publicKey) }
}
