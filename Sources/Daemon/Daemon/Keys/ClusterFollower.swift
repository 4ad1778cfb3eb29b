import AuditChain
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import Refusals

/// Follows other nodes' changes of keys and approvals, records the keys that seal their records, and publishes which
/// keys this node's HSM tokens hold. If only one node uses the ledger there is nothing to follow, but destroyed keys
/// that an HSM token still holds are removed all the same.
///
/// Releases never wait for it: each is decided in the ledger. It keeps the state that people see up to date and does
/// what only this node can do: removing a key that was destroyed elsewhere from its own HSM tokens, and its own part of
/// what was approved elsewhere.
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
                await noteHeldKeys()
                await auditKeys.check()
            },
        ]
    }

    /// Returns when the news is processed or the daemon stops. News is delivered once, so failures are retried here.
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
                // The ledger's fault is logged by its writers.
                try? await Task.sleep(for: .seconds(1))
            }
        }
        for approval in news.approvals { await carryOut(approval) }
    }

    /// Carries out an approval. A failure is retried with the next news, until the approval expires.
    private func carryOut(_ approval: ApprovalIdentifier) async {
        do throws(Refusal) {
            try await decisions.carryOutApproved(approval)
            faults.ended(Self.approvals)
        } catch {
            faults.began(Self.approvals, error.message)
        }
    }

    /// The component name, in fault log lines, of operations that were approved on another node.
    private static let approvals = "approved operation"

    private func noteHeldKeys() async {
        do throws(LedgerFailure) {
            try await catalogue.noteHeldKeys()
        } catch {
            // Retried after a second; the ledger's fault is logged by its writers.
        }
    }
}
