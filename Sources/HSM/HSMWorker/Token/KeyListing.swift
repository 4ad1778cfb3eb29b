import Encodings
import KeyTypes
import Locks
import PKCS11
import WorkerProtocol

/// Reads and tests merchant keys, a page at a time: all keys of an HSM token, or only those with one CKA_ID.
///
/// A listing of all keys makes three searches and then reads attributes by handle. A search for each key would take
/// time quadratic in the number of objects. Several sessions may read at the same time; each key is read by one of
/// them.
final class KeyListing: Sendable {
    private let tiers: TierSelection
    /// The entries that were served when the listing began. A key among them is not tested again if the HSM token still
    /// shows it with the same object handle and use.
    let known: [[UInt8]: PrivateKeyEntry]
    private let privateKeys: [ObjectHandle]
    private let publicKeys: [[UInt8]: [ObjectHandle]]
    private let certificates: [[UInt8]: [ObjectHandle]]
    private let state = Mutex(State())

    private struct State {
        /// The index in `privateKeys` of the next key that no session has begun to read.
        var position = 0
        /// Keys that must be read again, because a call into the library failed while a session was reading them.
        var returned: [ObjectHandle] = []
        /// The number of keys that sessions are reading now.
        var underWay = 0
        /// The publicKeyHash of each key that passed its test or is being tested.
        var claimed: Set<[UInt8]> = []
        var entries: [[UInt8]: PrivateKeyEntry] = [:]
    }

    /// The keys in all pages so far that passed their tests, by publicKeyHash.
    var entries: [[UInt8]: PrivateKeyEntry] { state.withLock { $0.entries } }

    private struct PrivateKey {
        let object: ObjectHandle
        let identifier: [UInt8]
        let label: String
        let algorithm: KeyAlgorithm
        /// CKA_SENSITIVE and CKA_EXTRACTABLE; nil if the HSM token does not show them.
        let protection: (sensitive: Bool?, extractable: Bool?)
        var isProtected: Bool { protection == (true, false) }
        let rights: KeyRights
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

    /// Finds all objects with one CKA_ID.
    init(
        of identifier: [UInt8], _ session: inout Session, tiers: TierSelection, known: [[UInt8]: PrivateKeyEntry]
    ) throws(CallError) {
        self.tiers = tiers
        self.known = known
        let found = try session.storedObjects(identifiedBy: identifier)
        privateKeys = found[.privateKey] ?? []
        publicKeys = [identifier: found[.publicKey] ?? []]
        certificates = [identifier: found[.certificate] ?? []]
    }

    /// Returns true while a key remains that no session has begun to read, or that must be read again.
    var hasMore: Bool { state.withLock { $0.position < privateKeys.count || !$0.returned.isEmpty } }

    /// Returns true once all keys have been read.
    var isDone: Bool { !hasMore && state.withLock { $0.underWay == 0 } }

    private func take() -> ObjectHandle? {
        state.withLock { state in
            guard !state.returned.isEmpty || state.position < privateKeys.count else { return nil }
            state.underWay += 1
            if let object = state.returned.popLast() { return object }
            defer { state.position += 1 }
            return privateKeys[state.position]
        }
    }

    private func finish(_ object: ObjectHandle, isRead: Bool) {
        state.withLock { state in
            state.underWay -= 1
            if !isRead { state.returned.append(object) }
        }
    }

    /// Reads and tests the next keys: as many as fit into an answer's frame and as `time` permits. The result is empty
    /// only if no key is left for this session.
    func next(in session: inout Session, within time: Duration) throws(CallError) -> [KeyDescription] {
        let end = ContinuousClock.now + time
        var (page, size): ([KeyDescription], Int) = ([], 0)
        while size < FieldBound.keyPage, page.count < FieldBound.keys, page.isEmpty || .now < end,
            let object = take()
        {
            do throws(CallError) {
                if let key = try describe(object, &session) {
                    page.append(key)
                    size += key.frameByteCount
                }
            } catch {
                // A stale handle, while the user is logged in, means that the key was destroyed after the search. The
                // key is skipped.
                guard error.isStaleHandle, !Self.hasLostLogin(&session) else {
                    finish(object, isRead: false)
                    // The keys read so far are returned. The key whose call failed is read again for a later page.
                    if page.isEmpty { throw error.isStaleHandle ? .lostLogin(during: error) : error }
                    return page
                }
            }
            finish(object, isRead: true)
        }
        return page
    }

