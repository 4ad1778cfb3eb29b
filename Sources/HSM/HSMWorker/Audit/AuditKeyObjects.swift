import Encodings
import KeyTypes
import Locks
import PKCS11
import WorkerProtocol

/// The two objects of one audit key in an HSM token: its private key and its public key. Both have the same CKA_ID of
/// 16 bytes, and a label that distinguishes them from merchant keys.
struct AuditKeyObjects: Sendable {
    static let label = "paytokend audit"

    let identifier: [UInt8]
    var label = Self.label

    private func common(_ isPrivate: Bool) -> [Attribute] {
        [.token(true), .private(isPrivate), .identifier(identifier), .label(label)]
    }

    /// The templates for both halves. The private key may sign. If the profile forbids uses by name, the templates set
    /// every other use to false, because some HSM tokens allow a use that a template omits.
    func templates(
        _ algorithm: KeyAlgorithm = .ec, _ profile: KeyProfile = KeyProfile()
    ) -> (publicKey: Template, privateKey: Template) {
        let publicKey = common(false) + algorithm.generation.parameters
        let privateKey = common(true) + [.sensitive(true), .extractable(false), .sign(true)]
        guard profile.forbidsByName else { return (Template(publicKey), Template(privateKey)) }
        return (
            Template(publicKey + [.verify(true), .encrypt(false), .wrap(false)]),
            Template(privateKey + [.derive(false), .decrypt(false), .unwrap(false)])
        )
    }

    private func search(_ objectClass: ObjectClass) -> Template {
        [
            .objectClass(objectClass), .token(true), .identifier(identifier), .label(label),
        ]
    }

    var privateKeys: Template { search(.privateKey) }
    var publicKeys: Template { search(.publicKey) }
}

/// An audit key that passed its checks, so that it may sign.
struct AuditKeyEntry: Sendable {
    let privateKey: ObjectHandle
    let publicKey: SubjectPublicKeyInfo
}

extension SubjectPublicKeyInfo {
    /// The form of an audit key's public half in a worker's answer.
    var auditPublicKey: [UInt8] {
        if case .ec(let point) = key { point } else { der }
    }
}

/// Objects that an earlier call found, so that the next call needs no search. SoftHSM reads every object for one
/// search. With thousands of keys, that costs as much as hundreds of decryptions.
final class FoundObjects<Key: Hashable & Sendable, Object: Sendable>: Sendable {
    private let objects = Mutex<[Key: Object]>([:])

    subscript(key: Key) -> Object? {
        get { objects.withLock { $0[key] } }
        set { objects.withLock { $0[key] = newValue } }
    }
}

extension Session {
    /// The identifiers of all audit keys whose private key may be used. An imported key is omitted: a person with the
    /// PIN could import a key and sign audit checkpoints with a copy of it outside the HSM token.
    mutating func auditKeyIdentifiers() throws(CallError) -> [[UInt8]] {
        let search: Template = [.objectClass(.privateKey), .token(true), .label(AuditKeyObjects.label)]
        var identifiers: [[UInt8]] = []
        for object in try findObjects(matching: search) {
            let values = try attributes([.identifier] + AttributeValues.ofCompleteKey, of: object)
            if let identifier = values.bytes(.identifier), values.isAuditKey(labelled: AuditKeyObjects.label),
                let algorithm = values.completeKeyAlgorithm, !identifiers.contains(identifier),
                try auditKeyFault(object, algorithm) == nil
            {
                identifiers.append(identifier)
            }
        }
        return identifiers
    }

    /// Returns those of the private keys that are stored in full, with their types. SoftHSM stores a key's label and
    /// CKA_ID before its curve and its numbers, so an interruption can leave a key without a curve and numbers.
    mutating func completeKeys(
        _ privateKeys: [ObjectHandle]
    ) throws(CallError) -> [(object: ObjectHandle, algorithm: KeyAlgorithm)] {
        var complete: [(ObjectHandle, KeyAlgorithm)] = []
        for object in privateKeys {
            if let algorithm = try attributes(AttributeValues.ofCompleteKey, of: object).completeKeyAlgorithm {
                complete.append((object, algorithm))
            }
        }
        return complete
    }

