import Foundation
import PKCS11

// What a token's return values mean for what to do next. Only what tokens agree on: everything else is found out by a
// transaction that is known to be good.
extension CallError {
    /// Nothing is wrong but the moment: the token has no room for another session or operation.
    var isBusy: Bool {
        switch returnValue {
        case .sessionCount?, .deviceMemory?, .hostMemory?, .tokenResourceExceeded?: true
        default: false
        }
    }

    /// The object is not there any more.
    var isStaleHandle: Bool {
        switch returnValue {
        case .keyHandleInvalid?, .objectHandleInvalid?, .unwrappingKeyHandleInvalid?: true
        default: false
        }
    }

    /// The session is not there any more, or not fit for another operation.
    var isSessionLost: Bool {
        switch returnValue {
        case .sessionHandleInvalid?, .sessionClosed?, .operationActive?, .operationNotInitialized?: true
        default: false
        }
    }

    /// The token is to be looked for anew: it has another slot, or none.
    var isTokenGone: Bool {
        switch returnValue {
        case .slotIdentifierInvalid?, .tokenNotPresent?, .tokenNotRecognized?, .deviceRemoved?: true
        default: false
        }
    }

    /// Whatever was tried says nothing of the key that it was tried with.
    var isUnrelatedToKey: Bool { isBusy || isSessionLost || isTokenGone || returnValue == .userNotLoggedIn }

    /// The token refuses this PIN, whoever asks.
    var isPINRefused: Bool {
        switch returnValue {
        case .pinIncorrect?, .pinInvalid?, .pinLengthRange?: true
        default: false
        }
    }

    /// Another try with the same PIN would not do better, and could lock it.
    var isLoginRefused: Bool {
        switch returnValue {
        case .pinLocked?, .pinExpired?, .userPINNotInitialized?: true
        default: isPINRefused
        }
    }

    /// The call takes bytes that a stranger sent, past all checks made here: its failure may be theirs.
    var processesUntrustedInput: Bool { call == "C_Decrypt" || call == "C_UnwrapKey" }

    /// A stranger's bytes may be what is wrong. Tokens have many return values for a wrong padding and a wrong tag, also
    /// such as stand for their own trouble, and none is told from another here: what is done next must not depend on it.
    /// Only what says plainly that another thing is amiss is left out.
    var mayBeCausedByInput: Bool {
        processesUntrustedInput && cause != .missing && !isUnrelatedToKey && !isStaleHandle
    }
}

/// Until when a call may be tried again. Earlier than the daemon's own limit, at which it ends the worker.
struct CallDeadline: Sendable {
    private let end: ContinuousClock.Instant
    private var pause = Self.shortestPause

    private static let shortestPause = 0.004
    private static let longestPause = 0.25

    /// - Parameters:
    ///   - start: When a session began with the call: what it waited for one is no time of the token's.
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
        Thread.sleep(forTimeInterval: duration)
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
}