    private func describe(
        _ object: ObjectHandle, _ session: inout Session
    ) throws(CallError) -> KeyDescription? {
        guard let key = try Self.privateKey(object, &session) else { return nil }
        var publicKey: SubjectPublicKeyInfo?
        for object in publicKeys[key.identifier] ?? [] where publicKey == nil {
            publicKey = try session.publicKey(object, key.algorithm)
        }
        let (certificates, certificateFault) = try readCertificates(key.identifier, &session)
        // This step must be the last, because it claims the key's identifier. If a later step failed, the next attempt
        // would report this key as a second one with the same identifier.
        let fault = try findFault(key, publicKey, &session)
        return KeyDescription(
            identifier: key.identifier, label: key.label, algorithm: key.algorithm,
            use: key.rights.use(of: key.algorithm) ?? .processing, subjectPublicKeyInfo: publicKey?.der ?? [],
            certificates: certificates,
            isProtected: key.isProtected, inconsistency: fault ?? certificateFault)
    }

    /// Reads the CKA_VALUE of each certificate object with this CKA_ID. The daemon parses the values as certificates.
    /// - Returns: The values that fit into an answer, and a fault if any value does not fit. The fault excludes the key
    ///   from use, because an omitted certificate could name another merchant.
    private func readCertificates(
        _ identifier: [UInt8], _ session: inout Session
    ) throws(CallError) -> (certificates: [[UInt8]], fault: String?) {
        let objects = certificates[identifier] ?? []
        guard objects.count <= FieldBound.certificatesPerKey else {
            return (
                [], "The HSM token has more than \(FieldBound.certificatesPerKey) certificates with the key's CKA_ID."
            )
        }
        var found: [[UInt8]] = []
        var fault: String?
        for object in objects {
            let values = try session.attributes([.value], of: object)
            if let der = values.bytes(.value), der.count <= FieldBound.certificate {
                found.append(der)
            } else if values.bytes(.value) != nil || values.isOversized(.value) {
                fault =
                    "A certificate in the HSM token with the key's CKA_ID is larger than \(FieldBound.certificate) bytes, so "
                    + "that it is not read: destroy that object with the vendor's tools."
            }
        }
        return (found, fault)
    }

    /// Checks one private key and tests the pair.
    /// - Returns: nil if the key may be used, which adds it to `entries`; otherwise the reason, as a sentence for
    ///   operators.
    /// - Throws: A ``CallError`` whose cause is not the key, such as a lost session.
    private func findFault(
        _ key: PrivateKey, _ publicKey: SubjectPublicKeyInfo?, _ session: inout Session
    ) throws(CallError) -> String? {
        guard let publicKey else {
            return "The HSM token has no readable P-256 or RSA-2048 public key with the private key's CKA_ID."
        }
        let hash = publicKey.publicKeyHash
        guard key.identifier == hash else { return "The CKA_ID is not the SHA-256 of the public key." }
        guard key.protection.sensitive != nil, key.protection.extractable != nil else {
            return
                "The HSM token does not show whether the private key is protected: CKA_SENSITIVE or CKA_EXTRACTABLE cannot be read."
        }
        guard key.isProtected else {
            return "The private key is extractable or not sensitive: destroy it in the HSM token and import it again."
        }
        guard let use = key.rights.use(of: key.algorithm) else {
            return
                "The private key's attributes permit neither restoring payments' keys nor signatures, so it cannot be used."
        }
        guard state.withLock({ $0.claimed.insert(hash).inserted }) else {
            return "Another private key in the HSM token has the same CKA_ID."
        }
        do throws(CallError) {
            let (entry, fault) = try test(key, publicKey, use, &session)
            state.withLock { state in
                state.entries[hash] = entry
                if entry == nil { state.claimed.remove(hash) }
            }
            return fault
        } catch {
            _ = state.withLock { $0.claimed.remove(hash) }
            throw error
        }
    }

