import Crypto
package import KeyTypes
package import PaymentToken
import Synchronization
package import TLSHandshake
import Telemetry
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
    /// A counter that determines the HSM token with which a search starts, so that HSM tokens with equal load are
    /// chosen in turn.
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
    /// - Throws: ``WorkerFailure``. Only `decryptionFailed` is caused by the input.
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

    /// The part of ``deadline(callTimeout:)`` that a call may wait while the worker answers other calls. Enough time
    /// must remain for the call itself.
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
        // A signature is repeated only at the HSM token whose share it uses: a failing HSM token must not overload
        // another one.
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
        // A search for a second HSM token does not advance the offset. Otherwise, with two HSM tokens, every request
        // would begin at the same one.
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
    /// The decrypted payment data.
    package let plaintext: [UInt8]
    /// The tier at which the data was decrypted.
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

    /// The algorithms with which the HSM token signs TLS handshakes now.
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

/// The reason why a call was not answered, and the stage that it reached. Both determine whether and where the call is
/// repeated.
struct CallFailure: Error, Sendable, Equatable {
    enum Reach: Sendable {
        /// The call waited in the daemon: no worker received it.
        case queue
        /// A worker received it and reported the failure; or its worker was ended because the HSM token failed, which
        /// no input caused.
        case worker
        /// The worker ended while it had the call. This input may have caused the end.
        case endedWorker
    }

    let failure: WorkerFailure
    let reach: Reach

    var kind: WorkerFailure.Kind { failure.kind }
    var message: String { failure.message }
}

extension Result where Failure == CallFailure {
    /// Returns the answer, or throws the failure without the stage that the call reached.
    func answer() throws(WorkerFailure) -> Success {
        do {
            return try get()
        } catch {
            throw error.failure
        }
    }
}

/// The caller that an HSM call is made for.
package struct Requester: Sendable {
    /// The caller's name in audit records; callers are served round robin. nil for administration and the daemon's own
    /// calls, which together count as one caller.
    var caller: String?
    /// The client that the caller acts for; nil for itself. Used for fairness only: the caller's turns rotate among
    /// these names.
    var client: String?
    /// Returns true once the caller has closed its connection. Its calls are then not made, unless a worker already has
    /// them.
    var hasLeft: @Sendable () -> Bool

    package init(
        caller: String? = nil, client: String? = nil, hasLeft: @escaping @Sendable () -> Bool = { false }
    ) {
        (self.caller, self.client, self.hasLeft) = (caller, client, hasLeft)
    }
}

/// The conditions under which a call is made.
struct CallTerms: Sendable {
    var requester = Requester()
    /// The time by which an unanswered call fails, wherever it is. nil for calls whose answer is needed however long it
    /// takes.
    var deadline: ContinuousClock.Instant?
    /// True for the second attempt. It goes before all first attempts.
    var isRepetition = false
    /// True if a worker ended during the first attempt, perhaps because of this input. The second attempt is made while
    /// its worker has no other call. If that worker ends too, only this input can be the cause.
    var runsAlone = false
    /// True if the call waits for the next worker when none serves. If false it fails instead, because another HSM
    /// token can process it now.
    var waitsForNextWorker = true
}

