package import KeyTypes
package import PaymentToken
import Synchronization
package import TLSHandshake
package import WorkerProtocol

/// The configured HSM tokens. Work goes to those that hold its key and serve now, first to the one with the fewest
/// calls under way. So a slow one gets less, and one that hangs gets nothing more.
///
/// The pool chooses the HSM token; ``CallQueue/call(_:terms:orAt:_:)`` decides whether a failed call is repeated, and
/// requests another HSM token from the pool.
package final class HSMTokenPool: Sendable {
    /// All HSM tokens in the configuration's order, including `first`.
    package let all: [HSMToken]
    package let first: HSMToken
    /// The start of the next search, so that HSM tokens with equal load are chosen in turn.
    private let offset = Atomic<Int>(0)

    /// - Parameter first: the first of the configuration, which has the audit key and remembers the last audit
    ///   checkpoint.
    package init(first: HSMToken, others: some Sequence<HSMToken>) {
        self.first = first
        all = [first] + others
    }

    // MARK: Lifecycle

    /// Begins to open every HSM token and returns at once.
    package func start() async {
        for hsmToken in all { await hsmToken.start() }
    }

    /// Tries refused PINs again.
    package func retry() {
        for hsmToken in all { hsmToken.retry() }
    }

    /// Answers all present and later calls with `hsmTokenUnavailable`, and kills the workers. For a daemon that has
    /// waited long enough when it stops.
    package func giveUp() {
        for hsmToken in all { hsmToken.giveUp() }
    }

    /// Ends the workers after the calls under way, for all HSM tokens concurrently.
    package func shutdown() async {
        await withTaskGroup(of: Void.self) { group in
            for hsmToken in all { group.addTask { await hsmToken.shutdown() } }
        }
    }

    /// Removes a key from every HSM token that can be reached.
    /// - Returns: the names of all HSM tokens, which no longer show it.
    /// - Throws: the first failure, after trying all HSM tokens: an unavailable one may still hold the key.
    package func destroyKey(_ hash: PublicKeyHash) async throws(WorkerFailure) -> [String] {
        var first: WorkerFailure?
        for hsmToken in all {
            do throws(WorkerFailure) {
                try await hsmToken.destroyKey(hash)
            } catch {
                first = first ?? error
            }
        }
        if let first { throw first }
        return all.map(\.name)
    }

    // MARK: Decryption

    /// Decrypts one payment token's data.
    /// - Parameters:
    ///   - holders: the names of the HSM tokens that show the key.
    ///   - requester: the caller; callers are served round robin.
    /// - Throws: ``WorkerFailure``; `decryptionFailed` is the input's fault, no other failure is.
    package func decrypt(
        _ decryption: Decryption, heldBy holders: [String], for requester: Requester = Requester()
    ) async throws(WorkerFailure) -> OpenedTransaction {
        func opens(_ hsmToken: HSMToken) -> Bool { hsmToken.tier(for: decryption.scheme) != nil }
        let hsmToken = next(among: holders, where: opens) ?? waitable(among: holders)
        let terms = CallTerms(requester: requester, deadline: .now + Self.deadline(callTimeout: hsmToken.callTimeout))
        func another(after failed: [CallQueue]) -> CallQueue? {
            next(among: holders, besides: failed, where: opens)?.calls
        }
        let outcome = await hsmToken.calls.call(.decrypt(decryption), terms: terms, orAt: another(after:)) {
            answer -> (plaintext: [UInt8], tier: ProtectionTier)? in
            if case .plaintext(let plaintext, let tier, _) = answer { (plaintext, tier) } else { nil }
        }
        let opened = try outcome.result.answer()
        let name = all.first { $0.calls === outcome.queue }?.name ?? hsmToken.name
        return OpenedTransaction(plaintext: opened.plaintext, tier: opened.tier, hsmToken: name)
    }

    /// The longest time that a request waits for its answer: the call, and its repetition at another HSM token or at
    /// the next worker, which takes some seconds to start.
    static func deadline(callTimeout: Duration) -> Duration {
        callTimeout + longestWait(callTimeout: callTimeout)
    }

    /// The part of it that a call may wait while the worker answers other calls: enough time must remain for the call
    /// itself.
    static func longestWait(callTimeout: Duration) -> Duration {
        max(callTimeout, .seconds(10))
    }

    // MARK: Signatures

    /// Signs a TLS handshake with an identity key.
    /// - Parameters:
    ///   - holders: the names of the HSM tokens that show the key.
    /// - Returns: the signature, as long as the modulus, and the HSM token's name.
    package func sign(
        _ signing: TLSSigning, heldBy holders: [String], for requester: Requester
    ) async throws(WorkerFailure) -> (signature: [UInt8], hsmToken: String) {
        func signs(_ hsmToken: HSMToken) -> Bool { hsmToken.tlsAlgorithms.contains(signing.algorithm) }
        let hsmToken = next(among: holders, where: signs) ?? waitable(among: holders)
        let terms = CallTerms(requester: requester, deadline: .now + Self.deadline(callTimeout: hsmToken.callTimeout))
        // Repeated at the same HSM token only, whose share is in use: a failing HSM token must not overload another
        // one.
        let signature = try await hsmToken.signatures.run(for: requester, until: terms.deadline ?? .now) {
            () async throws(WorkerFailure) in
            try await hsmToken.call(.signTLS(signing), terms: terms) {
                if case .tlsSignature(let signature) = $0 { signature } else { nil }
            }
        }
        return (signature, hsmToken.name)
    }

    /// Returns the algorithms with which a key can sign now in each of these HSM tokens that serves, in order of
    /// preference.
    package func tlsAlgorithms(of holders: [String]) -> [TLSSignatureAlgorithm] {
        let serving = all.filter { holders.contains($0.name) && $0.isServing }.map(\.tlsAlgorithms)
        return TLSSignatureAlgorithm.allCases.filter { algorithm in
            !serving.isEmpty && serving.allSatisfy { $0.contains(algorithm) }
        }
    }

    /// Returns the HSM token with the fewest calls under way.
    private func next(
        among holders: [String], besides failed: [CallQueue] = [], where serves: (HSMToken) -> Bool
    ) -> HSMToken? {
        guard all.count > 1 else {
            return failed.isEmpty ? first : nil
        }
        // A search for a second HSM token does not advance the offset: with two HSM tokens each request would begin at
        // the same one.
        let start =
            failed.isEmpty ? offset.wrappingAdd(1, ordering: .relaxed).newValue : offset.load(ordering: .relaxed)
        var best: (hsmToken: HSMToken, load: Int)?
        for step in all.indices {
            let hsmToken = all[Int(UInt(bitPattern: start &+ step) % UInt(all.count))]
            guard holders.contains(hsmToken.name), !failed.contains(where: { $0 === hsmToken.calls }),
                let load = hsmToken.load, serves(hsmToken)
            else { continue }
            if load < best?.load ?? .max { best = (hsmToken, load) }
        }
        return best?.hsmToken
    }

    /// Returns an HSM token to wait for when no holder serves: one whose worker is starting, or else one that reports
    /// its fault.
    private func waitable(among holders: [String]) -> HSMToken {
        let known = all.filter { holders.contains($0.name) }
        return known.first { $0.condition == .starting } ?? known.first ?? first
    }
}

