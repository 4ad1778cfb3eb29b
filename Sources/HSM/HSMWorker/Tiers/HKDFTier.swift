import KeyRestoration
import KeyTypes
import PKCS11
import WorkerProtocol

/// ECv2, tier B: the HSM token derives both keys, makes the tag and decrypts. The shared secret and the keys derived from
/// it are sensitive objects from the start.
struct HKDFTier: RestorationTier {
    let scheme = RestorationScheme.ecV2
    let protection = ProtectionTier.b
    let requirement =
        "CKM_CONCATENATE_DATA_AND_BASE, CKM_HKDF_DERIVE, CKM_EXTRACT_KEY_FROM_KEY, "
        + "CKM_SHA256_HMAC and CKM_AES_CTR"

    /// The size of Z, the x coordinate of a point on P-256.
    private static let secretByteCount = 32
    /// The size of each of the two keys.
    private static let keyByteCount = GooglePayMessage.keysByteCount / 2
    private static let secretTemplate = TransactionKey.intermediate(secretByteCount)
    private static let keysTemplate = TransactionKey.intermediate(GooglePayMessage.keysByteCount)
    private static let encryptionTemplate = Template(TransactionKey.attributes + [.valueLength(keyByteCount)])
    private static let authenticationTemplate: Template = [
        .objectClass(.secretKey), .keyType(.genericSecret), .token(false), .private(true), .sensitive(true),
        .extractable(false), .sign(true), .valueLength(keyByteCount),
    ]

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let point = try P256Point(checking: input.keyMaterial)
        guard let (ciphertext, tag) = GooglePayMessage.split(input.ciphertext) else { throw .input }
        var objects: [ObjectHandle] = []
        defer { session.destroy(objects) }
        let keys = try derive(point, key.working, &objects, &session)

        let authentication = try session.derive(
            .extractKeyFromKey(firstBit: Self.keyByteCount * 8), from: keys, Self.authenticationTemplate)
        objects.append(authentication)
        // The HSM token makes the tag, and this process compares it. C_Verify would not show if the tag is wrong: NSS
        // then returns CKR_DEVICE_ERROR, as for its own faults. With several keys of a merchant, a wrong tag is usual.
        let computed = try RestorationError.throwingAsHSMTokenError { () throws(CallError) in
            try session.sign(ciphertext, .sha256HMAC, key: authentication, capacity: HMACSHA256.tagByteCount)
        }
        guard HMACSHA256.areEqual(computed, tag) else { throw .input }

        let encryption = try session.derive(.extractKeyFromKey(firstBit: 0), from: keys, Self.encryptionTemplate)
        objects.append(encryption)
        let plaintext = try RestorationError.throwingAsHSMTokenError { () throws(CallError) in
            try session.decrypt(
                ciphertext, .aesCTR(counterBlock: GooglePayMessage.counterBlock), key: encryption,
                capacity: ciphertext.count)
        }
        guard plaintext.count == ciphertext.count else {
            throw .hsmToken(CallError(call: "C_Decrypt", cause: .implausible("a plaintext of another size")))
        }
        return plaintext.withBytes { bytes in bytes.array }
    }

    /// Derives the two keys as one value: HKDF over the ephemeral public key and the shared secret.
    private func derive(
        _ point: P256Point, _ key: ObjectHandle, _ objects: inout [ObjectHandle], _ session: inout Session
    ) throws(RestorationError) -> ObjectHandle {
        let secret = try session.derive(.ecdh1Derive(.null, publicPoint: point.bytes), from: key, Self.secretTemplate)
        objects.append(secret)
        let material = try session.derive(
            .concatenateDataAndBase(point.bytes), from: secret,
            TransactionKey.intermediate(point.bytes.count + Self.secretByteCount))
        objects.append(material)
        let keys = try session.derive(
            .hkdfDerive(information: GooglePayMessage.information), from: material, Self.keysTemplate)
        objects.append(keys)
        return keys
    }
}
