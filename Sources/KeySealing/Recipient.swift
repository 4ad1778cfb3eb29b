internal import Crypto
internal import Foundation
internal import Glibc
public import SecretMemory

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

        /// Opens what ``KeySealing/seal(privateKey:certificate:to:)`` sealed to ``publicKey``.
        ///
        /// - Returns: PKCS#8 PrivateKeyInfo in DER, as its sender gave it: not parsed, not trusted.
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
            // HPKE gives plain memory, once: copied to where it is wiped, and overwritten here at once.
            defer {
                unsafe opened.withUnsafeMutableBytes { bytes in
                    if let start = bytes.baseAddress { unsafe explicit_bzero(start, bytes.count) }
                }
            }
            return SecretBytes(copying: opened.bytes)
        }
    }
}
