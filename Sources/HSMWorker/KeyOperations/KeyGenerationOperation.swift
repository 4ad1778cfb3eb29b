import Encodings
import PKCS11
import WorkerProtocol

extension OpenToken {
    /// Makes a merchant's key pair inside the token, tests it and serves it; or finishes one that was interrupted.
    ///
    /// The pair gets its CKA_ID, the publicKeyHash, after its self-test: first the private key, then the public one. So
    /// wherever a generation is interrupted, its public key still has an unfinished identifier by which it is found.
    func generateKey(
        _ request: KeyGeneration, in session: inout Session
    ) throws(WorkerFailure) -> KeyDescription {
        let scheme = RestorationScheme(request.algorithm)
        guard let tier = tiers[scheme] else {
            throw WorkerFailure(.notSupported, "The token cannot serve \(scheme.name); its status says why.")
        }
        let unfinished = try session.unfinishedPair(of: request)
        guard unfinished != nil || !request.onlyFinishes else {
            throw WorkerFailure(.keyNotFound, "The token shows no unfinished key pair of this merchant.")
        }
        let pair = if let unfinished { unfinished } else { try session.makePair(request) }
        do throws(WorkerFailure) {
            return try finish(pair, request, tier, &session)
        } catch {
            // Nothing was ever encrypted to it. Where the session is gone this fails, and the next attempt finishes the pair.
            for object in [pair.privateKey, pair.publicKey] { try? session.destroyObject(object) }
            throw error
        }
    }

    private func finish(
        _ pair: GeneratedPair, _ request: KeyGeneration, _ tier: any RestorationTier, _ session: inout Session
    ) throws(WorkerFailure) -> KeyDescription {
        let publicKey = try session.refusingOnError { (session) throws(CallError) in
            try session.publicKey(pair.publicKey, request.algorithm)
        }
        guard let publicKey else {
            throw WorkerFailure(
                .importRefused,
                "The token made a key pair whose public key is not readable, or not of the kind asked for."
            )
        }
        try session.requireProtection(of: pair.privateKey)
        let entry = PrivateKeyEntry(publicKey: publicKey, object: pair.privateKey, working: pair.privateKey)
        if let failure = tier.selfTestFailure(with: entry, in: &session) {
            throw WorkerFailure(.importRefused, "The key pair failed its test: \(failure).")
        }
        let hash = publicKey.publicKeyHash
        for object in [pair.privateKey, pair.publicKey] {
            let identifier = try session.refusingOnError { (session) throws(CallError) in
                try session.setAttributes([.identifier(hash)], of: object)
                return try session.attributes([.identifier], of: object).bytes(.identifier)
            }
            guard identifier == hash else {
                throw WorkerFailure(.importRefused, "The token does not keep the CKA_ID that a key pair is given.")
            }
        }
        add(entry)
        return KeyDescription(
            identifier: hash, label: request.merchantIdentifier, algorithm: request.algorithm,
            subjectPublicKeyInfo: publicKey.der, certificates: [], isProtected: true, inconsistency: nil)
    }
}

/// A key pair that the token has made and that is not yet tested and named.
private struct GeneratedPair {
    let publicKey: ObjectHandle
    let privateKey: ObjectHandle
}

extension Session {
    fileprivate mutating func makePair(_ request: KeyGeneration) throws(WorkerFailure) -> GeneratedPair {
        let identifier = KeyGeneration.unfinishedIdentifier + (0..<8).map { _ in UInt8.random(in: .min ... .max) }
        let common: [Attribute] = [.token(true), .identifier(identifier), .label(request.merchantIdentifier)]
        let (mechanism, parameters) = request.algorithm.generation
        let publicKey = common + [.private(false)] + KeyObjects.publicKeyUsage(request.algorithm) + parameters
        let privateKey = common + [.private(true)] + KeyObjects.privateKeyUsage(request.algorithm)
        let pair = try refusingOnError { (session) throws(CallError) in
            try session.generateKeyPair(mechanism, publicKey: Template(publicKey), privateKey: Template(privateKey))
        }
        return GeneratedPair(publicKey: pair.publicKey, privateKey: pair.privateKey)
    }

    /// What an interrupted generation left: a public key without its final CKA_ID, and its private key, which may have its
    /// final CKA_ID already. A public key alone is removed: its private key was never made.
    fileprivate mutating func unfinishedPair(of request: KeyGeneration) throws(WorkerFailure) -> GeneratedPair? {
        try refusingOnError { (session) throws(CallError) in
            let search: Template = [
                .objectClass(.publicKey), .token(true), .label(request.merchantIdentifier),
                .keyType(request.algorithm == .ec ? .ec : .rsa),
            ]
            for object in try session.findObjects(matching: search) {
                guard let identifier = try session.attributes([.identifier], of: object).bytes(.identifier),
                    identifier.starts(with: KeyGeneration.unfinishedIdentifier)
                else { continue }
                var candidates = [identifier]
                if let key = try session.publicKey(object, request.algorithm) { candidates.append(key.publicKeyHash) }
                for candidate in candidates {
                    let privateKeys: Template = [
                        .objectClass(.privateKey), .token(true), .identifier(candidate),
                        .label(request.merchantIdentifier),
                    ]
                    if let privateKey = try session.findObjects(matching: privateKeys).first {
                        return GeneratedPair(publicKey: object, privateKey: privateKey)
                    }
                }
                try session.destroyObject(object)
            }
            return nil
        }
    }
}

extension KeyAlgorithm {
    /// How a token generates a pair, and what the public key's template says about it.
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
