import Crypto
import Synchronization
import Telemetry
import WorkerProtocol

/// Why a call was not answered, and how far it had come: whether it is made once more, and where, depends on both.
struct CallFailure: Error, Sendable, Equatable {
    enum Reach: Sendable {
        /// The call waited in the daemon: no worker had it.
        case queue
        /// A worker had it and reported the failure; or its worker was ended because the token failed, which is no
        /// input's fault.
        case worker
        /// The worker ended while it had the call. Perhaps this input made it end.
        case endedWorker
    }

    let failure: WorkerFailure
    let reach: Reach

    var kind: WorkerFailure.Kind { failure.kind }
    var message: String { failure.message }
}

extension Result where Failure == CallFailure {
    /// The answer, or the failure without how far the call had come.
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
    /// The name that audit records have: callers are served round robin. nil for administration and the daemon's own
    /// calls, which together are one caller.
    var caller: String?
    /// Whom the caller works for; nil for itself. Counts for fairness only: the caller's turns go round these names.
    var client: String?
    /// Returns true once the caller has closed its connection. Its calls are then not made, unless a worker has them.
    var hasLeft: @Sendable () -> Bool

    package init(
        caller: String? = nil, client: String? = nil, hasLeft: @escaping @Sendable () -> Bool = { false }
    ) {
        (self.caller, self.client, self.hasLeft) = (caller, client, hasLeft)
    }
}

/// What a call is entitled to.
struct CallTerms: Sendable {
    var requester = Requester()
    /// A call without an answer fails by then, wherever it is. nil for calls whose answer is needed however long it takes.
    var deadline: ContinuousClock.Instant?
    /// This is the second attempt. It goes before all first attempts.
    var isRepetition = false
    /// A worker ended during the first attempt, perhaps because of this input: the second is made while its worker has
    /// nothing else, so that a second end has one possible cause.
    var runsAlone = false
    /// Where no worker serves, the call waits for the next one. When this is false it fails instead, because another HSM
    /// token can take it now.
    var waitsForNextWorker = true
}

extension CallQueue {
    /// Makes a call, and once more when a second attempt may end otherwise. This is the only place that repeats calls:
    /// ``submit(_:terms:)`` makes one attempt, and nothing above calls again. It lies below the claim, so the ledger sees
    /// one request.
    ///
    /// - A failure that is the input's own, or a deadline, is final.
    /// - Otherwise the call goes to another HSM token, when one can take it.
    /// - Where there is none, it is made again at this token only if the worker was lost: the next worker gets it.
    /// - There is no third attempt. An attempt that never reached a worker does not count.
    ///
    /// - Parameters:
    ///   - another: an HSM token that can take the call now, besides those that failed it; nil when there is none.
    ///   - read: what the answer says; nil when it does not answer this request.
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
            // Where the token that was to take the call over is gone by now, this token's next worker gets it.
            terms.isRepetition = terms.isRepetition || wasAttempted
            terms.runsAlone = terms.runsAlone || failure.reach == .endedWorker
        }
    }
}

extension WorkerFailure {
    static let wrongAnswer = WorkerFailure(.protocolViolation, "The worker answered something else.")

    /// A worker that says so is of no use any more: its token is gone, or its login has ended and the token refuses another.
    /// In the second case the next worker finds the refusal remembered and tries nothing, and the token is shown as what
    /// it is.
    var costsWorker: Bool { kind == .hsmTokenUnavailable || kind == .loginRefused }
}

extension CallFailure {
    /// Whether another token or another worker may do what this one did not.
    fileprivate var mayEndOtherwise: Bool {
        switch kind {
        case .keyNotFound, .notSupported, .hsmTokenUnavailable, .loginRefused, .protocolViolation, .overloaded: true
        case .decryptionFailed, .importRefused, .auditRefused, .inputRefused, .deadlineExceeded, .listingEnded: false
        }
    }

    /// Whether the token gets a new worker after this failure.
    fileprivate var hasLostWorker: Bool {
        switch reach {
        case .queue: false
        case .worker: failure.costsWorker
        case .endedWorker: true
        }
    }
}

/// Inputs that were in flight at two workers' deaths: refused for a while by every token, so that one of them cannot
/// keep the tokens from everybody else. Bounded: the oldest gives way.
package final class RefusedInputs: Sendable {
    package static let period = Duration.seconds(600)
    static let capacity = 64

    private let entries = Mutex<[(digest: SHA256Digest, until: ContinuousClock.Instant)]>([])

    package init() {}

    var isEmpty: Bool { entries.withLock { $0.isEmpty } }

    /// - Parameter frame: An encoded request. Its head is left out: the same input under another identifier is the
    ///   same input.
    func insert(_ frame: [UInt8], now: ContinuousClock.Instant) {
        let digest = Self.digest(frame)
        entries.withLock { entries in
            if entries.count == Self.capacity { entries.removeFirst() }
            entries.append((digest, now + Self.period))
        }
    }

    /// For how many seconds more an input is refused, at least 1; nil when it is not.
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
