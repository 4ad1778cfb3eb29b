import Encodings
import PKCS11
import Synchronization
import WorkerProtocol

/// One audit key's two objects in a token: private and public key with the same CKA_ID, 16 bytes, and a label that tells
/// them from the merchants' keys.
struct AuditKeyObjects: Sendable {
    static let label = "paytokend audit"

    let identifier: [UInt8]

    private func common(_ isPrivate: Bool) -> [Attribute] {
        [.token(true), .private(isPrivate), .identifier(identifier), .label(Self.label)]
    }

    /// Every other use is forbidden by name, because some tokens allow what a template does not mention.
    var privateKeyTemplate: Template {
        Template(
            common(true) + [
                .sensitive(true), .extractable(false), .sign(true), .derive(false), .decrypt(false), .unwrap(false),
            ])
    }

    var publicKeyTemplate: Template {
        Template(
            common(false) + [
                .ecParameters(EllipticCurve.p256Parameters), .verify(true), .encrypt(false), .wrap(false),
            ])
    }

    private func search(_ objectClass: ObjectClass) -> Template {
        [
            .objectClass(objectClass), .token(true), .identifier(identifier), .label(Self.label),
        ]
    }

    var privateKeys: Template { search(.privateKey) }
    var publicKeys: Template { search(.publicKey) }
}

/// An audit key that may be used.
struct AuditKeyEntry: Sendable {
    let privateKey: ObjectHandle
    /// 65 bytes, on the curve.
    let publicPoint: [UInt8]
}

/// What an earlier call found in the token, so that the next one does not begin with a search among all objects: SoftHSM
/// reads every object for one, which with thousands of keys costs as much as hundreds of releases.
final class FoundObjects<Key: Hashable & Sendable, Object: Sendable>: Sendable {
    private let objects = Mutex<[Key: Object]>([:])

    subscript(key: Key) -> Object? {
        get { objects.withLock { $0[key] } }
        set { objects.withLock { $0[key] = newValue } }
    }
}

extension Session {
    /// The identifiers of all audit keys that have a private key which may be used. One that was brought into the token
    /// is not reported: anyone with the PIN can do that, and sign with a copy of it elsewhere.
    mutating func auditKeyIdentifiers() throws(CallError) -> [[UInt8]] {
        let search: Template = [.objectClass(.privateKey), .token(true), .label(AuditKeyObjects.label)]
        var identifiers: [[UInt8]] = []
        for object in try findObjects(matching: search) {
            let values = try attributes([.keyType, .identifier, .ecParameters], of: object)
            if let identifier = values.bytes(.identifier), values.isAuditKey(labelled: AuditKeyObjects.label),
                values.isOnP256, !identifiers.contains(identifier), try auditKeyFault(object) == nil
            {
                identifiers.append(identifier)
            }
        }
        return identifiers
    }

    /// Those private keys that are complete: SoftHSM stores a key's name first, and its curve and numbers afterwards.
    mutating func completeKeys(_ privateKeys: [ObjectHandle]) throws(CallError) -> [ObjectHandle] {
        var complete: [ObjectHandle] = []
        for object in privateKeys where try attributes([.ecParameters], of: object).isOnP256 { complete.append(object) }
        return complete
    }

    /// The point of an audit key's public key object; nil when there is none on P-256.
    mutating func auditPublicPoint(_ objects: AuditKeyObjects) throws(CallError) -> [UInt8]? {
        for object in try findObjects(matching: objects.publicKeys) {
            if case .ec(let point)? = try publicKey(object, .ec)?.key { return point }
        }
        return nil
    }

    /// Why a private key is not what an audit key has to be; nil when it is. Tokens do not always follow a template, and
    /// whoever has the PIN can store a key of his own under an audit key's name.
    ///
    /// CKA_ALWAYS_SENSITIVE, CKA_NEVER_EXTRACTABLE and CKA_LOCAL are the token's own statement on where the key comes from
    /// (PKCS#11 v2.40 §4.9, table 32). The first two are false for every key that is brought in, whatever its template says.
    /// NSS softokn does not set CKA_LOCAL on pairs that it makes, and believes a template that does: there it says nothing.
    mutating func auditKeyFault(_ object: ObjectHandle) throws(CallError) -> String? {
        let values = try attributes(
            [
                .sensitive, .extractable, .local, .alwaysSensitive, .neverExtractable, .sign, .derive, .decrypt,
                .unwrap,
            ], of: object)
        guard values.flag(.sensitive) == true, values.flag(.extractable) == false else {
            return "is extractable or not sensitive"
        }
        guard values.flag(.alwaysSensitive) == true, values.flag(.neverExtractable) == true else {
            return "was brought into the token, or was readable at some time (CKA_ALWAYS_SENSITIVE and "
                + "CKA_NEVER_EXTRACTABLE must be true)"
        }
        if values.flag(.local) != true, try marksItsOwnKeys() {
            return "was not made in the token (CKA_LOCAL is not true)"
        }
        guard values.flag(.sign) == true, values.flag(.derive) != true, values.flag(.decrypt) != true,
            values.flag(.unwrap) != true
        else { return "is good for other uses than signatures" }
        return nil
    }

    /// Whether CKA_LOCAL is true for a pair that the token makes now.
    private mutating func marksItsOwnKeys() throws(CallError) -> Bool {
        let pair = try generateKeyPair(
            .ecKeyPairGeneration,
            publicKey: [.token(false), .private(false), .ecParameters(EllipticCurve.p256Parameters), .verify(true)],
            privateKey: [.token(false), .private(true), .sensitive(true), .extractable(false), .sign(true)])
        defer { destroy([pair.privateKey, pair.publicKey]) }
        return try attributes([.local], of: pair.privateKey).flag(.local) == true
    }
}

extension AttributeValues {
    fileprivate var isOnP256: Bool { bytes(.ecParameters) == EllipticCurve.p256Parameters }

    /// Whether these are an audit key's type and identifier: no merchant key has an identifier of 16 bytes.
    func isAuditKey(labelled label: String?) -> Bool {
        label == AuditKeyObjects.label && keyType == .ec
            && bytes(.identifier)?.count == AuditKeyDescription.identifierByteCount
    }
}
