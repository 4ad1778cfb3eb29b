import PKCS11

/// The time until which a call may be made again. It ends before the daemon's own limit, at which the daemon ends the
/// worker.
struct CallDeadline: Sendable {
    private let end: ContinuousClock.Instant
    private var pause = Self.shortestPause

    private static let shortestPause = 0.004
    private static let longestPause = 0.25

    /// - Parameters:
    ///   - start: The time when a session began the call; waiting for a session does not count.
    ///   - callTimeout: The daemon's limit, in milliseconds.
    init(from start: ContinuousClock.Instant = .now, callTimeout: UInt32) {
        end = start + .milliseconds(Int64(callTimeout) * 3 / 4)
    }

    var isOver: Bool { ContinuousClock.now >= end }

    /// Blocks for a time that doubles with each call; some randomness keeps threads apart.
    /// - Returns: false, without waiting, if no time is left.
    mutating func wait() -> Bool {
        let duration = pause * .random(in: 0.5...1)
        guard ContinuousClock.now + .seconds(duration) < end else { return false }
        BlockingThread.sleep(duration)
        pause = min(pause * 2, Self.longestPause)
        return true
    }

    /// Repeats a call while the HSM token reports that it is busy and time is left.
    mutating func retryingWhileBusy<Value>(_ body: () throws(CallError) -> Value) throws(CallError) -> Value {
        while true {
            do throws(CallError) {
                return try body()
            } catch {
                guard error.isBusy, wait() else { throw error }
            }
        }
    }

    /// Tests up to twice, since a transient error would otherwise disable a function for as long as the worker runs.
    /// While time is left, a busy HSM token is asked again.
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

// The meaning of return values, limited to what HSM tokens agree on. For every other value, a transaction that is known
// to be good shows whether the HSM token works.
extension CallError {
    /// The HSM token has no room for another session or operation at present.
    var isBusy: Bool {
        switch returnValue {
        case .sessionCount?, .deviceMemory?, .hostMemory?, .tokenResourceExceeded?: true
        default: false
        }
    }

    /// The object no longer exists.
    var isStaleHandle: Bool {
        switch returnValue {
        case .keyHandleInvalid?, .objectHandleInvalid?, .unwrappingKeyHandleInvalid?: true
        default: false
        }
    }

    /// The session no longer exists, or accepts no other operation.
    var isSessionLost: Bool {
        switch returnValue {
        case .sessionHandleInvalid?, .sessionClosed?, .operationActive?, .operationNotInitialized?: true
        default: false
        }
    }

    /// The HSM token has moved to another slot, or is gone.
    var isTokenGone: Bool {
        switch returnValue {
        case .slotIdentifierInvalid?, .tokenNotPresent?, .tokenNotRecognized?, .deviceRemoved?: true
        default: false
        }
    }

    /// The cause of the failure is not the key that the call was made with.
    var isUnrelatedToKey: Bool { isBusy || isSessionLost || isTokenGone || returnValue == .userNotLoggedIn }

    /// The HSM token refuses this PIN.
    var isPINRefused: Bool {
        switch returnValue {
        case .pinIncorrect?, .pinInvalid?, .pinLengthRange?: true
        default: false
        }
    }

    /// The login would fail again with the same PIN, and another attempt could lock the PIN.
    var isLoginRefused: Bool {
        switch returnValue {
        case .pinLocked?, .pinExpired?, .userPINNotInitialized?: true
        default: isPINRefused
        }
    }

    /// The call processes bytes that the payment's sender chose and that no check here could validate.
    var processesUntrustedInput: Bool { call == "C_Decrypt" || call == "C_UnwrapKey" }

    /// Wrong input may be the cause: a wrong padding or a wrong tag. HSM tokens return many different values for these,
    /// and some also indicate faults of the HSM token, so no value proves either cause. Only errors with a certain
    /// cause are excluded: a missing function, a lost session, login or object, a busy HSM token.
    var mayBeCausedByInput: Bool {
        processesUntrustedInput && cause != .missing && !isUnrelatedToKey && !isStaleHandle
    }
}
