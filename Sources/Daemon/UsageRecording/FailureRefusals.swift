package import Ledger
package import Refusals
package import WorkerProtocol
import WorkerSupervision

// The translation of failures of the ledger and of the HSM workers into refusals. No other code translates them. A
// failure's own description names SQL, files and PKCS#11 calls, so it belongs in the log and not in an answer.

/// Makes a call to the ledger, and returns its result. If the call fails, throws the refusal with which the daemon
/// answers the request.
@discardableResult
package func refusing<Answer>(
    ledger call: @autoclosure () async throws(LedgerFailure) -> Answer
) async throws(Refusal) -> Answer {
    do {
        return try await call()
    } catch {
        throw error.refusal
    }
}

/// Makes a call to the HSM, and returns its result. If the call fails, throws the refusal with which the daemon answers
/// the request.
@discardableResult
package func refusing<Answer>(
    hsm call: @autoclosure () async throws(WorkerFailure) -> Answer
) async throws(Refusal) -> Answer {
    do {
        return try await call()
    } catch {
        throw error.refusal
    }
}

/// Makes a call to the HSM that the key-usage record needs, such as the signature of an audit checkpoint, and returns
/// its result. If the call fails, throws a refusal with the HSM's reason. Only requests of operators and auditors cause
/// such calls, so the reason need not be hidden.
@discardableResult
package func refusing<Answer>(
    record call: @autoclosure () async throws(WorkerFailure) -> Answer
) async throws(Refusal) -> Answer {
    do {
        return try await call()
    } catch {
        throw error.recordRefusal
    }
}

extension Refusal {
    /// The refusal for a state that only a defect of this program can cause. The caller learns nothing else about it.
    package static let defect = Refusal(.internalError, "The daemon has a defect; its log says more.")
}

extension LedgerFailure {
    package var refusal: Refusal {
        switch self {
        case .overloaded:
            Refusal(.overloaded, "Too many requests are waiting for the ledger; repeat with the same reference.")
        case .unavailable, .timedOut, .foreignCheckpoint, .auditKeyConflict:
            Refusal(
                .ledgerUnavailable,
                "The ledger cannot be used at present, so nothing is released; repeat with the same reference.")
        case .approval(let conflict):
            conflict.refusal
        case .timesConflict, .holdsConflict, .windowOff, .archive:
            Refusal(.invalidState, description)
        case .conflict(let conflict):
            Refusal(.invalidState, conflict.description)
        case .renewal:
            Refusal(.invalidState, description)
        }
    }
}

extension WorkerFailure {
    package var refusal: Refusal {
        switch kind {
        case .decryptionFailed:
            // All causes get the same refusal. Separate messages would tell an attacker which check its input passed.
            .decryptionFailed
        case .keyNotFound:
            Refusal(.hsmUnavailable, "The ledger has the merchant key, but the HSM token does not list it at present.")
        case .notSupported:
            Refusal(.hsmUnavailable, "The HSM cannot open payment tokens of this version; status says why.")
        case .overloaded:
            Refusal(.overloaded, "Too many decryptions are waiting for the HSM.")
        case .inputRefused:
            Self.refusedInput(for: retryAfter ?? Int(RefusedInputs.period.components.seconds))
        case .hsmTokenUnavailable, .loginRefused, .listingEnded:
            Refusal(.hsmUnavailable, "The HSM that holds the merchant keys is not available at present.")
        case .deadlineExceeded:
            Refusal(.deadlineExceeded, "The HSM did not answer in time; repeat with the same reference.")
        case .importRefused:
            Refusal(.invalidState, "The HSM refused the key operation.", details: message)
        case .auditRefused:
            Refusal(.hsmUnavailable, "The HSM refused an operation for the key-usage record.", details: message)
        case .protocolViolation:
            .defect
        }
    }

    /// The refusal for a failed HSM call that the key-usage record needs, with the HSM's reason in its details.
    package var recordRefusal: Refusal {
        let refusal = refusal
        guard kind != .protocolViolation else { return refusal }
        return Refusal(refusal.code, refusal.message, details: message, retryAfter: refusal.retryAfter)
    }

    private static func refusedInput(for seconds: Int) -> Refusal {
        Refusal(
            .hsmUnavailable,
            "The payment token was not decrypted: two HSM workers ended while they decrypted it. It is refused for "
                + "\(seconds) s; repeat the request then, with the same reference.",
            retryAfter: seconds)
    }
}

// The refusals for a caller that requested a signature. They do not mention payment tokens, since none was decrypted. They
// do not advise the caller to repeat the request with the same reference, since that works only for payment tokens.

extension WorkerFailure {
    package var signatureRefusal: Refusal {
        switch kind {
        case .keyNotFound:
            Refusal(.hsmUnavailable, "The ledger has the key, but the HSM token does not list it at present.")
        case .notSupported:
            Refusal(.hsmUnavailable, "The HSM cannot make signatures of this algorithm; GET /v1/status says why.")
        case .overloaded:
            Refusal(.overloaded, "Too many signatures are waiting for the HSM.")
        case .deadlineExceeded:
            Refusal(.deadlineExceeded, "The HSM did not sign in time; begin a new handshake.")
        case .inputRefused:
            Refusal(
                .hsmUnavailable, "Two HSM workers ended while they signed for this handshake; begin a new one.",
                retryAfter: retryAfter)
        case .importRefused:
            Refusal(.hsmUnavailable, "The HSM refused to sign.", details: message)
        case .decryptionFailed:
            .defect
        case .hsmTokenUnavailable, .loginRefused, .auditRefused, .protocolViolation, .listingEnded:
            refusal
        }
    }
}

extension LedgerFailure {
    package var signatureRefusal: Refusal {
        switch self {
        case .overloaded:
            Refusal(.overloaded, "Too many requests are waiting for the ledger; begin a new handshake.")
        case .unavailable, .timedOut, .foreignCheckpoint, .auditKeyConflict:
            Refusal(.ledgerUnavailable, "The ledger cannot be used at present, so nothing is signed.")
        case .approval, .renewal, .timesConflict, .holdsConflict, .windowOff, .archive, .conflict: refusal
        }
    }
}

extension ApprovalConflict {
    package var refusal: Refusal { Refusal(.approvalInvalid, description) }
}
