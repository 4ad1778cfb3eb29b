import Crypto
import Encodings
import FoundationEssentials
import KeyTesting
import KeyTypes
import PKCS11
import SwiftASN1
import WorkerProtocol

extension OpenToken {
    /// Signs a certificate request with the merchant key whose public key it contains, and verifies the signature.
    /// - Returns: The signature: ECDSA in DER, or RSA PKCS #1 v1.5, which is as long as the modulus.
    func sign(_ request: RequestSigning, in session: inout Session) throws(WorkerFailure) -> [UInt8] {
        guard let entry = keys[request.publicKeyHash] else {
            throw WorkerFailure(.keyNotFound, "The HSM token has no usable private key with that publicKeyHash.")
        }
        guard entry.use != .service else {
            throw WorkerFailure(.importRefused, "A service key signs no certificate requests: Apple certifies none.")
        }
        let information: CertificationRequestInfo
        do {
            information = try CertificationRequestInfo(der: request.information)
        } catch {
            throw WorkerFailure(.importRefused, "A merchant key signs only certificate requests: \(error.reason).")
        }
        guard information.subjectPublicKeyInfo == entry.publicKey.der else {
            throw WorkerFailure(
                .importRefused, "The certificate request is for another key than the one that is to sign it.")
        }
        let signature = try session.refusingOnError { (session) throws(CallError) in
            try requestSignature(of: request.information, entry.publicKey.algorithm, entry.object, in: &session)
        }
        guard let verified = entry.publicKey.verified(signature, of: request.information) else {
            throw WorkerFailure(
                .importRefused, "The HSM token's signature does not verify under the key's own public key.")
        }
        return verified
    }

    /// Returns true if a new processing key can sign its certificate request. No attribute shows whether an HSM token
    /// grants the right to sign for one call, so this method signs a meaningless message.
    /// - Throws: An error whose cause is not the key, such as a lost session.
    func signsRequests(
        _ key: ObjectHandle, _ publicKey: SubjectPublicKeyInfo, in session: inout Session
    ) throws(CallError) -> Bool {
        let message = Array("paytokend tests whether this key can sign its certificate request".utf8)
        do throws(CallError) {
            let signature = try requestSignature(of: message, publicKey.algorithm, key, in: &session)
            return publicKey.verified(signature, of: message) != nil
        } catch {
            if error.isUnrelatedToKey { throw error }
            return false
        }
    }

    /// The signature as the HSM token returns it: r ‖ s for EC, as long as the modulus for RSA.
    private func requestSignature(
        of message: [UInt8], _ algorithm: KeyAlgorithm, _ key: ObjectHandle, in session: inout Session
    ) throws(CallError) -> [UInt8] {
        switch algorithm {
        case .ec: return try session.signRequest(Array(SHA256.hash(data: message)), .ecdsa, with: key)
        case .rsa:
            let (mechanism, data) = (tiers.signatures.pkcs1 ?? .pkcs1Hashing).mechanism(for: message)
            return try session.signRequest(data, mechanism, with: key)
        }
    }
}

extension SubjectPublicKeyInfo {
    /// - Parameter signature: The signature as the HSM token returned it: r ‖ s for EC, as long as the modulus for RSA.
    /// - Returns: The signature as a certificate request contains it (DER for EC); nil if it does not verify under this
    ///   key.
    fileprivate func verified(_ signature: [UInt8], of message: [UInt8]) -> [UInt8]? {
        switch key {
        case .ec(let point):
            return Self.verifiedECDSA(signature, of: message, point: point)
        case .rsa:
            return isValid(signature, of: message, .pkcs1SHA256) ? signature : nil
        }
    }

    /// - Parameters:
    ///   - signature: The HSM token's r ‖ s.
    ///   - point: The public key's point on P-256, 65 bytes.
    /// - Returns: The signature in DER (RFC 3279 §2.2.3); nil if it does not verify under this key.
    static func verifiedECDSA(_ signature: [UInt8], of message: [UInt8], point: [UInt8]) -> [UInt8]? {
        guard signature.count == 64, let key = try? P256.Signing.PublicKey(x963Representation: point),
            let parsed = try? P256.Signing.ECDSASignature(rawRepresentation: signature),
            key.isValidSignature(parsed, for: Data(message))
        else { return nil }
        return Array(parsed.derRepresentation)
    }
}

/// The part of a PKCS#10 request that is signed (RFC 2986 §4.1), parsed only far enough to identify it.
///
///     CertificationRequestInfo ::= SEQUENCE { version INTEGER { v1(0) }, subject Name,
///         subjectPKInfo SubjectPublicKeyInfo, attributes [0] IMPLICIT SET OF Attribute }
struct CertificationRequestInfo: Sendable {
    /// The public key, DER.
    let subjectPublicKeyInfo: [UInt8]

    /// - Throws: ``UnsuitableKey`` for bytes of any other structure, such as the body of a certificate, which must not
    ///   be signed.
    init(der: [UInt8]) throws(UnsuitableKey) {
        guard der.count <= FieldBound.requestInformation, let fields = try? Self.fields(of: der), fields.count == 4,
            fields[0].identifier == .integer, Array(fields[0].encodedBytes) == [0x02, 0x01, 0x00],
            fields[1].identifier == .sequence, fields[2].identifier == .sequence,
            fields[3].identifier == ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific),
            case .constructed = fields[3].content
        else {
            throw UnsuitableKey(reason: "the bytes are no CertificationRequestInfo of PKCS#10 in DER")
        }
        subjectPublicKeyInfo = Array(fields[2].encodedBytes)
    }

    private static func fields(of der: [UInt8]) throws -> [ASN1Node] {
        try DER.sequence(try DER.parse(der), identifier: .sequence) { nodes in
            var fields: [ASN1Node] = []
            while let node = nodes.next() { fields.append(node) }
            return fields
        }
    }
}
