import PKCS11
import WorkerProtocol

/// Reads every merchant key of a token, or those with one CKA_ID, and tests them, some at a time.
///
/// Three searches and then attributes by handle: a search for each key would be quadratic in the token's objects.
struct KeyListing: Sendable {
    private let tiers: TierSelection
    /// Entries of an earlier listing: a pair that was tested is not tested again while its object is the same.
    let known: [[UInt8]: PrivateKeyEntry]
    private let privateKeys: [ObjectHandle]
    private let publicKeys: [[UInt8]: [ObjectHandle]]
    private let certificates: [[UInt8]: [ObjectHandle]]
    /// How many of the private keys have been read.
    private var position = 0

    /// The keys that passed, of all pages so far.
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
        publicKeys = try Self.byIdentifier(.publicKey, &session)
        certificates = try Self.byIdentifier(.certificate, &session)
        privateKeys = try session.findObjects(matching: [.objectClass(.privateKey), .token(true)])
    }

    /// What there is under one CKA_ID: one search, which costs some tokens a look at every object that they hold.
    init(
        of identifier: [UInt8], _ session: inout Session, tiers: TierSelection, known: [[UInt8]: PrivateKeyEntry]
    ) throws(CallError) {
        self.tiers = tiers
        self.known = known
        var found: [ObjectClass: [ObjectHandle]] = [:]
        for object in try session.findObjects(matching: [.token(true), .identifier(identifier)]) {
            guard let objectClass = try session.attributes([.objectClass], of: object).objectClass else { continue }
            found[objectClass, default: []].append(object)
        }
        privateKeys = found[.privateKey] ?? []
        publicKeys = [identifier: found[.publicKey] ?? []]
        certificates = [identifier: found[.certificate] ?? []]
    }

    var isDone: Bool { position == privateKeys.count }

    /// The next keys, as many as an answer's frame holds and as can be read and tested in about `time`, at least one
    /// while there are any.
    mutating func next(in session: inout Session, within time: Duration) throws(CallError) -> [KeyDescription] {
        let end = ContinuousClock.now + time
        var (page, size): ([KeyDescription], Int) = ([], 0)
        while !isDone, size < FieldBound.keyPage, page.count < FieldBound.keys, page.isEmpty || .now < end {
            do throws(CallError) {
                if let key = try describe(privateKeys[position], &session) {
                    page.append(key)
                    size += key.certificates.reduce(256) { $0 + $1.count }
                }
            } catch {
                // Destroyed since the search.
                guard error.saysHandle else {
                    // What was read is not lost: the next page begins with this key again.
                    if page.isEmpty { throw error }
                    return page
                }
            }
            position += 1
        }
        return page
    }

    private mutating func describe(
        _ object: ObjectHandle, _ session: inout Session
    ) throws(CallError) -> KeyDescription? {
        guard let key = try Self.privateKey(object, &session) else { return nil }
        var publicKey: SubjectPublicKeyInfo?
        for object in publicKeys[key.identifier] ?? [] where publicKey == nil {
            publicKey = try session.publicKey(object, key.algorithm)
        }
        var certificates: [[UInt8]] = []
        for object in (self.certificates[key.identifier] ?? []).prefix(Self.mostCertificates) {
            guard let der = try session.attributes([.value], of: object).bytes(.value), der.count <= 16 * 1024
            else { continue }
            certificates.append(der)
        }
        return KeyDescription(
            identifier: key.identifier, label: key.label, algorithm: key.algorithm,
            subjectPublicKeyInfo: publicKey?.der ?? [], certificates: certificates,
            isProtected: key.isProtected, inconsistency: try judge(key, publicKey, &session))
    }

    private static let mostCertificates = 32

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

    private static func byIdentifier(
        _ objectClass: ObjectClass, _ session: inout Session
    ) throws(CallError) -> [[UInt8]: [ObjectHandle]] {
        var found: [[UInt8]: [ObjectHandle]] = [:]
        for object in try session.findObjects(matching: [.objectClass(objectClass), .token(true)]) {
            guard let identifier = try session.attributes([.identifier], of: object).bytes(.identifier) else {
                continue
            }
            found[identifier, default: []].append(object)
        }
        return found
    }
}
