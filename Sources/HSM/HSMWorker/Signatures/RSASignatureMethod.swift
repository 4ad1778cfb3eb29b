import Crypto
import Encodings
import KeyTesting
import PKCS11
import TLSHandshake

/// One way to make a TLS signature with an RSA key: the HSM token's mechanism, and the part that this process does.
///
/// For each algorithm, ``RSASignatures`` chooses the first method that works, in the order of the cases.
enum RSASignatureMethod: Sendable, CaseIterable {
    /// The HSM token hashes, pads and signs.
    case pssHashing
    /// This process hashes; the HSM token pads and signs.
    case pss
    /// This process hashes and pads; the HSM token does the bare RSA operation.
    case pssPaddedHere
    /// The HSM token hashes, pads and signs.
    case pkcs1Hashing
    /// This process makes the DigestInfo; the HSM token pads and signs.
    case pkcs1

    var algorithm: TLSSignatureAlgorithm {
        switch self {
        case .pssHashing, .pss, .pssPaddedHere: .pssSHA256
        case .pkcs1Hashing, .pkcs1: .pkcs1SHA256
        }
    }

    /// The function that the HSM token must have, by its name in the standard. Messages to operators contain it.
    var requirement: String {
        switch self {
        case .pssHashing: "CKM_SHA256_RSA_PKCS_PSS"
        case .pss: "CKM_RSA_PKCS_PSS"
        case .pssPaddedHere: "C_Sign by CKM_RSA_X_509"
        case .pkcs1Hashing: "CKM_SHA256_RSA_PKCS"
        case .pkcs1: "CKM_RSA_PKCS"
        }
    }

    /// The mechanism, and its input for a message. PSS padding that this process makes has a new salt each time.
    func mechanism(for message: [UInt8]) -> (mechanism: Mechanism, data: [UInt8]) {
        switch self {
        case .pssHashing: (.rsaPSSHashingSHA256, message)
        case .pss: (.rsaPSSSHA256, Self.digest(message))
        case .pssPaddedHere:
            (
                .rsaX509,
                PSSEncoding.encode(digest: Self.digest(message), modulusBits: SubjectPublicKeyInfo.rsaModulusBits)
            )
        case .pkcs1Hashing: (.rsaPKCS1SHA256, message)
        case .pkcs1: (.rsaPKCS1, Self.digestInfo + Self.digest(message))
        }
    }

    /// Signs, and verifies the signature with the public key. An RSA operation in which a fault occurs can reveal the
    /// private key (Boneh, DeMillo, Lipton, EUROCRYPT 1997), so no unverified signature leaves the worker.
    /// - Returns: The signature, as long as the modulus; nil if it does not verify.
    func sign(
        _ message: [UInt8], with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(CallError) -> [UInt8]? {
        let (mechanism, data) = mechanism(for: message)
        var signature = try session.sign(data, mechanism, key: key.working)
        // The result of the bare operation is a number, and some HSM tokens strip its leading zeros.
        let missing = key.modulus.count - signature.count
        if missing > 0 { signature.insert(contentsOf: repeatElement(0, count: missing), at: 0) }
        return key.publicKey.isValid(signature, of: message, algorithm) ? signature : nil
    }

    private static func digest(_ message: [UInt8]) -> [UInt8] {
        Array(SHA256.hash(data: message))
    }

    /// A DigestInfo for SHA-256 in DER, up to the hash (RFC 8017 §9.2, note 1).
    private static let digestInfo: [UInt8] = [
        0x30, 0x31, 0x30, 0x0D, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04,
        0x20,
    ]
}
