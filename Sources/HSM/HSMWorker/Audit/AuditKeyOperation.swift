import Crypto
import Encodings
import KeyTypes
import PKCS11
import WorkerProtocol

extension OpenToken {
    /// Every audit key that may be used and whose public key can be read.
    func auditKeys(in session: inout Session) throws(WorkerFailure) -> [AuditKeyDescription] {
        try forAuditRecord("The audit keys cannot be listed", &session) {
            (session) throws(CallError) -> Result<[AuditKeyDescription], WorkerFailure> in
            var keys: [AuditKeyDescription] = []
            for identifier in try session.auditKeyIdentifiers() {
                guard keys.count < FieldBound.auditKeys else {
                    return .refused(
                        "The HSM token holds more than \(FieldBound.auditKeys) audit keys (private keys labelled "
                            + "\"\(AuditKeyObjects.label)\"), the most that are read. Remove those of nodes that are gone, with "
                            + "their public keys, with the HSM's own tools.")
                }
                guard let publicKey = try session.auditPublicKey(AuditKeyObjects(identifier: identifier)) else {
                    continue
                }
                keys.append(description(identifier, publicKey))
            }
            return .success(keys)
        }
    }

    private func description(_ identifier: [UInt8], _ publicKey: SubjectPublicKeyInfo) -> AuditKeyDescription {
        AuditKeyDescription(
            identifier: identifier, publicKey: publicKey.auditPublicKey,
            algorithm: publicKey.algorithm == .ec ? .ecdsaP256 : rsaAlgorithm ?? .rsaPSS)
    }

    /// The algorithm of RSA audit keys: PSS if the tests at the opening found a method for it. Nil if they found none at
    /// all.
    private var rsaAlgorithm: AuditSignatureAlgorithm? {
        tiers.signatures.pss != nil ? .rsaPSS : tiers.signatures.pkcs1 != nil ? .rsaPKCS1 : nil
    }

    /// Makes an audit key with the requested identifier, or returns the existing key that has it. A new key is EC on P-256
    /// if the HSM token signs with it, otherwise RSA-2048.
    ///
    /// An interruption may leave incomplete objects: HSM tokens store the public key first, and SoftHSM stores each key in
    /// two steps. An interruption before the test signature may leave a key with which the HSM token refuses to sign. The
    /// next attempt destroys both kinds and makes a new pair. The daemon requests only keys that have sealed nothing, so
    /// no key in service is destroyed.
    func createAuditKey(
        _ identifier: [UInt8], in session: inout Session
    ) throws(WorkerFailure) -> AuditKeyDescription {
        try checkIdentifier(identifier)
        let entry = try exclusively { () throws(WorkerFailure) in
            try forAuditRecord("The audit key cannot be made", &session) {
                (session) throws(CallError) -> Result<AuditKeyEntry, WorkerFailure> in
                let objects = AuditKeyObjects(identifier: identifier)
                let privateKeys = try session.findObjects(matching: objects.privateKeys)
                var isUsable = try !session.completeKeys(privateKeys).isEmpty
                if isUsable { isUsable = try signs(objects, &session) }
                if !isUsable {
                    for remnant in try privateKeys + session.findObjects(matching: objects.publicKeys) {
                        try session.destroyIfPresent(remnant)
                    }
                    if let known = auditKeyRefusal.withLock({ $0 }) { return .refused(known) }
                    if let refusal = try makeAuditKey(objects, &session) {
                        auditKeyRefusal.withLock { $0 = refusal }
                        return .refused(refusal)
                    }
                }
                return try session.auditKey(objects)
                    ?? .refused("The HSM token made the audit key but does not show it.")
            }
        }
        auditKeys[identifier] = entry
        return description(identifier, entry.publicKey)
    }

