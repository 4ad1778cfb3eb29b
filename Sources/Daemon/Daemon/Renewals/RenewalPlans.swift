import AuditChain
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PortalRequests
import Refusals

/// The plans for a merchant's renewals: the rules of ``Renewal``, applied to the keys, the recorded proofs and Apple's last
/// list. A plan changes nothing.
struct RenewalPlans: Sendable {
    let rotations: KeyRotations
    let reads: PortalReads
    /// The configured names of this node's HSM tokens, in the configuration's order.
    let hsmTokens: [String]
    /// The access rules in force.
    let access: @Sendable () -> AccessPolicy
    let clock: WallClock

    /// The plan for one use and algorithm.
    struct Plan: Sendable {
        let renewal: Renewal
        let step: RenewalStep
        let circumstances: RenewalCircumstances
    }

    /// Returns a plan for each use and algorithm of the merchant's keys.
    ///
    /// - Parameter excluded: the nodes without which the plan goes on.
    /// - Throws: `key_not_found` if the ledger has no key of that merchant that could be renewed.
    func plans(for merchant: String, excluding excluded: Set<String>) async throws(Refusal) -> [Plan] {
        let ledger = rotations.administration.ledger
        let nodes = try await refusing(ledger: await ledger.nodes()).map(\.name)
        // A host that serves no payments has the key of Apple's API, and no merchant's key.
        let servesPayments = access().permitsDecryption
        var plans: [Plan] = []
        for rotation in try await rotations.rotations(of: merchant) {
            let key = Self.newKey(of: rotation)
            let renewal = Renewal(
                merchantIdentifier: merchant, use: rotation.use, algorithm: rotation.algorithm,
                newKey: key?.publicKeyHash)
            var here = RenewalCircumstances(now: clock.now())
            here.keyState = key?.keyRecord.state
            here.requiredNodes = Set(nodes).subtracting(servesPayments ? [] : [ledger.node])
            here.excludedNodes = excluded
            if let read = PortalName(merchant).flatMap(reads.read), case .done(let list) = read.phase {
                (here.list, here.readBeganAt) = (list, read.requestedAt)
            }
            if let key {
                // The HSM tokens of a host that serves no payments do not have the certificate. Its import made the key
                // active.
                let certificate = key.entry?.certificate?.sha256
                here.hasCertificate = servesPayments ? certificate != nil : key.keyRecord.state == .active
                here.hsmTokensWithoutKey =
                    servesPayments ? hsmTokens.filter { key.entry?.hsmTokens.contains($0) != true } : []
                // A proof counts for the certificate that Apple lists, from which wallets get the key.
                let issued = renewal.listed(in: here.list).first?.sha256 ?? certificate
                here.proofs = try await proofs(of: key, issued.flatMap { AuditDigest(bytes: $0) }, since: here.now)
                // The ledger's counts are of all nodes. A person checks each node with a test payment.
                if key.isProven { here.nodesWithPayments = here.requiredNodes }
            }
            plans.append(Plan(renewal: renewal, step: renewal.next(here), circumstances: here))
        }
        return plans
    }

    /// The key that waits for its certificate or activation, or has replaced the old keys already.
    private static func newKey(of rotation: Rotation) -> Rotation.Key? {
        switch rotation.phase {
        case .none, .cutOff: nil
        case .certificate, .activation, .overlap, .finish: rotation.newKey
        }
    }

    private func proofs(
        of key: Rotation.Key, _ certificate: AuditDigest?, since now: Date
    ) async throws(Refusal) -> [RenewalCircumstances.Proof] {
        let since = now.addingTimeInterval(-Renewal.longestProofAge)
        let ledger = rotations.administration.ledger
        return try await refusing(ledger: await ledger.proofs(of: key.publicKeyHash, since: since)).map { proof in
            RenewalCircumstances.Proof(
                node: proof.node.name, hsmToken: proof.hsmToken,
                isWithCertificate: certificate != nil && proof.certificate == certificate, at: proof.at,
                succeeded: proof.succeeded)
        }
    }
}
