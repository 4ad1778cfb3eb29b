import AuditChain
import Synchronization

/// Where this process left the chain: one end, or two when it is not known whether a commit took place.
///
/// Nobody else writes, so the chain ends there still when the next transaction begins. Where it does not, another
/// program has changed the ledger or copied an older one over it, and with the records claims may be gone.
final class LastEnd: Sendable {
    /// Empty until the first commit.
    private let ends = Mutex<[ChainHead]>([])

    func set(_ ends: [ChainHead]) {
        self.ends.withLock { $0 = ends }
    }

    /// - Returns: `head`, when the chain may end there.
    func checked(_ head: ChainHead) throws(LedgerFailure) -> ChainHead {
        guard ends.withLock({ $0.isEmpty || $0.contains(head) }) else {
            throw .unavailable(
                reason: "Its audit record does not end where this process left it: another program changed the ledger, "
                    + "or copied an older one over it, so nothing is written. Stop the daemon, and put back the ledger "
                    + "as it was; the next start compares it with the token.")
        }
        return head
    }
}
