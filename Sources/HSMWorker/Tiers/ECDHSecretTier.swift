import KeyRestoration
import PKCS11
import SecretMemory
import WorkerProtocol

/// EC_v1, tier C: the token does the ECDH; the shared secret is read once, and key derivation and AES-GCM are done in
/// this process's wiped memory.
struct ECDHSecretTier: RestorationTier {
    let scheme = RestorationScheme.ecV1
    let protection = ProtectionTier.c
    let requirement = "CKM_ECDH1_DERIVE with CKD_NULL"

    /// The x coordinate of a point on P-256.
    private static let secretByteCount = 32
    private static let template: Template = [
        .objectClass(.secretKey), .keyType(.genericSecret), .token(false), .private(true), .sensitive(false),
        .extractable(true), .valueLength(secretByteCount),
    ]

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let point = try P256Point(checking: input.keyMaterial)
        let secret = try session.sharedSecret(
            .ecdh1Derive(.null, publicPoint: point.bytes), key.working, Self.template, Self.secretByteCount)
        do throws(RestorationFailure) {
            let symmetricKey = try OneStepKDF.sha256(z: secret, otherInfo: input.otherInfo)
            return try GCM.open(input.ciphertext, key: symmetricKey)
        } catch {
            throw .input
        }
    }
}

extension Session {
    fileprivate mutating func sharedSecret(
        _ mechanism: Mechanism, _ key: ObjectHandle, _ template: Template, _ count: Int
    ) throws(RestorationError) -> SecretBytes {
        do {
            return try deriveSecret(mechanism, from: key, template, count: count)
        } catch {
            throw .token(error)
        }
    }
}
