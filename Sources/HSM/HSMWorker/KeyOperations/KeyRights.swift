import KeyTypes
import PKCS11

/// The rights of a private key in an HSM token: usage attributes of PKCS#11 v2.40 base §4.9. In the HSM token, only
/// these attributes show a key's use. A right that the HSM token does not report counts as forbidden.
///
/// These attributes do not restrict a person who has the PIN. Most HSM tokens let that person change them, or copy the
/// key with other attributes. With CKM_RSA_X_509, if the HSM token has it, the right to decrypt is also a right to
/// sign, because both are the same bare RSA operation. So the worker checks the use before it calls the HSM token, and
/// the attributes are the second line of defence.
struct KeyRights: Sendable, Equatable {
    /// The attributes that ``init(_:)`` needs.
    static let attributes: [AttributeType] = [.sign, .signRecover, .decrypt, .unwrap, .derive]

    /// CKA_SIGN.
    let signs: Bool
    /// CKA_SIGN_RECOVER.
    let signsWithRecovery: Bool
    /// CKA_DECRYPT, CKA_UNWRAP or CKA_DERIVE: the key can restore a transaction's symmetric key.
    let restores: Bool

    init(_ values: AttributeValues) {
        signs = values.flag(.sign) == true
        signsWithRecovery = values.flag(.signRecover) == true
        restores = [AttributeType.decrypt, .unwrap, .derive].contains { values.flag($0) == true }
    }

    /// The use of a key of this algorithm. A key that can restore symmetric keys is a processing key, with or without
    /// other rights. Any other key that can sign is an identity key if it is RSA, and a service key if it is EC. nil
    /// for a key that can do neither.
    func use(of algorithm: KeyAlgorithm) -> KeyUse? {
        if restores { return .processing }
        guard signs else { return nil }
        switch algorithm {
        case .ec: return .service
        case .rsa: return .identity
        }
    }
}

extension Session {
    mutating func keyRights(of object: ObjectHandle) throws(CallError) -> KeyRights {
        KeyRights(try attributes(KeyRights.attributes, of: object))
    }
}

// A processing key signs one thing: the PKCS#10 request for its own certificate, which the key itself has to sign (RFC
// 2986 §3). SP 800-57 part 1 §5.2 grants a key-establishment key that one signature. The key's template forbids
// signatures, so that none is made by mistake. The worker grants the right for that one call only.
extension Session {
    /// Signs a certificate request.
    ///
    /// A key that may sign is used directly. This is an identity key, or a processing key that was generated with the
    /// right to sign. For any other key, the HSM token makes a copy that can only sign. The copy is a session object,
    /// is used once and is then destroyed, so the stored key never gets the right. If the HSM token makes no such copy,
    /// or the copy cannot sign, the stored key gets the right for this call. If the process ends during this call, the
    /// key keeps the right until its certificate is stored (``revokeSigningRight(from:)``).
    ///
    /// The caller must make this call inside ``OpenToken/exclusively(_:)``. Otherwise another thread could use the key
    /// while it has the right to sign.
    mutating func signRequest(
        _ data: [UInt8], _ mechanism: Mechanism, with key: ObjectHandle
    ) throws(CallError) -> [UInt8] {
        if try keyRights(of: key).signs { return try sign(data, mechanism, key: key) }
        do throws(CallError) {
            if let signature = try signWithCopy(data, mechanism, of: key) { return signature }
        } catch {
            // A failure such as a lost session does not show that the copy cannot sign. So the stored key does not get
            // the right to sign.
            if error.isUnrelatedToKey { throw error }
        }
        try setAttributes([.sign(true)], of: key)
        defer { revokeSigningRight(from: key) }
        return try sign(data, mechanism, key: key)
    }

    /// - Returns: The signature; nil if the copy is less protected than the stored key, or has no right to sign.
    private mutating func signWithCopy(
        _ data: [UInt8], _ mechanism: Mechanism, of key: ObjectHandle
    ) throws(CallError) -> [UInt8]? {
        // The copy has one use only, because some HSM tokens refuse a key with two uses (Luna partitions without
        // multipurpose keys).
        let copy = try copyObject(
            key, [.token(false), .sign(true), .derive(false), .decrypt(false), .unwrap(false)])
        defer { destroyTryingTwice(copy) }
        let values = try attributes([.token, .sensitive, .extractable, .sign], of: copy)
        let isGood =
            values.flag(.token) == false && values.flag(.sensitive) == true
            && values.flag(.extractable) == false && values.flag(.sign) == true
        return isGood ? try sign(data, mechanism, key: copy) : nil
    }

    /// Removes the right to sign, best effort, in up to two attempts. If both fail, the key keeps the right in the HSM
    /// token, but the worker still lets it sign only its certificate request.
    mutating func revokeSigningRight(from key: ObjectHandle) {
        for _ in 0..<2 where (try? setAttributes([.sign(false)], of: key)) != nil { return }
    }
}