    private func test(
        _ key: PrivateKey, _ publicKey: SubjectPublicKeyInfo, _ use: KeyUse, _ session: inout Session
    ) throws(CallError) -> (entry: PrivateKeyEntry?, fault: String?) {
        if let entry = known[publicKey.publicKeyHash], entry.object == key.object, entry.use == use {
            return (entry, nil)
        }
        if let lack = tiers.unsupportedReason(for: key.algorithm, use) {
            return (nil, "\(lack), so that the pair was not tested; its status says why.")
        }
        let entry = PrivateKeyEntry(publicKey: publicKey, use: use, object: key.object, working: key.object)
        // A test that failed because of a call is repeated once. Otherwise a transient error would exclude the key
        // until the next listing.
        if let failure = tiers.useFailure(of: entry, in: &session),
            failure.call == nil || tiers.useFailure(of: entry, in: &session) != nil
        {
            // A key with CKA_ALWAYS_AUTHENTICATE requires another C_Login before each use (PKCS#11 v2.40 base §4.9),
            // but the worker has wiped the PIN. The HSM token returns the same value as for a lost login.
            if failure.call?.returnValue == .userNotLoggedIn,
                try session.attributes([.alwaysAuthenticate], of: key.object).flag(.alwaysAuthenticate) == true
            {
                return (nil, "The private key requires the PIN again for each use (CKA_ALWAYS_AUTHENTICATE).")
            }
            if let call = failure.call {
                if call.isUnrelatedToKey { throw call }
                if Self.hasLostLogin(&session) { throw .lostLogin(during: call) }
            }
            return (nil, "Private and public key do not match, or the key may not be used: \(failure).")
        }
        return (entry, nil)
    }

    /// Returns true if the user is no longer logged in. The handles of all private keys are then stale.
    private static func hasLostLogin(_ session: inout Session) -> Bool { (try? session.loggedInUser()) != .user }

    // MARK: Reading

    private static func privateKey(
        _ object: ObjectHandle, _ session: inout Session
    ) throws(CallError) -> PrivateKey? {
        let values = try session.attributes(
            [.keyType, .identifier, .label, .sensitive, .extractable, .ecParameters] + KeyRights.attributes, of: object)
        guard !values.isAuditKey(labelled: values.text(.label)),
            !StoredTestPair.owns(identifier: values.bytes(.identifier), label: values.text(.label))
        else { return nil }
        let algorithm: KeyAlgorithm
        switch values.keyType {
        case .ec where values.bytes(.ecParameters) == EllipticCurve.p256Parameters: algorithm = .ec
        case .rsa: algorithm = .rsa
        // A key of another type belongs to another program, so it is not listed.
        default: return nil
        }
        return PrivateKey(
            object: object, identifier: Array((values.bytes(.identifier) ?? []).prefix(FieldBound.identifier)),
            label: (values.text(.label) ?? "").prefix(utf8Count: FieldBound.name), algorithm: algorithm,
            protection: (values.flag(.sensitive), values.flag(.extractable)),
            rights: KeyRights(values))
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

extension CallError {
    fileprivate static func lostLogin(during error: CallError) -> CallError {
        CallError(call: error.call, cause: .returned(.userNotLoggedIn))
    }
}

extension KeyDescription {
    /// The approximate number of bytes that this description occupies in a frame.
    fileprivate var frameByteCount: Int {
        let texts = label.utf8.count + (inconsistency?.utf8.count ?? 0)
        return certificates.reduce(64 + identifier.count + subjectPublicKeyInfo.count + texts) { $0 + $1.count }
    }
}
