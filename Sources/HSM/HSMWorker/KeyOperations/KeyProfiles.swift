import KeyTypes
import Locks
import PKCS11
import WorkerProtocol

/// One form of a key pair's templates. HSM tokens differ in the attributes that they accept, and in the half of the
/// pair that must be created first. So the worker tries several forms in order, independently of the vendor. It then
/// reads the protection and the rights of the new key, so it notices an HSM token that permits more uses than the
/// template.
struct KeyProfile: Sendable, Equatable {
    /// True to set the attribute of each forbidden use to false, because some HSM tokens allow a use that the template
    /// omits. False to omit these attributes, because other HSM tokens refuse an attribute that they do not support.
    var forbidsByName = true
    /// True to permit CKA_UNWRAP to an RSA processing key. Only ``UnwrappedKeyTier`` needs it.
    var unwraps = true
    /// True to create an imported private key before its public key. Some libraries create the public key object
    /// together with the private key.
    var privateKeyFirst = false

    /// The forms of the templates for a new pair, the most explicit first.
    /// - Parameter needsUnwrap: true if the key cannot be used without CKA_UNWRAP.
    static func forGeneration(needsUnwrap: Bool) -> [KeyProfile] {
        needsUnwrap
            ? [KeyProfile(), KeyProfile(forbidsByName: false)]
            : [KeyProfile(), KeyProfile(unwraps: false), KeyProfile(forbidsByName: false, unwraps: false)]
    }

    /// The forms for an imported pair: those of ``forGeneration(needsUnwrap:)`` with the public key created first, then
    /// the same forms with the private key created first.
    static func forImport(needsUnwrap: Bool) -> [KeyProfile] {
        let forms = forGeneration(needsUnwrap: needsUnwrap)
        return forms
            + forms.map { KeyProfile(forbidsByName: $0.forbidsByName, unwraps: $0.unwraps, privateKeyFirst: true) }
    }
}

extension OpenToken {
    /// Returns true if keys of this kind cannot be used without CKA_UNWRAP.
    func needsUnwrap(_ algorithm: KeyAlgorithm, _ use: KeyUse) -> Bool {
        algorithm == .rsa && use == .processing && tiers.chosen[.rsaV1] is UnwrappedKeyTier
    }

    /// Stores both halves of a pair in the first form that the HSM token accepts, and remembers that form.
    ///
    /// - Parameter created: Receives the public key if this call created it. Receives nothing if the call throws.
    /// - Returns: The private key.
    func storePair(
        _ objects: KeyObjects, _ privateKey: borrowing PrivateKeyInfo, _ created: inout [ObjectHandle],
        in session: inout Session
    ) throws(CallError) -> ObjectHandle {
        let all = KeyProfile.forImport(needsUnwrap: needsUnwrap(objects.publicKey.algorithm, objects.use))
        let known = importProfile.withLock { $0 }.flatMap { all.contains($0) ? $0 : nil }
        let ordered = [known].compactMap(\.self) + all.filter { $0 != known }
        return try firstAccepted(of: ordered) { (profile) throws(CallError) in
            let object = try session.store(objects, privateKey, profile, &created)
            importProfile.withLock { $0 = profile }
            return object
        }
    }
}

/// Tries forms of a template in order, until the HSM token accepts one.
///
/// - Parameters:
///   - forms: at least one.
///   - isRefusal: returns true for an error after which the next form is tried.
/// - Throws: the first refusal if the HSM token refuses every form; any other error at once.
func firstAccepted<Form, Accepted>(
    of forms: [Form], isRefusal: (CallError) -> Bool = { $0.mayBeAboutTemplate },
    _ attempt: (Form) throws(CallError) -> Accepted
) throws(CallError) -> Accepted {
    var refusal: CallError?
    for form in forms {
        do throws(CallError) {
            return try attempt(form)
        } catch {
            guard isRefusal(error) else { throw error }
            refusal = refusal ?? error
        }
    }
    guard let refusal else { preconditionFailure("There is at least one form.") }
    throw refusal
}

extension Session {
    /// Stores both halves of a pair in one form. Leaves neither half in the HSM token if it throws.
    fileprivate mutating func store(
        _ objects: KeyObjects, _ privateKey: borrowing PrivateKeyInfo, _ profile: KeyProfile,
        _ created: inout [ObjectHandle]
    ) throws(CallError) -> ObjectHandle {
        var publicKey: ObjectHandle?
        if !profile.privateKeyFirst { publicKey = try createPublicKey(objects, profile) }
        var object: ObjectHandle?
        do throws(CallError) {
            let made = try createObject(objects.templates(profile).privateKey, secrets: privateKey.secrets)
            object = made
            if profile.privateKeyFirst {
                publicKey = try createPublicKey(objects, profile)
                try keepIdentifier(of: objects)
            }
            if let publicKey { created.append(publicKey) }
            return made
        } catch {
            destroy([object, publicKey].compactMap(\.self))
            throw error
        }
    }

    /// Sets the public key's CKA_ID again, best effort. The YubiHSM's library makes the public key together with the
    /// private one, and keeps the CKA_ID of a template only until the process ends.
    private mutating func keepIdentifier(of objects: KeyObjects) throws(CallError) {
        let identifier = Attribute.identifier(objects.publicKey.publicKeyHash)
        for object in try findObjects(matching: [.objectClass(.publicKey), identifier]) {
            try? setAttributes([identifier], of: object)
        }
    }

    /// - Returns: nil if the HSM token has the public key already.
    private mutating func createPublicKey(
        _ objects: KeyObjects, _ profile: KeyProfile
    ) throws(CallError) -> ObjectHandle? {
        guard try storedObjects(identifiedBy: objects.publicKey.publicKeyHash)[.publicKey] == nil else { return nil }
        return try createObject(objects.templates(profile).publicKey)
    }

    /// Generates a key pair in the first form that the HSM token accepts.
    mutating func generateKeyPair(
        _ mechanism: Mechanism, in profiles: [KeyProfile],
        _ templates: (KeyProfile) -> (publicKey: Template, privateKey: Template)
    ) throws(CallError) -> (publicKey: ObjectHandle, privateKey: ObjectHandle) {
        try firstAccepted(of: profiles) { (profile) throws(CallError) in
            let (publicKey, privateKey) = templates(profile)
            return try generateKeyPair(mechanism, publicKey: publicKey, privateKey: privateKey)
        }
    }
}
