internal import Crypto
internal import FoundationEssentials
internal import Glibc
public import SecretMemory

// Unsafe: Pointers are used only within the closures: HPKE copies the key, and explicit_bzero(3) receives the
// buffer's own length.

/// The encryption of a merchant's private key on its way from the command line to the worker.
///
/// The key passes through the daemon, which must never hold a private key. So the command line seals it to a public key
/// that the worker generates when it starts. The daemon forwards bytes that it cannot read.
///
/// The scheme is HPKE (RFC 9180) in base mode: DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM. Its `info` is
/// ``KeySealing/info``. The associated data is the key's certificate in DER, or the SubjectPublicKeyInfo of a key
/// without one, so a sealed key cannot be moved to another certificate or key. Base mode does not authenticate the
/// sender: the daemon's access rules decide who may import.
public enum KeySealing {
    /// The `info` of the key schedule (RFC 9180 §5.1). It binds a sealed key to this purpose and to this version of the
    /// format.
    public static let info: [UInt8] = Array("paytokend key import v1".utf8)

    /// The length in bytes of a recipient's public key and of an encapsulated key. Both are uncompressed P-256 points
    /// (SEC 1 §2.3.3).
    public static let pointByteCount = 65

    /// The number of bytes that sealing adds to the private key: the GCM tag.
    public static let overheadByteCount = 16

    /// The longest private key that can be sealed or opened, in bytes: 8 KiB, more than any RSA-4096 key in PKCS#8.
    public static let maximumPrivateKeyByteCount = 8192

    static let ciphersuite = HPKE.Ciphersuite.P256_SHA256_AES_GCM_256

    /// Seals a private key for one worker.
    ///
    /// - Parameters:
    ///   - privateKey: The private key as a PKCS#8 PrivateKeyInfo in DER (RFC 5958).
    ///   - associatedData: The key's certificate, or the SubjectPublicKeyInfo of a key without one, in DER.
    ///   - importKey: The worker's public key, ``Recipient/publicKey``, 65 bytes.
    public static func seal(
        privateKey: borrowing SecretBytes, authenticating associatedData: [UInt8], to importKey: [UInt8]
    ) throws(KeySealingError) -> SealedPrivateKey {
        guard privateKey.count > 0, privateKey.count <= maximumPrivateKeyByteCount else { throw .unsuitableLength }
        guard let recipient = try? P256.KeyAgreement.PublicKey(x963Representation: importKey) else {
            throw .unsuitableImportKey
        }
        do {
            var sender = try HPKE.Sender(recipientKey: recipient, ciphersuite: ciphersuite, info: Data(info))
            let sealed = try unsafe privateKey.withUnsafeBytes { bytes in
                try unsafe sender.seal(bytes, authenticating: associatedData)
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
    /// The cryptographic library failed to seal the key.
    case notSealed
    /// The sealed key cannot be opened. It was sealed for another worker, for this worker before a restart, or with
    /// other associated data, or it was changed in transit. HPKE does not distinguish these causes.
    case notOpened
}

extension KeySealing {
    /// The worker's key pair, which exists only while the worker runs and is never stored.
    ///
    /// A sealed key that was intercepted cannot be opened once the worker has ended. The private scalar is in
    /// swift-crypto's memory, which is wiped when released but not locked.
    public struct Recipient: Sendable {
        private let privateKey: P256.KeyAgreement.PrivateKey

        public init() {
            privateKey = P256.KeyAgreement.PrivateKey()
        }

        /// Creates a recipient with the given scalar of 32 bytes, for tests that need both the private and the public
        /// key.
        init(scalar: [UInt8]) throws {
            privateKey = try P256.KeyAgreement.PrivateKey(rawRepresentation: scalar)
        }

        /// The public key, an uncompressed P-256 point of 65 bytes.
        public var publicKey: [UInt8] { Array(privateKey.publicKey.x963Representation) }

        /// Opens a private key that ``KeySealing/seal(privateKey:authenticating:to:)`` sealed for ``publicKey``.
        ///
        /// - Returns: A PKCS#8 PrivateKeyInfo in DER as the sender supplied it. It has not been parsed and must not be
        ///   trusted.
        /// - Throws: ``KeySealingError/unsuitableLength`` or ``KeySealingError/notOpened``.
        public func open(
            encapsulatedKey: [UInt8], sealed: [UInt8], authenticating associatedData: [UInt8]
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
                opened = try recipient.open(sealed, authenticating: associatedData)
            } catch {
                throw .notOpened
            }
            // HPKE returns ordinary memory. It is copied to memory that is wiped on release, and then overwritten.
            defer {
                unsafe opened.withUnsafeMutableBytes { bytes in
                    if let start = bytes.baseAddress { unsafe explicit_bzero(start, bytes.count) }
                }
            }
            return SecretBytes(copying: opened.bytes)
        }
    }
}