    /// Signs an audit checkpoint and verifies the signature with the audit key's public key in the HSM token.
    /// - Returns: The signature: ECDSA in DER (RFC 3279 §2.2.3), or RSA with the modulus's length.
    func sign(_ request: CheckpointSigning, in session: inout Session) throws(WorkerFailure) -> [UInt8] {
        try checkIdentifier(request.identifier)
        guard request.message.isCheckpoint else {
            throw WorkerFailure(.auditRefused, "The audit key signs only checkpoints.")
        }
        let known = auditKeys[request.identifier]
        let (key, signature) = try forAuditRecord("The checkpoint cannot be signed", &session) {
            (session) throws(CallError) -> Result<(AuditKeyEntry, [UInt8]?), WorkerFailure> in
            do throws(CallError) {
                return try signed(request, with: known, &session)
            } catch {
                // Another program may have replaced the object, so the key is searched for again. If the HSM token no
                // longer shows the key, the failure is `hsmTokenUnavailable`, since the library may have lost the HSM
                // token.
                guard known != nil, error.isStaleHandle else { throw error }
                let again = try signed(request, with: nil, &session)
                guard case .failure(let failure) = again, failure.kind == .keyNotFound else { return again }
                return .failure(
                    WorkerFailure(.hsmTokenUnavailable, "\(failure.message.dropLast()) any more: \(error)."))
            }
        }
        guard let signature else {
            auditKeys[request.identifier] = nil
            throw WorkerFailure(
                .auditRefused,
                "The HSM token's signature does not verify under the audit key's public key in the HSM token: one of the two was "
                    + "replaced.")
        }
        auditKeys[request.identifier] = key
        return signature
    }

    private func signed(
        _ request: CheckpointSigning, with known: AuditKeyEntry?, _ session: inout Session
    ) throws(CallError) -> Result<(AuditKeyEntry, [UInt8]?), WorkerFailure> {
        var entry = known
        if entry == nil {
            switch try session.auditKey(AuditKeyObjects(identifier: request.identifier)) {
            case .success(let found): entry = found
            case .failure(let failure): return .failure(failure)
            case nil: break
            }
        }
        guard let entry else {
            return .failure(WorkerFailure(.keyNotFound, "The HSM token does not show the audit key."))
        }
        guard request.algorithm.keyAlgorithm == entry.publicKey.algorithm else {
            return .refused("The audit key in the HSM token does not sign by \(request.algorithm.rawValue).")
        }
        guard let signer = AuditSigner(request.algorithm, tiers.signatures) else {
            return .refused("The HSM token does not sign by \(request.algorithm.rawValue); its status says why.")
        }
        return .success((entry, try signer.sign(request.message, with: entry, in: &session)))
    }

    private func checkIdentifier(_ identifier: [UInt8]) throws(WorkerFailure) {
        let count = AuditKeyDescription.identifierByteCount
        guard identifier.count == count else {
            throw WorkerFailure(.auditRefused, "An audit key's identifier has \(count) bytes.")
        }
    }
}

/// The method by which an HSM token signs with an audit key.
private enum AuditSigner {
    case ecdsa
    case rsa(RSASignatureMethod)

    /// - Returns: nil if the tests at the opening found no method for this algorithm.
    init?(_ algorithm: AuditSignatureAlgorithm, _ signatures: RSASignatures) {
        let method: RSASignatureMethod?
        switch algorithm {
        case .ecdsaP256:
            self = .ecdsa
            return
        case .rsaPSS: method = signatures.pss
        case .rsaPKCS1: method = signatures.pkcs1
        }
        guard let method else { return nil }
        self = .rsa(method)
    }

    /// - Returns: The signature; nil if it does not verify under the key's public half.
    func sign(
        _ message: [UInt8], with key: AuditKeyEntry, in session: inout Session
    ) throws(CallError) -> [UInt8]? {
        switch self {
        case .ecdsa:
            guard case .ec(let point) = key.publicKey.key else { return nil }
            let signature = try session.sign(Array(SHA256.hash(data: message)), .ecdsa, key: key.privateKey)
            return SubjectPublicKeyInfo.verifiedECDSA(signature, of: message, point: point)
        case .rsa(let method):
            let entry = PrivateKeyEntry(
                publicKey: key.publicKey, use: .identity, object: key.privateKey, working: key.privateKey)
            return try method.sign(message, with: entry, in: &session)
        }
    }
}