    /// An audit key's public key object; nil if the HSM token shows no such object of this type.
    /// - Parameter algorithm: the type of the private key; nil for any type.
    mutating func auditPublicKey(
        _ objects: AuditKeyObjects, _ algorithm: KeyAlgorithm? = nil
    ) throws(CallError) -> SubjectPublicKeyInfo? {
        for object in try findObjects(matching: objects.publicKeys) {
            let type: KeyAlgorithm = try attributes([.keyType], of: object).keyType == .rsa ? .rsa : .ec
            if algorithm ?? type == type, let key = try publicKey(object, type) { return key }
        }
        return nil
    }

    /// The reason why a private key cannot serve as an audit key, or nil if it can. HSM tokens do not always follow a
    /// template, and a person with the PIN can store a key of their own under an audit key's name.
    ///
    /// CKA_ALWAYS_SENSITIVE, CKA_NEVER_EXTRACTABLE and CKA_LOCAL report the key's origin (PKCS#11 v2.40 §4.9, table
    /// 32). The first two are false for every imported key, whatever the template says. NSS softokn does not set
    /// CKA_LOCAL on pairs that it generates, and accepts it from a template, so there it proves nothing.
    mutating func auditKeyFault(_ object: ObjectHandle, _ algorithm: KeyAlgorithm) throws(CallError) -> String? {
        let values = try attributes(
            [
                .sensitive, .extractable, .local, .alwaysSensitive, .neverExtractable, .sign, .derive, .decrypt,
                .unwrap,
            ], of: object)
        guard values.flag(.sensitive) == true, values.flag(.extractable) == false else {
            return "is extractable or not sensitive"
        }
        guard values.flag(.alwaysSensitive) == true, values.flag(.neverExtractable) == true else {
            return "was imported into the HSM token, or was readable at some time (CKA_ALWAYS_SENSITIVE and "
                + "CKA_NEVER_EXTRACTABLE must be true)"
        }
        if values.flag(.local) != true, try marksItsOwnKeys(algorithm) {
            return "was not made in the HSM token (CKA_LOCAL is not true)"
        }
        guard values.flag(.sign) == true, values.flag(.derive) != true, values.flag(.decrypt) != true,
            values.flag(.unwrap) != true
        else { return "permits other uses than signatures" }
        return nil
    }

    /// Generates a session key pair for a trial, and returns true if the HSM token sets CKA_LOCAL on its private key.
    private mutating func marksItsOwnKeys(_ algorithm: KeyAlgorithm) throws(CallError) -> Bool {
        let (mechanism, parameters) = algorithm.generation
        let pair = try generateKeyPair(
            mechanism,
            publicKey: Template([.token(false), .private(false), .verify(true)] + parameters),
            privateKey: [.token(false), .private(true), .sensitive(true), .extractable(false), .sign(true)])
        defer { destroy([pair.privateKey, pair.publicKey]) }
        return try attributes([.local], of: pair.privateKey).flag(.local) == true
    }
}

extension AttributeValues {
    /// The attributes that ``completeKeyAlgorithm`` needs.
    fileprivate static let ofCompleteKey: [AttributeType] = [.keyType, .ecParameters, .modulus]

    /// The type of a private key that can be an audit key: EC on P-256 or RSA-2048. Nil for any other key, and for one
    /// that lacks its curve or its modulus.
    fileprivate var completeKeyAlgorithm: KeyAlgorithm? {
        switch keyType {
        case .ec where bytes(.ecParameters) == EllipticCurve.p256Parameters: .ec
        case .rsa where bytes(.modulus).map({ $0.drop { $0 == 0 }.count * 8 }) == SubjectPublicKeyInfo.rsaModulusBits:
            .rsa
        default: nil
        }
    }

    /// Returns true if these values are an audit key's: its type, its label and an identifier of 16 bytes. No merchant
    /// key has an identifier of that size.
    func isAuditKey(labelled label: String?) -> Bool {
        label == AuditKeyObjects.label && (keyType == .ec || keyType == .rsa)
            && bytes(.identifier)?.count == AuditKeyDescription.identifierByteCount
    }
}
