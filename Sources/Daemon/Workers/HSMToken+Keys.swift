import WorkerProtocol

extension HSMToken {
    /// Makes a merchant's key pair inside the token. It is served from then on, as far as its state allows.
    ///
    /// When the worker ends meanwhile, the token is read instead of asked again: a pair that was left unfinished is
    /// finished, and one that is finished is found as the merchant's only key that nobody knew of.
    ///
    /// - Parameters:
    ///   - known: The publicKeyHashes of the keys that were there before.
    /// - Returns: The key, with its publicKeyHash as identifier and its SubjectPublicKeyInfo.
    /// - Throws: `importRefused` with the token's reason; `tokenUnavailable` when the outcome cannot be read, or when
    ///   the token shows that nothing was made.
    func generateKey(
        _ algorithm: KeyAlgorithm, merchantIdentifier: String, known: Set<[UInt8]>
    ) async throws(WorkerFailure) -> KeyDescription {
        var generation = KeyGeneration(merchantIdentifier: merchantIdentifier, algorithm: algorithm)
        let interruption: WorkerFailure
        do {
            return try await generated(generation)
        } catch {
            guard error.kind == .tokenUnavailable else { throw error }
            interruption = error
        }
        generation.onlyFinishes = true
        do {
            return try await generated(generation)
        } catch {
            guard error.kind == .keyNotFound else { throw error }
        }
        let new = try await listKeys().filter { key in
            key.label == merchantIdentifier && key.algorithm == algorithm && key.certificates.isEmpty
                && key.inconsistency == nil && !known.contains(key.identifier)
        }
        guard let key = new.first else { throw interruption }
        guard new.count == 1 else {
            throw WorkerFailure(
                .tokenUnavailable,
                "The worker ended while it made a key, and the token now shows \(new.count) new keys of the merchant.")
        }
        return key
    }

    private func generated(_ generation: KeyGeneration) async throws(WorkerFailure) -> KeyDescription {
        guard case .generatedKey(let key) = try await answer(to: .generateKey(generation)),
            key.label == generation.merchantIdentifier, key.algorithm == generation.algorithm
        else { throw Self.wrongAnswer }
        return key
    }

    /// Signs a PKCS#10 request with the merchant key that it is for.
    ///
    /// - Parameters:
    ///   - information: CertificationRequestInfo in DER (RFC 2986 §4.1), at most 8 KiB.
    /// - Returns: ECDSA with SHA-256 in DER (RFC 3279 §2.2.3), or RSA PKCS #1 v1.5 with SHA-256: verified.
    /// - Throws: `keyNotFound`; `importRefused` for bytes that are no request of that key.
    func signRequest(_ information: [UInt8], publicKeyHash: [UInt8]) async throws(WorkerFailure) -> [UInt8] {
        let signing = RequestSigning(publicKeyHash: publicKeyHash, information: information)
        guard case .requestSignature(let signature) = try await answer(to: .signRequest(signing)) else {
            throw Self.wrongAnswer
        }
        return signature
    }
}
