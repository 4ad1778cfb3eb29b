import AuditChain
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import Refusals

/// Follows what other nodes did to keys and approvals, pins the keys that seal their records, and tells them which keys this node's
/// HSM tokens hold. Where one node alone
/// uses the ledger there is nothing to follow, but destroyed keys that an HSM token still holds are removed all the same.
///
/// No release waits for it: each is decided in the ledger. What it does is what people expect to see, and what only this node
/// can do: removing a key that was destroyed elsewhere from its own HSM tokens, and its own part of what was approved elsewhere.
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

    /// Returns once it is done, or the daemon stops: what is not taken up now would be asked for by nobody.
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
                // The ledger's fault is logged by those who write to it.
                try? await Task.sleep(for: .seconds(1))
            }
        }
        for approval in news.approvals { await carryOut(approval) }
    }

    /// What fails is asked for again with the next news, until the approval expires.
    private func carryOut(_ approval: ApprovalIdentifier) async {
        do throws(Refusal) {
            try await decisions.carryOutApproved(approval)
            faults.ended(Self.approvals)
        } catch {
            faults.began(Self.approvals, error.message)
        }
    }

    /// As the log names what was approved on another node, where it fails.
    private static let approvals = "approved operation"

    private func noteHeldKeys() async {
        do throws(LedgerFailure) {
            try await catalogue.noteHeldKeys()
        } catch {
            // Tried again in a second; the ledger's fault is logged by those who write to it.
        }
    }
}
