package import KeyTypes
package import PaymentToken
import Synchronization
package import TLSHandshake
package import WorkerProtocol

/// The configured HSM tokens. Work goes to those that hold its key and serve now, to the one with the fewest calls under
/// way first: so a slow one gets less, and one that hangs nothing more than it has already.
///
/// The pool chooses the token; ``CallQueue/call(_:terms:orAt:_:)`` decides whether a call that a token fails is made once
/// more, and asks the pool for another token.
package final class HSMTokenPool: Sendable {
    /// In the configuration's order, `first` included.
    package let all: [HSMToken]
    package let first: HSMToken
    /// Where the next look begins, so that tokens with equally little to do are chosen one after the other.
    private let offset = Atomic<Int>(0)

    /// - Parameter first: the first of the configuration, which has the audit key and remembers the last checkpoint.
    package init(first: HSMToken, others: some Sequence<HSMToken>) {
        self.first = first
        all = [first] + others
    }

    // MARK: Life

    /// Begins to open every token and returns at once.
    package func start() async {
        for hsmToken in all { await hsmToken.start() }
    }

    /// Tries refused PINs again.
    package func retry() {
        for hsmToken in all { hsmToken.retry() }
    }

    /// Answers all calls under way, and later ones, with `hsmTokenUnavailable`, and kills the workers: for a daemon that
    /// has waited long enough for its end.
    package func giveUp() {
        for hsmToken in all { hsmToken.giveUp() }
    }

    /// Lets the calls under way end, then the workers; all tokens at the same time.
    package func shutdown() async {
        await withTaskGroup(of: Void.self) { group in
            for hsmToken in all { group.addTask { await hsmToken.shutdown() } }
        }
    }

    /// Removes a key from every token that can be reached.
    /// - Returns: the names of all tokens, which do not show it any more.
    /// - Throws: the first failure, after all tokens have been asked: one that is away may still hold the key.
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

    /// Opens one payment token's data.
    /// - Parameters:
    ///   - holders: names of the tokens that show the key.
    ///   - requester: callers are served round robin.
    /// - Throws: ``WorkerFailure``; `decryptionFailed` is the input's fault, everything else is not.
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

    /// How long a request may wait for its answer: the call, and its repetition at another token or at the next
    /// worker, which takes some seconds to start.
    static func deadline(callTimeout: Duration) -> Duration {
        callTimeout + longestWait(callTimeout: callTimeout)
    }

    /// How much of that a call may wait beside a worker that answers others: there must be time left for the call itself.
    static func longestWait(callTimeout: Duration) -> Duration {
        max(callTimeout, .seconds(10))
    }

    // MARK: Signatures

    /// Signs a TLS handshake with an identity key.
    /// - Parameters:
    ///   - holders: names of the tokens that show the key.
    /// - Returns: the signature, as long as the modulus, and the token's name.
    package func sign(
        _ signing: TLSSigning, heldBy holders: [String], for requester: Requester
    ) async throws(WorkerFailure) -> (signature: [UInt8], hsmToken: String) {
        func signs(_ hsmToken: HSMToken) -> Bool { hsmToken.tlsAlgorithms.contains(signing.algorithm) }
        let hsmToken = next(among: holders, where: signs) ?? waitable(among: holders)
        let terms = CallTerms(requester: requester, deadline: .now + Self.deadline(callTimeout: hsmToken.callTimeout))
        // Repeated at the same token only, whose share is taken: a token that fails must not have another one overrun.
        let signature = try await hsmToken.signatures.run(for: requester, until: terms.deadline ?? .now) {
            () async throws(WorkerFailure) in
            try await hsmToken.call(.signTLS(signing), terms: terms) {
                if case .tlsSignature(let signature) = $0 { signature } else { nil }
            }
        }
        return (signature, hsmToken.name)
    }

    /// What a key in these tokens signs with now: what each of them that serves has, in the order of preference.
    package func tlsAlgorithms(of holders: [String]) -> [TLSSignatureAlgorithm] {
        let serving = all.filter { holders.contains($0.name) && $0.isServing }.map(\.tlsAlgorithms)
        return TLSSignatureAlgorithm.allCases.filter { algorithm in
            !serving.isEmpty && serving.allSatisfy { $0.contains(algorithm) }
        }
    }

    /// The token with the fewest calls under way.
    private func next(
        among holders: [String], besides failed: [CallQueue] = [], where serves: (HSMToken) -> Bool
    ) -> HSMToken? {
        guard all.count > 1 else {
            return failed.isEmpty ? first : nil
        }
        // A look for a second token does not move the offset on: with two tokens each request would begin at the same one.
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

    /// No holder serves: one whose worker is being started is worth waiting for, another at least says what is wrong.
    private func waitable(among holders: [String]) -> HSMToken {
        let known = all.filter { holders.contains($0.name) }
        return known.first { $0.condition == .starting } ?? known.first ?? first
    }
}

/// One transaction's data as a token opened it.
package struct OpenedTransaction: Sendable {
    /// As it was encrypted.
    package let plaintext: [UInt8]
    /// The tier that opened it.
    package let tier: ProtectionTier
    /// The HSM token's name in the configuration.
    package let hsmToken: String

    package init(plaintext: [UInt8], tier: ProtectionTier, hsmToken: String) {
        (self.plaintext, self.tier, self.hsmToken) = (plaintext, tier, hsmToken)
    }
}

extension HSMToken {
    /// The tier at which payment tokens of this version are opened now; nil when they are not.
    package func tier(for scheme: RestorationScheme) -> ProtectionTier? { condition.tier(for: scheme) }

    /// What it signs TLS handshakes with now.
    var tlsAlgorithms: [TLSSignatureAlgorithm] {
        if case .ready(let description) = condition { description.tlsSignatures.algorithms } else { [] }
    }
}

extension HSMTokenCondition {
    /// The tier at which an HSM token in this condition opens payment tokens of this version; nil when it does not.
    package func tier(for scheme: RestorationScheme) -> ProtectionTier? {
        guard case .ready(let description) = self else { return nil }
        return switch scheme {
        case .ecV1: description.tierECv1
        case .rsaV1: description.tierRSAv1
        }
    }
}
