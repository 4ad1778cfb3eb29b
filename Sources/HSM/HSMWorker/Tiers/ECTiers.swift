import KeyRestoration
import KeyTypes
import PKCS11
import SecretMemory
import WorkerProtocol

/// EC_v1, tier A: ECDH and the one-step KDF are one derivation inside the HSM token, whose result is the AES key.
///
/// PKCS#11 v3.0 §2.3.1: CKD_SHA256_KDF_SP800 hashes counter ‖ Z ‖ the shared data. So Apple's OtherInfo is passed as
/// the shared data.
struct OneStepDerivationTier: RestorationTier {
    let scheme = RestorationScheme.ecV1
    let protection = ProtectionTier.a
    let requirement = "CKM_ECDH1_DERIVE with CKD_SHA256_KDF_SP800"
    let form: Mechanism.GCMParameterForm
    var parameterForm: Mechanism.GCMParameterForm? { form }

    private static let template = Template(TransactionKey.attributes + [.valueLength(32)])

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let point = try P256Point(checking: input.keyMaterial)
        let symmetricKey = try session.derive(
            .ecdh1Derive(.oneStepSHA256, sharedData: input.otherInfo, publicPoint: point.bytes), from: key.working,
            Self.template)
        return try TransactionKey.open(input.ciphertext, consuming: symmetricKey, form, in: &session)
    }
}

/// EC_v1, tier B: the HSM token composes the one-step KDF (SP 800-56A §5.8.2.1) from PKCS#11's older mechanisms:
/// SHA-256 over 00 00 00 01 ‖ Z ‖ OtherInfo, where Z is the raw shared secret, which is sensitive from the start.
struct ConcatenationTier: RestorationTier {
    let scheme = RestorationScheme.ecV1
    let protection = ProtectionTier.b
    let requirement = "CKM_CONCATENATE_DATA_AND_BASE, CKM_CONCATENATE_BASE_AND_DATA and CKM_SHA256_KEY_DERIVATION"
    let form: Mechanism.GCMParameterForm
    var parameterForm: Mechanism.GCMParameterForm? { form }

    private static let counter: [UInt8] = [0, 0, 0, 1]
    /// The size of Z, the x coordinate of a point on P-256.
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
        let symmetricKey = try restore(input, point, key.working, &session)
        return try TransactionKey.open(input.ciphertext, consuming: symmetricKey, form, in: &session)
    }

    private func restore(
        _ input: Decryption, _ point: P256Point, _ key: ObjectHandle, _ session: inout Session
    ) throws(RestorationError) -> ObjectHandle {
        var intermediates: [ObjectHandle] = []
        defer { session.destroy(intermediates) }
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

/// EC_v1, tier C: the HSM token does the ECDH. The shared secret is read once; key derivation and AES-GCM take place
/// in this process's wiped memory.
struct ECDHSecretTier: RestorationTier {
    let scheme = RestorationScheme.ecV1
    let protection = ProtectionTier.c
    let requirement = "CKM_ECDH1_DERIVE with CKD_NULL"

    /// The size of Z, the x coordinate of a point on P-256.
    private static let secretByteCount = 32
    private static let template: Template = [
        .objectClass(.secretKey), .keyType(.genericSecret), .token(false), .private(true), .sensitive(false),
        .extractable(true), .valueLength(secretByteCount),
    ]

    func open(
        _ input: Decryption, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) throws(RestorationError) -> [UInt8] {
        let point = try P256Point(checking: input.keyMaterial)
        let object = key.working
        let secret = try RestorationError.ofToken { () throws(CallError) in
            try session.deriveSecret(
                .ecdh1Derive(.null, publicPoint: point.bytes), from: object, Self.template, count: Self.secretByteCount)
        }
        do throws(RestorationFailure) {
            let symmetricKey = try OneStepKDF.sha256(z: secret, otherInfo: input.otherInfo)
            return try GCM.open(input.ciphertext, key: symmetricKey)
        } catch {
            throw .input
        }
    }
}

extension P256Point {
    /// Checks that the point is on the curve, which some HSM tokens do not. Answers to points off the curve would
    /// reveal the private key bit by bit.
    init(checking bytes: [UInt8]) throws(RestorationError) {
        do {
            try self.init(uncompressed: bytes)
        } catch {
            throw .input
        }
    }
}