extension OpenToken {
    /// Makes an audit key and signs with it once: EC on P-256, or RSA-2048 if the HSM token refuses EC.
    /// - Returns: nil if the key was made as required; otherwise the fault, after the key was destroyed again.
    func makeAuditKey(_ objects: AuditKeyObjects, _ session: inout Session) throws(CallError) -> String? {
        guard let rsaAlgorithm else { return try makeAuditKey(objects, .ecdsaP256, &session) }
        do throws(CallError) {
            guard let fault = try makeAuditKey(objects, .ecdsaP256, &session) else { return nil }
            // An HSM token that does not protect one type of key is not trusted with another.
            guard fault == Self.doesNotVerify else { return fault }
        } catch {
            guard refusesEC(error) else { throw error }
        }
        return try makeAuditKey(objects, rsaAlgorithm, &session)
    }

    /// Returns true if the error refuses EC keys, or signatures with them. A general error may have passed by the next
    /// attempt, unless the HSM token has shown no use of EC at all.
    private func refusesEC(_ error: CallError) -> Bool {
        error.refusesKeyType || error.returnValue == .generalError && tiers.chosen[.ecV1] == nil
    }

    /// Returns false if the HSM token refuses to sign with the existing EC audit key. A key that has signed in this
    /// process, and a key that must not be used, are not tested.
    private func signs(_ objects: AuditKeyObjects, _ session: inout Session) throws(CallError) -> Bool {
        guard rsaAlgorithm != nil, auditKeys[objects.identifier] == nil,
            case .success(let entry)? = try session.auditKey(objects), entry.publicKey.algorithm == .ec
        else { return true }
        do throws(CallError) {
            _ = try AuditSigner.ecdsa.sign(objects.testMessage, with: entry, in: &session)
            return true
        } catch {
            guard refusesEC(error) else { throw error }
            return false
        }
    }

    private static let doesNotVerify =
        "The HSM token cannot keep an audit key: a new key's signature does not verify under its public key."

    private func makeAuditKey(
        _ objects: AuditKeyObjects, _ algorithm: AuditSignatureAlgorithm, _ session: inout Session
    ) throws(CallError) -> String? {
        let type = algorithm.keyAlgorithm
        let pair = try session.generateKeyPair(
            type.generation.mechanism, in: [KeyProfile(), KeyProfile(forbidsByName: false)]
        ) { objects.templates(type, $0) }
        let both = [pair.privateKey, pair.publicKey]
        var isKept = false
        defer { if !isKept { session.destroy(both) } }
        if let fault = try session.identifierFault(of: both, objects.identifier) {
            return "The HSM token cannot keep an audit key: it \(fault), by which paytokend finds the key."
        }
        if let fault = try session.auditKeyFault(pair.privateKey, type) {
            return "The HSM token cannot keep an audit key: the one that it made \(fault)."
        }
        guard let publicKey = try session.publicKey(pair.publicKey, type),
            let signer = AuditSigner(algorithm, tiers.signatures),
            try signer.sign(
                objects.testMessage, with: AuditKeyEntry(privateKey: pair.privateKey, publicKey: publicKey),
                in: &session) != nil
        else { return Self.doesNotVerify }
        isKept = true
        return nil
    }
}

extension AuditKeyObjects {
    /// The message of a test signature. It has no sequence and an empty node name, so it is no audit checkpoint.
    fileprivate var testMessage: [UInt8] {
        Array("{\"node\":\"\",\"test\":\"\(Hexadecimal.encode(identifier))\"}".utf8)
    }
}

