import Crypto
import Synchronization
import Telemetry
import WorkerProtocol

/// The reason why a call was not answered, and how far it came. Both determine whether and where it is repeated.
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
    /// Returns the answer; throws the failure without how far the call came.
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
    /// its worker has no other call, so that a second end has one possible cause.
    var runsAlone = false
    /// True if the call waits for the next worker when none serves. If false it fails instead, because another HSM
    /// token can process it now.
    var waitsForNextWorker = true
}

extension CallQueue {
    /// Makes a call, and repeats it once if a second attempt may succeed. This is the only place that repeats calls:
    /// ``submit(_:terms:)`` makes one attempt, and no caller of this function repeats. It happens before the claim, so
    /// the ledger sees one request.
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
            // If the HSM token that could take over is unavailable by now, this HSM token's next worker gets the call.
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
