import PKCS11

/// Until when a call may be made again. Earlier than the daemon's own limit, at which it ends the worker.
struct CallDeadline: Sendable {
    private let end: ContinuousClock.Instant
    private var pause = Self.shortestPause

    private static let shortestPause = 0.004
    private static let longestPause = 0.25

    /// - Parameters:
    ///   - start: When a session began with the call: the time that the call waited for a session does not count.
    ///   - callTimeout: The daemon's limit, in milliseconds.
    init(from start: ContinuousClock.Instant = .now, callTimeout: UInt32) {
        end = start + .milliseconds(Int64(callTimeout) * 3 / 4)
    }

    var isOver: Bool { ContinuousClock.now >= end }

    /// Blocks for a while that doubles from one time to the next; some randomness keeps threads apart.
    /// - Returns: false when there is no time left; it has not waited then.
    mutating func wait() -> Bool {
        let duration = pause * .random(in: 0.5...1)
        guard ContinuousClock.now + .seconds(duration) < end else { return false }
        BlockingThread.sleep(duration)
        pause = min(pause * 2, Self.longestPause)
        return true
    }

    /// Makes a call again for as long as the token says that it is busy and there is time.
    mutating func retryingWhileBusy<Value>(_ body: () throws(CallError) -> Value) throws(CallError) -> Value {
        while true {
            do throws(CallError) {
                return try body()
            } catch {
                guard error.isBusy, wait() else { throw error }
            }
        }
    }

    /// Tests twice: after one passing error the token would lack something for as long as the worker runs. A busy token is asked
    /// again while there is time.
    mutating func failureTwice(_ test: () -> SelfTestFailure?) -> SelfTestFailure? {
        var isSecond = false
        while let failure = test() {
            if failure.call?.isBusy == true, wait() { continue }
            if isSecond { return failure }
            isSecond = true
        }
        return nil
    }
}

// What a token's return values mean for what to do next. Only what tokens agree on: for every other value a transaction
// that is known to be good shows whether the token works.
extension CallError {
    /// The token has no room for another session or operation now; later it may.
    var isBusy: Bool {
        switch returnValue {
        case .sessionCount?, .deviceMemory?, .hostMemory?, .tokenResourceExceeded?: true
        default: false
        }
    }

    /// The object does not exist any more.
    var isStaleHandle: Bool {
        switch returnValue {
        case .keyHandleInvalid?, .objectHandleInvalid?, .unwrappingKeyHandleInvalid?: true
        default: false
        }
    }

    /// The session does not exist any more, or takes no other operation.
    var isSessionLost: Bool {
        switch returnValue {
        case .sessionHandleInvalid?, .sessionClosed?, .operationActive?, .operationNotInitialized?: true
        default: false
        }
    }

    /// The token is in another slot now, or in none.
    var isTokenGone: Bool {
        switch returnValue {
        case .slotIdentifierInvalid?, .tokenNotPresent?, .tokenNotRecognized?, .deviceRemoved?: true
        default: false
        }
    }

    /// The key that the call was made with is not the reason of its failure.
    var isUnrelatedToKey: Bool { isBusy || isSessionLost || isTokenGone || returnValue == .userNotLoggedIn }

    /// The token refuses this PIN.
    var isPINRefused: Bool {
        switch returnValue {
        case .pinIncorrect?, .pinInvalid?, .pinLengthRange?: true
        default: false
        }
    }

    /// The login fails again with the same PIN, and another try could lock the PIN.
    var isLoginRefused: Bool {
        switch returnValue {
        case .pinLocked?, .pinExpired?, .userPINNotInitialized?: true
        default: isPINRefused
        }
    }

    /// The call processes bytes that the payment's sender chose and that no check here could validate.
    var processesUntrustedInput: Bool { call == "C_Decrypt" || call == "C_UnwrapKey" }

    /// Wrong input may be the cause: a wrong padding or a wrong tag. Tokens return many values for these, among them such
    /// as stand for faults of their own, so that no value is taken as proof of either. Left out are only errors whose cause
    /// is certain: a function that the library lacks, a session, login or object that is gone, a busy token.
    var mayBeCausedByInput: Bool {
        processesUntrustedInput && cause != .missing && !isUnrelatedToKey && !isStaleHandle
    }
}
