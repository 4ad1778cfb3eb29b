import KeyRestoration
import PKCS11
import WorkerProtocol

/// EC_v1, tier B: the one-step KDF (SP 800-56A §5.8.2.1) is put together inside the token from PKCS#11's older parts:
/// SHA-256 over 00 00 00 01 ‖ Z ‖ OtherInfo, where Z is the bare shared secret, sensitive from its beginning.
struct ConcatenationTier: RestorationTier {
    let scheme = RestorationScheme.ecV1
    let protection = ProtectionTier.b
    let requirement = "CKM_CONCATENATE_DATA_AND_BASE, CKM_CONCATENATE_BASE_AND_DATA and CKM_SHA256_KEY_DERIVATION"
    let form: Mechanism.GCMParameterForm
    var parameterForm: Mechanism.GCMParameterForm? { form }

    private static let counter: [UInt8] = [0, 0, 0, 1]
    /// The x coordinate of a point on P-256.
    private static let secretByteCount = 32

    private static func intermediate(_ count: Int) -> Template {
        [
            .objectClass(.secretKey), .keyType(.genericSecret), .token(false), .private(true), .sensitive(true),
            .extractable(false), .derive(true), .valueLength(count),
        ]
    }

    private static let secretTemplate = intermediate(secretByteCount)
    private static let countedTemplate = intermediate(counter.count + secretByteCount)
    private static let keyTemplate = Template(TransactionKey.attributes + [.valueLength(32)])

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let point = try P256Point(checking: input.keyMaterial)
        var intermediates: [ObjectHandle] = []
        let symmetricKey: ObjectHandle
        do throws(RestorationError) {
            symmetricKey = try restore(input, point, key.working, &intermediates, &session)
        } catch {
            session.destroy(intermediates)
            throw error
        }
        session.destroy(intermediates)
        return try TransactionKey.open(input.ciphertext, consuming: symmetricKey, form, in: &session)
    }

    private func restore(
        _ input: Decryption, _ point: P256Point, _ key: ObjectHandle, _ intermediates: inout [ObjectHandle],
        _ session: inout Session
    ) throws(RestorationError) -> ObjectHandle {
        let secret = try session.derive(
            .ecdh1Derive(.null, publicPoint: point.bytes), from: key, Self.secretTemplate)
        intermediates.append(secret)
        let counted = try session.derive(.concatenateDataAndBase(Self.counter), from: secret, Self.countedTemplate)
        intermediates.append(counted)
        let whole = try session.derive(
            .concatenateBaseAndData(input.otherInfo), from: counted,
            Self.intermediate(Self.counter.count + Self.secretByteCount + input.otherInfo.count))
        intermediates.append(whole)
        return try session.derive(.sha256KeyDerivation, from: whole, Self.keyTemplate)
    }
}

extension Session {
    /// Best effort: what stays ends with the session.
    fileprivate mutating func destroy(_ objects: [ObjectHandle]) {
        for object in objects { try? destroyObject(object) }
    }
}
