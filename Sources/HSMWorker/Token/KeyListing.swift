import PKCS11
import WorkerProtocol

/// Reads every merchant key of a token and tests it.
///
/// Three searches and then attributes by handle: a search for each key would be quadratic in the token's objects.
struct KeyListing {
    private let tiers: TierSelection
    /// Entries of an earlier listing: a pair that was tested is not tested again while its object is the same.
    private let known: [[UInt8]: PrivateKeyEntry]

    private(set) var descriptions: [KeyDescription] = []
    private(set) var entries: [[UInt8]: PrivateKeyEntry] = [:]

    private struct PrivateKey {
        let object: ObjectHandle
        let identifier: [UInt8]
        let label: String
        let algorithm: KeyAlgorithm
        let isProtected: Bool
    }

    init(
        _ session: inout Session, tiers: TierSelection, known: [[UInt8]: PrivateKeyEntry]
    ) throws(CallError) {
        self.tiers = tiers
        self.known = known
        let publicKeys = try Self.publicKeys(&session)
        let certificates = try Self.certificates(&session)
        for object in try session.findObjects(matching: [.objectClass(.privateKey), .token(true)]) {
            guard let key = try Self.privateKey(object, &session) else { continue }
            try add(key, publicKeys[key.identifier] ?? [], certificates[key.identifier] ?? [], &session)
        }
    }

    private mutating func add(
        _ key: PrivateKey, _ publicKeys: [ObjectHandle], _ certificates: [[UInt8]], _ session: inout Session
    ) throws(CallError) {
        var publicKey: SubjectPublicKeyInfo?
        for object in publicKeys where publicKey == nil {
            publicKey = try session.publicKey(object, key.algorithm)
        }
        let inconsistency = try judge(key, publicKey, &session)
        descriptions.append(
            KeyDescription(
                identifier: key.identifier, label: key.label, algorithm: key.algorithm,
                subjectPublicKeyInfo: publicKey?.der ?? [], certificates: certificates,
                isProtected: key.isProtected, inconsistency: inconsistency))
    }

    /// - Returns: nil when the key may be used; it is then among the entries.
    /// - Throws: what keeps the token from telling.
    private mutating func judge(
        _ key: PrivateKey, _ publicKey: SubjectPublicKeyInfo?, _ session: inout Session
    ) throws(CallError) -> String? {
        guard let publicKey else {
            return "The token has no readable P-256 or RSA-2048 public key with the private key's CKA_ID."
        }
        let hash = publicKey.publicKeyHash
        guard key.identifier == hash else { return "The CKA_ID is not the SHA-256 of the public key." }
        guard key.isProtected else {
            return "The private key is extractable or not sensitive: destroy it in the token and import it again."
        }
        guard entries[hash] == nil else { return "Another private key in the token has the same CKA_ID." }
        if let entry = known[hash], entry.object == key.object {
            entries[hash] = entry
            return nil
        }
        let scheme: RestorationScheme = key.algorithm == .ec ? .ecV1 : .rsaV1
        guard let tier = tiers[scheme] else {
            return "The token cannot serve \(scheme.name), so that the pair was not tested; its status says why."
        }
        let entry = PrivateKeyEntry(publicKey: publicKey, object: key.object, working: key.object)
        // Twice, since a token may falter for a moment, and the key would be out of use until the next listing.
        if let failure = tier.failsTrial(with: entry, in: &session),
            failure.call == nil || tier.failsTrial(with: entry, in: &session) != nil
        {
            if let call = failure.call, call.saysNothingOfKey { throw call }
            return "Private and public key do not fit, or the key may not be used: \(failure)."
        }
        entries[hash] = entry
        return nil
    }

    // MARK: Reading

    private static func privateKey(
        _ object: ObjectHandle, _ session: inout Session
    ) throws(CallError) -> PrivateKey? {
        let values = try session.attributes(
            [.keyType, .identifier, .label, .sensitive, .extractable, .ecParameters], of: object)
        guard !values.saysAuditKey(labelled: values.text(.label)) else { return nil }
        let algorithm: KeyAlgorithm
        switch values.keyType {
        case .ec where values.bytes(.ecParameters) == EllipticCurve.p256Parameters: algorithm = .ec
        case .rsa: algorithm = .rsa
        // Other keys in the same token are somebody else's.
        default: return nil
        }
        return PrivateKey(
            object: object, identifier: Array((values.bytes(.identifier) ?? []).prefix(128)),
            label: String((values.text(.label) ?? "").prefix(128)), algorithm: algorithm,
            isProtected: values.flag(.sensitive) == true && values.flag(.extractable) == false)
    }

    private static func publicKeys(_ session: inout Session) throws(CallError) -> [[UInt8]: [ObjectHandle]] {
        var found: [[UInt8]: [ObjectHandle]] = [:]
        for object in try session.findObjects(matching: [.objectClass(.publicKey), .token(true)]) {
            guard let identifier = try session.attributes([.identifier], of: object).bytes(.identifier) else {
                continue
            }
            found[identifier, default: []].append(object)
        }
        return found
    }

    private static func certificates(_ session: inout Session) throws(CallError) -> [[UInt8]: [[UInt8]]] {
        var found: [[UInt8]: [[UInt8]]] = [:]
        for object in try session.findObjects(matching: [.objectClass(.certificate), .token(true)]) {
            let values = try session.attributes([.identifier, .value], of: object)
            guard let identifier = values.bytes(.identifier), let der = values.bytes(.value),
                der.count <= 16 * 1024, found[identifier, default: []].count < 32
            else { continue }
            found[identifier, default: []].append(der)
        }
        return found
    }
}
