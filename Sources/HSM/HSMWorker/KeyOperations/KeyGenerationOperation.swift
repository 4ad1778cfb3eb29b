import Encodings
import KeyTypes
import PKCS11
import WorkerProtocol

extension OpenToken {
    /// Makes a merchant's key pair inside the HSM token, tests it and serves it. If an earlier generation for the
    /// merchant was interrupted, finishes the pair that it left instead of making one.
    ///
    /// The pair gets its CKA_ID, the publicKeyHash, after its self-test: first the private key, then the public one. So
    /// after an interruption at any point the public key still has the CKA_ID of an unfinished pair, by which the next
    /// generation finds it.
    func generateKey(
        _ request: KeyGeneration, in session: inout Session
    ) throws(WorkerFailure) -> KeyDescription {
        guard request.use != .service else {
            throw WorkerFailure(.importRefused, "A service key is made by Apple, and imported.")
        }
        try requireSupport(of: request.algorithm, for: request.use)
        let unfinished = try session.unfinishedPair(of: request)
        guard unfinished != nil || !request.onlyFinishes else {
            throw WorkerFailure(.keyNotFound, "The HSM token shows no unfinished key pair of this merchant.")
        }
        let profiles = KeyProfile.forGeneration(needsUnwrap: needsUnwrap(request.algorithm, request.use))
        let pair = if let unfinished { unfinished } else { try session.makePair(request, profiles) }
        if let key = try finish(pair, request, &session) { return key }
        guard !request.onlyFinishes else {
            throw WorkerFailure(.keyNotFound, "The unfinished key pair could not sign its certificate request.")
        }
        // The HSM token cannot grant the right to sign for one call. So this pair is made with the right, and keeps it
        // until its certificate is stored.
        guard let key = try finish(try session.makePair(request, profiles, signs: true), request, &session) else {
            throw WorkerFailure(
                .importRefused, "The HSM token allows no key of this kind to sign its certificate request.")
        }
        return key
    }

    /// Tests the pair and gives it its final CKA_ID. After any failure the pair is destroyed, since nothing was ever
    /// encrypted to it. If the session is lost, the pair cannot be destroyed, and the next generation finishes it.
    ///
    /// - Returns: nil if the pair cannot sign the certificate request that its use needs.
    private func finish(
        _ pair: GeneratedPair, _ request: KeyGeneration, _ session: inout Session
    ) throws(WorkerFailure) -> KeyDescription? {
        var key: KeyDescription?
        defer { if key == nil { session.destroy([pair.privateKey, pair.publicKey]) } }
        key = try testAndName(pair, request, &session)
        return key
    }

    private func testAndName(
        _ pair: GeneratedPair, _ request: KeyGeneration, _ session: inout Session
    ) throws(WorkerFailure) -> KeyDescription? {
        let publicKey = try session.refusingOnError { (session) throws(CallError) in
            try session.publicKey(pair.publicKey, request.algorithm)
        }
        guard let publicKey else {
            throw WorkerFailure(
                .importRefused,
                "The HSM token made a key pair whose public key is not readable, or not of the kind asked for."
            )
        }
        try session.requireProtection(of: pair.privateKey, request.algorithm, for: request.use)
        let entry = PrivateKeyEntry(
            publicKey: publicKey, use: request.use.inHSMToken, object: pair.privateKey, working: pair.privateKey)
        if let failure = tiers.selfTestFailure(of: entry, for: request.use, in: &session) {
            throw WorkerFailure(.importRefused, "The key pair failed its test: \(failure).")
        }
        if request.use.hasCertificate {
            let signsRequests = try session.refusingOnError { (session) throws(CallError) in
                try self.signsRequests(pair.privateKey, publicKey, in: &session)
            }
            guard signsRequests else { return nil }
        }
        let hash = publicKey.publicKeyHash
        let objects = [pair.privateKey, pair.publicKey]
        for object in objects {
            try session.refusingOnError { (session) throws(CallError) in
                try session.setAttributes([.identifier(hash)], of: object)
            }
        }
        try requireIdentifier(hash, of: objects, finding: [.privateKey, .publicKey], in: &session)
        add(entry)
        return KeyDescription(
            identifier: hash, label: request.merchantIdentifier, algorithm: request.algorithm, use: entry.use,
            subjectPublicKeyInfo: publicKey.der, certificates: [], isProtected: true, inconsistency: nil)
    }
}

