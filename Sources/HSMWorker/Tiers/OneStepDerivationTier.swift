import KeyRestoration
import PKCS11
import WorkerProtocol

/// EC_v1, tier A: ECDH and the one-step KDF are one derivation inside the token, whose result is the AES key.
///
/// PKCS#11 v3.0 §2.3.1: CKD_SHA256_KDF_SP800 hashes counter ‖ Z ‖ the shared data, so that the shared data is Apple's
/// OtherInfo.
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