/// One transaction's decrypted data.
package struct OpenedTransaction: Sendable {
    /// The content before encryption.
    package let plaintext: [UInt8]
    /// The tier that decrypted it.
    package let tier: ProtectionTier
    /// The HSM token's name in the configuration.
    package let hsmToken: String

    package init(plaintext: [UInt8], tier: ProtectionTier, hsmToken: String) {
        (self.plaintext, self.tier, self.hsmToken) = (plaintext, tier, hsmToken)
    }
}

extension HSMToken {
    /// The tier at which payment tokens of this version are decrypted now; nil if they are not.
    package func tier(for scheme: RestorationScheme) -> ProtectionTier? { condition.tier(for: scheme) }

    /// The algorithms with which it signs TLS handshakes now.
    var tlsAlgorithms: [TLSSignatureAlgorithm] {
        if case .ready(let description) = condition { description.tlsSignatures.algorithms } else { [] }
    }
}

extension HSMTokenCondition {
    /// Returns the tier at which an HSM token in this condition decrypts payment tokens of this version; nil if it does
    /// not.
    package func tier(for scheme: RestorationScheme) -> ProtectionTier? {
        guard case .ready(let description) = self else { return nil }
        return switch scheme {
        case .ecV1: description.tierECv1
        case .rsaV1: description.tierRSAv1
        }
    }
}
