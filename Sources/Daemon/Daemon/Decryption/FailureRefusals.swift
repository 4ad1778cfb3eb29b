import Ledger
import Refusals
import WorkerProtocol
import WorkerSupervision

// What the ledger and the HSM's workers fail at, as a caller hears it. Nowhere else does such a failure become a refusal;
// the failure's own sentence names SQL, files and PKCS#11 calls and belongs in the log.

/// The ledger's answer, or the refusal that its failure is to a caller.
@discardableResult
func refusing<Answer>(
    ledger call: @autoclosure () async throws(LedgerFailure) -> Answer
) async throws(Refusal) -> Answer {
    do {
        return try await call()
    } catch {
        throw error.refusal
    }
}

/// The HSM's answer, or the refusal that its failure is to a caller.
@discardableResult
func refusing<Answer>(
    hsm call: @autoclosure () async throws(WorkerFailure) -> Answer
) async throws(Refusal) -> Answer {
    do {
        return try await call()
    } catch {
        throw error.refusal
    }
}

extension LedgerFailure {
    var refusal: Refusal {
        switch self {
        case .overloaded:
            Refusal(.overloaded, "More requests wait for the ledger than may wait; repeat with the same reference.")
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
        }
    }
}

extension WorkerFailure {
    var refusal: Refusal {
        switch kind {
        case .decryptionFailed:
            // The same refusal as for a point off the curve and a payload that is no JSON: a sentence of its own would
            // tell them apart.
            .decryptionFailed
        case .keyNotFound:
            Refusal(.hsmUnavailable, "The merchant key is recorded, but the HSM token does not show it at present.")
        case .notSupported:
            Refusal(.hsmUnavailable, "The HSM cannot open payment tokens of this version; status says why.")
        case .overloaded:
            Refusal(.overloaded, "Too many decryptions wait for the HSM.")
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

    private static func refusedInput(for seconds: Int) -> Refusal {
        Refusal(
            .hsmUnavailable,
            "This payment was not opened: twice an HSM worker ended while it decrypted this payment token. It is not "
                + "tried again for \(seconds) s; repeat the request then, with the same reference.",
            retryAfter: seconds)
    }
}

// The same failures, as a caller hears them who asked for a signature: nothing was opened, and nothing is repeated by a
// reference.

extension WorkerFailure {
    var signatureRefusal: Refusal {
        switch kind {
        case .keyNotFound:
            Refusal(.hsmUnavailable, "The identity key is recorded, but the HSM token does not show it at present.")
        case .notSupported:
            Refusal(.hsmUnavailable, "The HSM cannot make signatures of this algorithm; GET /v1/status says why.")
        case .overloaded:
            Refusal(.overloaded, "Too many signatures wait for the HSM.")
        case .deadlineExceeded:
            Refusal(.deadlineExceeded, "The HSM did not sign in time; begin a new handshake.")
        case .inputRefused:
            Refusal(
                .hsmUnavailable, "Twice an HSM worker ended while it had this handshake; begin a new one.",
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
    var signatureRefusal: Refusal {
        switch self {
        case .overloaded:
            Refusal(.overloaded, "More requests wait for the ledger than may wait; begin a new handshake.")
        case .unavailable, .timedOut, .foreignCheckpoint, .auditKeyConflict:
            Refusal(.ledgerUnavailable, "The ledger cannot be used at present, so nothing is signed.")
        case .approval, .timesConflict, .holdsConflict, .windowOff, .archive, .conflict: refusal
        }
    }
}

extension ApprovalConflict {
    var refusal: Refusal { Refusal(.approvalInvalid, description) }
}
