import Crypto
package import KeyTypes
import Locks
package import PaymentToken
import TLSHandshake
import Telemetry
package import WorkerProtocol

/// The configured HSM tokens. A call goes to an HSM token that holds the key and serves now: the one with the fewest calls
/// under way. Therefore a slow HSM token gets fewer calls, and one that hangs gets no more.
///
/// The pool chooses the HSM token. ``CallQueue/call(_:terms:orAt:_:)`` decides whether to repeat a failed call, and asks
/// the pool for another HSM token.
package final class HSMTokenPool: Sendable {
    /// All HSM tokens in the configuration's order, ``first`` included.
    package let all: [HSMToken]
    package let first: HSMToken
    /// A counter that selects the HSM token with which ``next(among:excluding:where:)`` begins. HSM tokens with equal load
    /// are thus chosen in turn.
    private let offset = Atomic<Int>(0)

    /// - Parameter first: the configuration's first HSM token, which seals the record of a new ledger.
    package init(first: HSMToken, others: some Sequence<HSMToken>) {
        self.first = first
        all = [first] + others
    }

    // MARK: Lifecycle

    /// Starts opening all HSM tokens and returns at once.
    package func start() async {
        for hsmToken in all { await hsmToken.start() }
    }

    /// Tries to log in again at each HSM token that refused the PIN.
    package func retry() {
        for hsmToken in all { hsmToken.retry() }
    }

    /// Fails all present and later calls with `hsmTokenUnavailable`, and kills the workers. The daemon calls it when
    /// ``shutdown()`` has taken too long.
    package func giveUp() {
        for hsmToken in all { hsmToken.giveUp() }
    }

    /// Ends the workers of all HSM tokens concurrently, after the calls under way.
    package func shutdown() async {
        await withTaskGroup(of: Void.self) { group in
            for hsmToken in all { group.addTask { await hsmToken.shutdown() } }
        }
    }

    /// Destroys a key in all HSM tokens.
    /// - Returns: the names of all HSM tokens, none of which shows the key any more.
    /// - Throws: the first failure, after trying all HSM tokens. An HSM token that failed may still hold the key.
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
    ///   - requester: the caller, for the round robin among callers.
    /// - Throws: ``WorkerFailure``. Only `decryptionFailed` means that the input is at fault.
    package func decrypt(
        _ decryption: Decryption, heldBy holders: [String], for requester: Requester = Requester()
    ) async throws(WorkerFailure) -> OpenedTransaction {
        func opens(_ hsmToken: HSMToken) -> Bool { hsmToken.tier(for: decryption.scheme) != nil }
        let hsmToken = next(among: holders, where: opens) ?? hsmTokenToWaitFor(among: holders)
        let terms = CallTerms(requester: requester, deadline: .now + Self.deadline(callTimeout: hsmToken.callTimeout))
        func another(after failed: [CallQueue]) -> CallQueue? {
            next(among: holders, excluding: failed, where: opens)?.calls
        }
        let outcome = await hsmToken.calls.call(.decrypt(decryption), terms: terms, orAt: another(after:)) {
            answer -> (plaintext: [UInt8], tier: ProtectionTier)? in
            if case .plaintext(let plaintext, let tier, _) = answer { (plaintext, tier) } else { nil }
        }
        let opened = try outcome.result.answer()
        let name = all.first { $0.calls === outcome.queue }?.name ?? hsmToken.name
        return OpenedTransaction(plaintext: opened.plaintext, tier: opened.tier, hsmToken: name)
    }

    /// Returns the maximum time from a request to its answer. It is enough for the call, and for its repetition at another
    /// HSM token or at the next worker, which takes some seconds to start.
    static func deadline(callTimeout: Duration) -> Duration {
        callTimeout + longestWait(callTimeout: callTimeout)
    }

    /// Returns the maximum time for which a call may stay queued while the worker answers other calls. The rest of
    /// ``deadline(callTimeout:)``, `call_timeout`, is for the call itself.
    static func longestWait(callTimeout: Duration) -> Duration {
        max(callTimeout, .seconds(10))
    }

    // MARK: Signatures

    /// Returns the suitable HSM token with the fewest calls under way; nil if there is none.
    func next(
        among holders: [String], excluding failed: [CallQueue] = [], where serves: (HSMToken) -> Bool
    ) -> HSMToken? {
        guard all.count > 1 else {
            return failed.isEmpty ? first : nil
        }
        // A search for the second attempt does not advance the offset. Otherwise, with two HSM tokens, every request would
        // begin at the same one.
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

    /// Returns the HSM token at whose queue a call waits when no holder serves: one whose worker is starting, else one that
    /// fails the call with its fault.
    func hsmTokenToWaitFor(among holders: [String]) -> HSMToken {
        let known = all.filter { holders.contains($0.name) }
        return known.first { $0.condition == .starting } ?? known.first ?? first
    }
}

/// The decrypted payment data of one transaction.
package struct OpenedTransaction: Sendable {
    /// The decrypted payment data: Apple's JSON object.
    package let plaintext: [UInt8]
    /// The tier at which the data was decrypted.
    package let tier: ProtectionTier
    /// The configured name of the HSM token that decrypted.
    package let hsmToken: String

    package init(plaintext: [UInt8], tier: ProtectionTier, hsmToken: String) {
        (self.plaintext, self.tier, self.hsmToken) = (plaintext, tier, hsmToken)
    }
}

extension HSMToken {
    /// Returns the tier in which this HSM token decrypts payment tokens of this version now; nil if it cannot.
    package func tier(for scheme: RestorationScheme) -> ProtectionTier? { condition.tier(for: scheme) }

    /// The algorithms with which the HSM token signs TLS handshakes now; empty while it is not ready.
    var tlsAlgorithms: [TLSSignatureAlgorithm] { openDescription?.tlsSignatures.algorithms ?? [] }

    /// The HSM token's description of itself; nil while no worker has it open.
    package var openDescription: HSMTokenDescription? { condition.openDescription }
}

extension HSMTokenCondition {
    /// The description that the worker gave when it opened the HSM token; nil in every other condition.
    package var openDescription: HSMTokenDescription? {
        if case .ready(let description) = self { description } else { nil }
    }

    /// Returns the tier in which an HSM token in this condition decrypts payment tokens of this version; nil if it cannot.
    package func tier(for scheme: RestorationScheme) -> ProtectionTier? {
        switch scheme {
        case .ecV1: openDescription?.tierECv1
        case .rsaV1: openDescription?.tierRSAv1
        case .ecV2: openDescription?.tierECv2
        }
    }
}

/// The reason why a call failed, and the stage that it had reached. Both determine whether and where the call is repeated.
struct CallFailure: Error, Sendable, Equatable {
    enum Stage: Sendable {
        /// The call waited in the daemon: no worker received it.
        case queue
        /// A worker received the call and reported the failure, or ended because its HSM token failed. The input did not
        /// cause the end.
        case worker
        /// The worker ended while it had the call, so this input may have caused the end.
        case endedWorker
    }

    let failure: WorkerFailure
    let stage: Stage

    var kind: WorkerFailure.Kind { failure.kind }
    var message: String { failure.message }
}

extension Result where Failure == CallFailure {
    /// Returns the answer, or throws the failure without its stage.
    func answer() throws(WorkerFailure) -> Success {
        do {
            return try get()
        } catch {
            throw error.failure
        }
    }
}

/// The caller on whose behalf the daemon calls an HSM token.
package struct Requester: Sendable {
    /// The caller's name in audit records, for the round robin among callers. Nil for administration and the daemon's own
    /// calls, which together count as one caller.
    var caller: String?
    /// The client that the caller acts for; nil if it acts for itself. The name serves fairness only: the caller's turns
    /// rotate among its clients.
    var client: String?
    /// Returns true once the caller has closed its connection. The queue then drops the caller's calls that no worker has
    /// yet.
    var hasLeft: @Sendable () -> Bool

    package init(
        caller: String? = nil, client: String? = nil, hasLeft: @escaping @Sendable () -> Bool = { false }
    ) {
        (self.caller, self.client, self.hasLeft) = (caller, client, hasLeft)
    }
}

/// The requester of a call, the call's deadline, and the rules by which the call waits and is repeated.
struct CallTerms: Sendable {
    var requester = Requester()
    /// The time at which an unanswered call fails, whether it is queued or with a worker. Nil for a call whose answer is
    /// needed however long it takes.
    var deadline: ContinuousClock.Instant?
    /// True for the second attempt, which is served before all first attempts.
    var isRepetition = false
    /// True if a worker ended during the first attempt, perhaps because of this input. The second attempt is then the
    /// worker's only call. If that worker ends too, only this input can be the cause.
    var runsAlone = false
    /// True if the call waits for the next worker while none serves. If false, the call fails instead, since another HSM
    /// token can process it now.
    var waitsForNextWorker = true
}

extension CallQueue {
    /// Makes a call, and repeats it once if a second attempt may succeed. This is the only place that repeats calls:
    /// ``submit(_:terms:)`` makes one attempt, and no caller of this function repeats. A repetition happens before the
    /// release is claimed, so the ledger sees one request.
    ///
    /// - A deadline, and a failure that the input causes, are final.
    /// - After any other failure the call goes to another HSM token that can process it.
    /// - Without another HSM token, the call waits for this one's next worker if the failure cost the worker; else it
    ///   fails.
    /// - There is no third attempt. An attempt that no worker received does not count.
    ///
    /// - Parameters:
    ///   - another: returns the queue of an HSM token that can process the call now, except those that failed it; nil if
    ///     there is none.
    ///   - read: parses the answer; returns nil if the answer does not match this request.
    /// - Returns: the answer or the last failure, and the queue that it came from.
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
                failure = CallFailure(failure: .wrongAnswer, stage: .worker)
            }
            let wasAttempted = failure.stage != .queue
            guard request.operation.isRepeatable, failure.isWorthRepeating, !(wasAttempted && terms.isRepetition) else {
                return (.failure(failure), queue)
            }
            if !wasTried { failed.append(queue) }
            if let other = another(failed) {
                queue = other
            } else if terms.waitsForNextWorker, !failure.hasLostWorker {
                return (.failure(failure), queue)
            }
            // The other HSM token may have become unavailable since. In that case the call stays in this queue, and waits
            // for the next worker.
            terms.isRepetition = terms.isRepetition || wasAttempted
            terms.runsAlone = terms.runsAlone || failure.stage == .endedWorker
        }
    }
}

