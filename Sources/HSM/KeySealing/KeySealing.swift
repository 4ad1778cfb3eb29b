internal import Crypto
internal import FoundationEssentials
internal import Glibc
public import SecretMemory

/// Seals a merchant's private key in the command line for the worker, which opens it.
///
/// The daemon is between the two and must never hold a private key. So the command line seals the key to a public key
/// that the worker made at its start. The daemon forwards bytes that it cannot read.
///
/// HPKE (RFC 9180) in base mode: DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM; `info` is ``KeySealing/info``.
/// The certificate that the key belongs to, in DER, is the associated data, so a sealed key cannot be moved to another
/// certificate. Base mode does not authenticate the sender: the daemon's access rules decide who may import.
public enum KeySealing {
    /// The `info` of the key schedule (RFC 9180 §5.1): this purpose and this version of it, nothing else.
    public static let info: [UInt8] = Array("paytokend key import v1".utf8)

    /// The length of a recipient's public key and of an encapsulated key: an uncompressed P-256 point
    /// (SEC 1 §2.3.3), 65 bytes.
    public static let pointByteCount = 65

    /// The number of bytes that sealing adds to the private key: the GCM tag, 16 bytes.
    public static let overheadByteCount = 16

    /// The longest private key that is sealed or opened: 8 KiB, four times an RSA-4096 key in PKCS#8.
    public static let maximumPrivateKeyByteCount = 8192

    static let ciphersuite = HPKE.Ciphersuite.P256_SHA256_AES_GCM_256

    /// Seals a private key to one worker.
    ///
    /// - Parameters:
    ///   - privateKey: PKCS#8 PrivateKeyInfo in DER (RFC 5958).
    ///   - certificate: The certificate that the key belongs to, DER.
    ///   - importKey: The worker's public key, ``Recipient/publicKey``, 65 bytes.
    public static func seal(
        privateKey: borrowing SecretBytes, certificate: [UInt8], to importKey: [UInt8]
    ) throws(KeySealingError) -> SealedPrivateKey {
        guard privateKey.count > 0, privateKey.count <= maximumPrivateKeyByteCount else { throw .unsuitableLength }
        guard let recipient = try? P256.KeyAgreement.PublicKey(x963Representation: importKey) else {
            throw .unsuitableImportKey
        }
        do {
            var sender = try HPKE.Sender(recipientKey: recipient, ciphersuite: ciphersuite, info: Data(info))
            let sealed = try unsafe privateKey.withUnsafeBytes { bytes in
                try unsafe sender.seal(bytes, authenticating: certificate)
            }
            return SealedPrivateKey(encapsulatedKey: Array(sender.encapsulatedKey), sealed: Array(sealed))
        } catch {
            throw .notSealed
        }
    }
}

/// A private key that only one worker can open.
public struct SealedPrivateKey: Sendable, Equatable {
    /// The sender's ephemeral public key, 65 bytes.
    public var encapsulatedKey: [UInt8]
    /// The private key's ciphertext with its 16-byte tag at the end.
    public var sealed: [UInt8]

    public init(encapsulatedKey: [UInt8], sealed: [UInt8]) {
        self.encapsulatedKey = encapsulatedKey
        self.sealed = sealed
    }
}

public enum KeySealingError: Error, Sendable, Equatable {
    /// The private key is empty or longer than ``KeySealing/maximumPrivateKeyByteCount``.
    case unsuitableLength
    /// The recipient's public key is not an uncompressed point of 65 bytes on P-256.
    case unsuitableImportKey
    /// The cryptographic library did not seal.
    case notSealed
    /// The sealed key does not open. It was sealed to another worker, to this one before a restart, or for another
    /// certificate, or it was changed on the way. HPKE does not distinguish these.
    case notOpened
}

extension KeySealing {
    /// The worker's end: a key pair made for one life of the worker and never stored.
    ///
    /// A sealed key that was recorded on the way cannot be opened once the worker has ended. The private scalar is in
    /// swift-crypto's memory, which is wiped when released but not locked.
    public struct Recipient: Sendable {
        private let privateKey: P256.KeyAgreement.PrivateKey

        public init() {
            privateKey = P256.KeyAgreement.PrivateKey()
        }

        /// A given scalar, 32 bytes: for tests that need both halves.
        init(scalar: [UInt8]) throws {
            privateKey = try P256.KeyAgreement.PrivateKey(rawRepresentation: scalar)
        }

        /// An uncompressed point on P-256, 65 bytes.
        public var publicKey: [UInt8] { Array(privateKey.publicKey.x963Representation) }

        /// Opens the result of ``KeySealing/seal(privateKey:certificate:to:)`` for ``publicKey``.
        ///
        /// - Returns: PKCS#8 PrivateKeyInfo in DER, the sender's bytes: not parsed, not trusted.
        /// - Throws: ``KeySealingError/unsuitableLength`` or ``KeySealingError/notOpened``.
        public func open(
            encapsulatedKey: [UInt8], sealed: [UInt8], certificate: [UInt8]
        ) throws(KeySealingError) -> SecretBytes {
            guard
                sealed.count > overheadByteCount,
                sealed.count <= maximumPrivateKeyByteCount + overheadByteCount
            else { throw .unsuitableLength }
            guard encapsulatedKey.count == pointByteCount else { throw .notOpened }
            var opened: Data
            do {
                var recipient = try HPKE.Recipient(
                    privateKey: privateKey, ciphersuite: ciphersuite, info: Data(info),
                    encapsulatedKey: Data(encapsulatedKey))
                opened = try recipient.open(sealed, authenticating: certificate)
            } catch {
                throw .notOpened
            }
            // HPKE returns plain memory: it is copied once to memory that is wiped, and overwritten here at once.
            defer {
                unsafe opened.withUnsafeMutableBytes { bytes in
                    if let start = bytes.baseAddress { unsafe explicit_bzero(start, bytes.count) }
                }
            }
            return SecretBytes(copying: opened.bytes)
        }
    }
}