extension CallError {
    /// True if the HSM token refuses keys of this type, or signatures with them.
    fileprivate var refusesKeyType: Bool {
        switch returnValue {
        case .mechanismInvalid, .mechanismParameterInvalid, .curveNotSupported, .domainParametersInvalid,
            .keyTypeInconsistent, .keyFunctionNotPermitted:
            true
        default: isAboutTemplate
        }
    }
}

extension Session {
    /// The audit key with this identifier in the HSM token, or the reason why it must not be used. nil if the HSM token
    /// has no complete private key with the identifier.
    fileprivate mutating func auditKey(
        _ objects: AuditKeyObjects
    ) throws(CallError) -> Result<AuditKeyEntry, WorkerFailure>? {
        let candidates = try completeKeys(findObjects(matching: objects.privateKeys))
        guard !candidates.isEmpty else { return nil }
        var usable: (object: ObjectHandle, algorithm: KeyAlgorithm)?
        var fault: String?
        for candidate in candidates where usable == nil {
            fault = try auditKeyFault(candidate.object, candidate.algorithm)
            if fault == nil { usable = candidate }
        }
        guard let usable else {
            return .refused(
                "The audit key in the HSM token \(fault ?? "cannot be used"): it was not made by paytokend and is not used. "
                    + "Find out who has the HSM token's PIN, and remove the object (CKA_LABEL \(AuditKeyObjects.label), CKA_ID "
                    + "\(Hexadecimal.encode(objects.identifier))).")
        }
        guard let publicKey = try auditPublicKey(objects, usable.algorithm) else {
            return .refused(
                "The audit key in the HSM token has no readable public key of its type: it was removed.")
        }
        return .success(AuditKeyEntry(privateKey: usable.object, publicKey: publicKey))
    }
}

extension [UInt8] {
    /// Returns true if these bytes can be an audit checkpoint's value: a JSON object in printable ASCII whose first
    /// member is `node`.
    var isCheckpoint: Bool {
        count <= FieldBound.checkpoint && starts(with: Array("{\"node\":\"".utf8)) && last == UInt8(ascii: "}")
            && allSatisfy { (0x20...0x7E).contains($0) }
    }
}

extension OpenToken {
    /// Makes calls into the library for the audit record. After a failure, this method tests one of the served keys.
    /// The test shows whether the HSM token lacks this one function (`auditRefused`) or does not work at all
    /// (`hsmTokenUnavailable`). The daemon ends the worker only in the latter case. Otherwise a missing function would
    /// end a worker at each audit checkpoint.
    func forAuditRecord<Value>(
        _ task: String, _ session: inout Session,
        _ body: (inout Session) throws(CallError) -> Result<Value, WorkerFailure>
    ) throws(WorkerFailure) -> Value {
        let result: Result<Value, WorkerFailure>
        do throws(CallError) {
            result = try body(&session)
        } catch {
            let isRefusal = !error.isConnectionLost && works(&session)
            let kind: WorkerFailure.Kind = isRefusal ? .auditRefused : .hsmTokenUnavailable
            throw WorkerFailure(kind, "\(task): \(error)\(error.writeAdvice).")
        }
        return try result.get()
    }

    private func works(_ session: inout Session) -> Bool {
        guard (try? session.loggedInUser()) == .user else { return false }
        guard let entry = keys.all.values.first else { return true }
        return tiers.useFailure(of: entry, in: &session) == nil
    }
}

extension Result where Failure == WorkerFailure {
    static func refused(_ message: String) -> Self { .failure(WorkerFailure(.auditRefused, message)) }
}

extension CallError {
    /// The end of an error message: the remedy for an HSM token that cannot be written to.
    fileprivate var writeAdvice: String {
        switch returnValue {
        case .tokenWriteProtected, .sessionReadOnly: ": the HSM token is read-only, make it writable for its user"
        case .deviceMemory: ": the HSM token is full"
        default: ""
        }
    }
}