/// A key pair that the HSM token has made. It is not tested yet, and has no final CKA_ID.
private struct GeneratedPair {
    let publicKey: ObjectHandle
    let privateKey: ObjectHandle
}

extension Session {
    /// - Parameter signs: The private key's CKA_SIGN; nil for the value that the requested use needs.
    fileprivate mutating func makePair(
        _ request: KeyGeneration, _ profiles: [KeyProfile], signs: Bool? = nil
    ) throws(WorkerFailure) -> GeneratedPair {
        let identifier = KeyGeneration.makeUnfinishedIdentifier(for: request.use)
        let common: [Attribute] = [.token(true), .identifier(identifier), .label(request.merchantIdentifier)]
        let (mechanism, parameters) = request.algorithm.generation
        let pair = try refusingOnError { (session) throws(CallError) in
            try session.generateKeyPair(mechanism, in: profiles) { profile in
                let publicUsage = KeyObjects.publicKeyUsage(request.algorithm, request.use, profile)
                let privateUsage = KeyObjects.privateKeyUsage(request.algorithm, request.use, profile, signs: signs)
                return (
                    Template(common + [.private(false)] + publicUsage + parameters),
                    Template(common + [.private(true)] + privateUsage)
                )
            }
        }
        return GeneratedPair(publicKey: pair.publicKey, privateKey: pair.privateKey)
    }

    /// The key pair left by an interrupted generation: a public key without its final CKA_ID, and its private key,
    /// which may have its final CKA_ID already. A public key whose private key was never stored is destroyed.
    ///
    /// The public key's unfinished CKA_ID and the private key's attributes show the pair's use. An unfinished pair
    /// never changes its use. So a pair is skipped if either of them shows a use other than the requested one.
    fileprivate mutating func unfinishedPair(of request: KeyGeneration) throws(WorkerFailure) -> GeneratedPair? {
        try refusingOnError { (session) throws(CallError) in
            let search: Template = [
                .objectClass(.publicKey), .token(true), .label(request.merchantIdentifier),
                .keyType(request.algorithm == .ec ? .ec : .rsa),
            ]
            for object in try session.findObjects(matching: search) {
                guard let identifier = try session.attributes([.identifier], of: object).bytes(.identifier),
                    KeyGeneration.use(ofUnfinished: identifier) == request.use
                else { continue }
                var candidates = [identifier]
                var isAlone = true
                if let key = try session.publicKey(object, request.algorithm) { candidates.append(key.publicKeyHash) }
                for candidate in candidates {
                    let privateKeys: Template = [
                        .objectClass(.privateKey), .token(true), .identifier(candidate),
                        .label(request.merchantIdentifier),
                    ]
                    for privateKey in try session.findObjects(matching: privateKeys) {
                        isAlone = false
                        let use = try session.keyRights(of: privateKey).use(of: request.algorithm)
                        // A private key without any rights was not stored in full. It is returned as well: its test
                        // will fail, and the failure destroys the pair.
                        guard use == nil || use == request.use.inHSMToken else { continue }
                        return GeneratedPair(publicKey: object, privateKey: privateKey)
                    }
                }
                if isAlone { try session.destroyObject(object) }
            }
            return nil
        }
    }
}

extension KeyAlgorithm {
    /// The mechanism that generates a pair, and its parameters in the public key's template.
    var generation: (mechanism: Mechanism, parameters: [Attribute]) {
        switch self {
        case .ec: (.ecKeyPairGeneration, [.ecParameters(EllipticCurve.p256Parameters)])
        case .rsa:
            (
                .rsaKeyPairGeneration,
                [.modulusBits(SubjectPublicKeyInfo.rsaModulusBits), .publicExponent([1, 0, 1])]
            )
        }
    }
}