extension WorkerFailure {
    static let wrongAnswer = WorkerFailure(.protocolViolation, "The worker's answer does not match the request.")

    /// True if the worker that reports this failure must be replaced: the HSM token is gone, or the login has ended and the
    /// HSM token refuses another. A refused login is remembered, so the next worker does not try the PIN, and the HSM token
    /// is reported as unavailable for that reason.
    var requiresNewWorker: Bool { kind == .hsmTokenUnavailable || kind == .loginRefused }
}

extension CallFailure {
    /// True if the call may succeed at another HSM token or worker.
    fileprivate var isWorthRepeating: Bool {
        switch kind {
        case .keyNotFound, .notSupported, .hsmTokenUnavailable, .loginRefused, .protocolViolation, .overloaded: true
        case .decryptionFailed, .importRefused, .auditRefused, .inputRefused, .deadlineExceeded, .listingEnded: false
        }
    }

    /// True if a new worker replaces the one that this failure comes from.
    fileprivate var hasLostWorker: Bool {
        switch stage {
        case .queue: false
        case .worker: failure.requiresNewWorker
        case .endedWorker: true
        }
    }
}

/// The inputs with which two workers ended. All HSM tokens refuse them for ten minutes. Otherwise one input, sent again and
/// again, could keep the HSM tokens from all callers. At most 64 inputs are kept; a further one replaces the oldest.
package final class RefusedInputs: Sendable {
    package static let period = Duration.seconds(600)
    static let capacity = 64

    private let entries = Mutex<[(digest: SHA256Digest, until: ContinuousClock.Instant)]>([])

    package init() {}

    var isEmpty: Bool { entries.withLock { $0.isEmpty } }

    /// - Parameter frame: an encoded request. The request's identifier is ignored, so that a repetition counts as the same
    ///   input.
    func insert(_ frame: [UInt8], now: ContinuousClock.Instant) {
        let digest = Self.digest(frame)
        entries.withLock { entries in
            if entries.count == Self.capacity { entries.removeFirst() }
            entries.append((digest, now + Self.period))
        }
    }

    /// Returns the number of seconds, at least 1, for which an input is still refused; nil if it is not refused.
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
        // The frame's head has 13 octets: length, type and identifier.
        SHA256.hash(data: frame.dropFirst(13))
    }
}
