import AuditChain
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording

/// Follows the other nodes of a shared ledger. It learns of changed keys and approvals, records which keys seal the other
/// nodes' records, and publishes which keys this node's HSM tokens hold. In a ledger of one node it only removes destroyed
/// keys that an HSM token still holds.
///
/// The tasks of this type do not delay releases, since the ledger decides each release. They keep the state that people
/// see up to date, and do what only this node can do: they remove keys that were destroyed elsewhere from this node's
/// HSM tokens, and carry out operations of this node that were approved elsewhere.
struct ClusterFollower: Sendable {
    let ledger: any Ledger
    let gate: LedgerGate
    let catalogue: KeyCatalogue
    let lifecycle: KeyLifecycle
    let decisions: ApprovalDecisions
    let auditKeys: OtherNodesAuditKeys
    let faults: FaultLog

    func start() -> [Task<Void, Never>] {
        [
            Task { [self] in
                for await news in ledger.administrativeUpdates() { await follow(news) }
            },
            .repeating(every: .seconds(1)) { [self] in
                await lifecycle.completeDestructions(gate: gate, faults: faults)
                await publishHeldKeys()
                await auditKeys.check()
            },
        ]
    }

    /// Updates the index with the ledger's news, then carries out the approved operations. The ledger delivers news
    /// only once, so this function retries a failed update of the index until it succeeds or the daemon stops.
    private func follow(_ news: AdministrativeUpdates) async {
        while !Task.isCancelled {
            do throws(LedgerFailure) {
                if let keys = news.keys {
                    for key in keys { try await catalogue.keyChanged(key) }
                } else {
                    try await catalogue.refresh()
                }
                break
            } catch {
                // The ledger's writers log the ledger's faults, so this task does not log them.
                try? await Task.sleep(for: .seconds(1))
            }
        }
        for approval in news.approvals { await carryOut(approval) }
    }

    /// Carries out an approved operation. If the operation fails, it is retried with the next news until the approval
    /// expires.
    private func carryOut(_ approval: ApprovalIdentifier) async {
        do throws(Refusal) {
            try await decisions.carryOutApproved(approval)
            faults.ended(Self.approvals)
        } catch {
            faults.began(Self.approvals, error.message)
        }
    }

    /// The component name, in fault log lines, for operations that were approved on another node.
    private static let approvals = "approved operation"

    private func publishHeldKeys() async {
        do throws(LedgerFailure) {
            try await catalogue.publishHeldKeys()
        } catch {
            // The next run of this task, a second later, tries again. The ledger's writers log the ledger's faults.
        }
    }
}