extension CallQueue {
    /// Makes a call, and repeats it once if a second attempt may succeed. This is the only place that repeats calls:
    /// ``submit(_:terms:)`` makes one attempt, and no caller of this function repeats. Repetition happens before the
    /// claim, so the ledger sees one request.
    ///
    /// - A failure that the input causes, or a deadline, is final.
    /// - Otherwise the call goes to another HSM token that can process it.
    /// - Without one, it is repeated at this HSM token only if the worker was lost: the next worker gets it.
    /// - There is no third attempt. An attempt that never reached a worker does not count.
    ///
    /// - Parameters:
    ///   - another: returns an HSM token that can process the call now, other than those that failed it; nil if there
    ///     is none.
    ///   - read: parses the answer; nil if it does not match this request.
    /// - Returns: the answer or the last failure, and the queue that gave it.
    func call<Value: Sendable>(
        _ request: WorkerRequest, terms: CallTerms = CallTerms(),
        orAt another: (_ failed: [CallQueue]) -> CallQueue? = { _ in nil },
        _ read: (WorkerAnswer) -> Value?
    ) async -> (result: Result<Value, CallFailure>, queue: CallQueue) {
        var (queue, terms) = (self, terms)
        var failed: [CallQueue] = []
        while true {
            let wasTried = failed.contains { $0 === queue }
            terms.waitsForNextWorker = wasTried || another(failed + [queue]) == nil
            let failure: CallFailure
            switch await queue.submit(request, terms: terms) {
            case .failure(let reported): failure = reported
            case .success(let answer):
                if let value = read(answer) { return (.success(value), queue) }
                failure = CallFailure(failure: .wrongAnswer, reach: .worker)
            }
            let wasAttempted = failure.reach != .queue
            guard request.operation.isRepeatable, failure.mayEndOtherwise, !(wasAttempted && terms.isRepetition) else {
                return (.failure(failure), queue)
            }
            if !wasTried { failed.append(queue) }
            if let other = another(failed) {
                queue = other
            } else if terms.waitsForNextWorker, !failure.hasLostWorker {
                return (.failure(failure), queue)
            }
            // The HSM token that could take over may have become unavailable since. The call then stays in this queue
            // for the next worker.
            terms.isRepetition = terms.isRepetition || wasAttempted
            terms.runsAlone = terms.runsAlone || failure.reach == .endedWorker
        }
    }
}

extension WorkerFailure {
    static let wrongAnswer = WorkerFailure(.protocolViolation, "The worker's answer does not match the request.")

    /// True if a worker that reports this failure must be replaced: its HSM token is gone, or its login has ended and
    /// the HSM token refuses another. In the second case the next worker finds the remembered refusal and tries
    /// nothing, and the HSM token is reported with that refusal.
    var costsWorker: Bool { kind == .hsmTokenUnavailable || kind == .loginRefused }
}

extension CallFailure {
    /// True if another HSM token or another worker may succeed.
    fileprivate var mayEndOtherwise: Bool {
        switch kind {
        case .keyNotFound, .notSupported, .hsmTokenUnavailable, .loginRefused, .protocolViolation, .overloaded: true
        case .decryptionFailed, .importRefused, .auditRefused, .inputRefused, .deadlineExceeded, .listingEnded: false
        }
    }

    /// True if the HSM token gets a new worker after this failure.
    fileprivate var hasLostWorker: Bool {
        switch reach {
        case .queue: false
        case .worker: failure.costsWorker
        case .endedWorker: true
        }
    }
}

/// Inputs with which two workers ended. Every HSM token refuses them for a while, so that one input cannot keep the HSM
/// tokens from all callers. The number is limited; the oldest is removed first.
package final class RefusedInputs: Sendable {
    package static let period = Duration.seconds(600)
    static let capacity = 64

    private let entries = Mutex<[(digest: SHA256Digest, until: ContinuousClock.Instant)]>([])

    package init() {}

    var isEmpty: Bool { entries.withLock { $0.isEmpty } }

    /// - Parameter frame: an encoded request. Its head is ignored: the same input with another identifier is the same
    ///   input.
    func insert(_ frame: [UInt8], now: ContinuousClock.Instant) {
        let digest = Self.digest(frame)
        entries.withLock { entries in
            if entries.count == Self.capacity { entries.removeFirst() }
            entries.append((digest, now + Self.period))
        }
    }

    /// Returns the number of seconds, at least 1, for which an input is still refused; nil if it is not.
    func secondsLeft(of frame: [UInt8], now: ContinuousClock.Instant) -> Int? {
        let isEmpty = entries.withLock { entries in
            entries.removeAll { $0.until <= now }
            return entries.isEmpty
        }
        guard !isEmpty else { return nil }
        let digest = Self.digest(frame)
        let end = entries.withLock { entries in entries.last { $0.digest == digest }?.until }
        return end.map { max(Int(($0 - now).inSeconds.rounded(.up)), 1) }
    }

    private static func digest(_ frame: [UInt8]) -> SHA256Digest {
        // Length prefix, type and identifier are 13 octets.
        SHA256.hash(data: frame.dropFirst(13))
    }
}
