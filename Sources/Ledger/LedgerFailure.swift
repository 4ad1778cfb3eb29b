public import MerchantKeys

/// Why the ledger did not do what it was asked.
public enum LedgerFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// It cannot be written or read now: a full disk, a read-only one, a lock, an I/O error. It may work again at
    /// the next call, without a restart. The reason is for the log; it carries no value of any row.
    case unavailable(reason: String)
    /// It did not answer within `ledger.timeout`: a disk that hangs, a file that another program keeps locked.
    ///
    /// - Parameter mayStand: whether what was asked for may have been written, or be written yet. Otherwise it was not
    ///   begun, and never will be.
    case timedOut(after: Duration, mayStand: Bool)
    /// More waits for the writer than may wait. Nothing was written.
    case overloaded
    /// The change of a key's record is not permitted.
    case conflict(KeyRecordConflict)
    /// The approval does not serve for the change.
    case approval(ApprovalConflict)
    /// The checkpoint names a record that this ledger does not hold.
    case foreignCheckpoint
    /// The audit key was never planned, has another public key already, or its identifier or its public key is none.
    case auditKeyConflict
    /// Something else was forgotten than the change of the clock was planned for.
    case timesConflict

    public var description: String {
        switch self {
        case .unavailable(let reason): "The ledger is unavailable: \(reason)"
        case .timedOut(let timeout, _):
            "The ledger has not answered within \(timeout) (ledger.timeout). Look at its disk, and at other programs that "
                + "use its file."
        case .overloaded: "More requests wait for the ledger than may wait. Repeat with the same reference."
        case .conflict(let conflict): conflict.description
        case .approval(let conflict): conflict.description
        case .foreignCheckpoint: "The checkpoint names a record that this ledger does not hold; it was not stored."
        case .auditKeyConflict: "The audit key is not the one that this ledger has planned; it was not recorded."
        case .timesConflict: "Claims were pruned between the look at the clock and its acceptance; ask again."
        }
    }
}

/// Why a key's record was not changed.
public enum KeyRecordConflict: Error, Sendable, Equatable, CustomStringConvertible {
    /// The key is recorded for another merchant; that never changes.
    case anotherMerchant
    /// The key is recorded with another algorithm, which no key can change.
    case anotherAlgorithm
    case transition(from: KeyState, to: KeyState)
    /// Somebody else changed the key's state after the change was decided and before it was made.
    case changedMeanwhile

    public var description: String {
        switch self {
        case .anotherMerchant:
            "The ledger records this key for another merchant, and a key's merchant never changes. "
                + "Use a new key for this merchant."
        case .anotherAlgorithm:
            "The ledger records this key with another algorithm."
        case .changedMeanwhile:
            "Somebody else changed the key's state meanwhile; look at it (key show) and decide anew."
        case .transition(let from, let to):
            "A key that is \(from.rawValue) cannot become \(to.rawValue)."
        }
    }
}

extension KeyRecord {
    /// What the ledger keeps when `self` is recorded over `known`.
    func replacing(_ known: KeyRecord?) throws(KeyRecordConflict) -> KeyRecord {
        guard let known else { return self }
        guard known.merchantIdentifier == merchantIdentifier else { throw .anotherMerchant }
        guard known.algorithm == algorithm else { throw .anotherAlgorithm }
        guard known.state == state || known.state.canBecome(state) else {
            throw .transition(from: known.state, to: state)
        }
        var next = known
        (next.state, next.cutOff) = (state, cutOff)
        return next
    }
}
