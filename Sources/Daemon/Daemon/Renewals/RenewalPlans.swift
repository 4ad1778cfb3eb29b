import AuditChain
import DaemonAPI
import DaemonConfiguration
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import PortalRequests
import Refusals
import UsageRecording

/// The next steps of merchants' renewals, by the rules of `Renewal` from the ledger, its recorded proofs and Apple's last
/// list. A plan changes nothing.
struct RenewalPlans: Sendable {
    let rotations: KeyRotations
    let reads: PortalReads
    /// The configured names of this node's HSM tokens, in the configuration's order.
    let hsmTokens: [String]
    /// The access rules in force.
    let access: @Sendable () -> AccessPolicy
    let clock: WallClock

    /// A node of the ledger, or of the setting `renewal.nodes`.
    struct Node: Sendable {
        let name: String
        /// True if the node must have proved the key before a change at Apple.
        let isRequired: Bool
        /// The time of its daemon's last commit; nil if unknown, as for a ledger in a file.
        var lastSeen: Date?
        /// True if its daemon has the node's lease. A person cannot exclude it then.
        var isUp = false
    }

    /// The plan for one use and algorithm.
    struct Plan: Sendable {
        /// The renewal in the ledger; nil if none was begun.
        var stored: StoredRenewal?
        let renewal: Renewal
        let step: RenewalStep
        let circumstances: RenewalCircumstances
        /// The reason why the last read of Apple's list failed; nil if it did not fail.
        var readFault: String?
        /// The nodes, ordered by name.
        var nodes: [Node] = []
        /// The nodes that the person wants to exclude although they are up, ordered by name.
        var includedNodes: [String] = []

        /// The change at Apple that is next; nil if the next step is no change there, or no renewal was begun, or the ledger
        /// lacks the certificate.
        var nextChange: RenewalChange? {
            guard let stored else { return nil }
            let excluded = stored.renewal.excludedNodes(circumstances).sorted()
            func change(_ change: Renewal.Change, _ number: Int, of id: String? = nil, usedAtOnce: Bool = false)
                -> RenewalChange
            {
                RenewalChange(
                    renewal: stored.identifier.hex, change: change.rawValue, number: number, certificateId: id,
                    usedAtOnce: usedAtOnce, excludedNodes: excluded.isEmpty ? nil : excluded)
            }
            switch step {
            case .create(let number, _, let isUsedAtOnce): return change(.create, number, usedAtOnce: isUsedAtOnce)
            case .activate(let id, let number) where id == stored.renewal.certificateId:
                return change(.activate, number, of: id)
            case .revoke(let id, let number): return change(.revoke, number, of: id)
            default: return nil
            }
        }
    }

    /// The statements of a person in a request.
    struct Statements: Sendable {
        /// The nodes without which the plan goes on.
        var excludedNodes: Set<String> = []
        var isTestPaymentMade = false
        var isRevocationWanted = false
        /// The attempt to be repeated; nil if there is none.
        var repeated: (change: Renewal.Change, number: Int)?
    }

    private var ledger: any Ledger { rotations.administration.ledger }

    /// Returns a plan for each use and algorithm of the merchant's keys. A stored renewal is shown until another key waits.
    ///
    /// - Throws: `key_not_found` if the ledger has no key of that merchant that could be renewed.
    func plans(for merchant: String, _ statements: Statements) async throws(Refusal) -> [Plan] {
        let stored = try await refusing(ledger: await ledger.renewals(of: merchant))
        var plans: [Plan] = []
        for rotation in try await rotations.rotations(of: merchant) where rotation.use.hasCertificate {
            if let last = shown(of: rotation, among: stored) {
                plans.append(try await plan(for: last, among: stored, statements))
            } else {
                let renewal = Renewal(
                    merchantIdentifier: merchant, use: rotation.use, algorithm: rotation.algorithm,
                    newKey: Self.newKey(of: rotation)?.publicKeyHash)
                plans.append(try await plan(for: renewal, nil, among: stored, statements))
            }
        }
        return plans
    }

    /// The time after the end of a renewal for which it is shown, and none is started without a newer key.
    private static let shownTime: TimeInterval = 86_400

    /// Returns the renewal of a rotation's use and algorithm to go on with: the open one, or one that was finished within
    /// ``shownTime`` if no key waits that was made after its end. A key that is left over from before starts no renewal.
    func shown(of rotation: Rotation, among stored: [StoredRenewal]) -> StoredRenewal? {
        let same = stored.filter { $0.renewal.use == rotation.use && $0.renewal.algorithm == rotation.algorithm }
        if let open = same.first(where: { $0.renewal.state == .open }) { return open }
        guard let last = same.first(where: { $0.renewal.state == .finished }), let end = last.endedAt,
            clock.now().timeIntervalSince(end) < Self.shownTime
        else { return nil }
        let isNewer = Self.newKey(of: rotation).map { key in
            key.publicKeyHash != last.renewal.newKey && key.keyRecord.createdAt > end
        }
        return isNewer == true ? nil : last
    }

    /// - Parameter all: the merchant's renewals in the ledger.
    func plan(
        for stored: StoredRenewal, among all: [StoredRenewal], _ statements: Statements
    ) async throws(Refusal) -> Plan {
        try await plan(for: stored.renewal, stored, among: all, statements)
    }

    /// The key that waits for its certificate or activation, or has replaced the old keys already.
    static func newKey(of rotation: Rotation) -> Rotation.Key? {
        switch rotation.phase {
        case .none, .cutOff: nil
        case .certificate, .proof, .console, .activation, .overlap, .finish: rotation.newKey
        }
    }

    private func plan(
        for renewal: Renewal, _ stored: StoredRenewal?, among all: [StoredRenewal], _ statements: Statements
    ) async throws(Refusal) -> Plan {
        // A host that serves no payments has the key of Apple's API, and no merchant's key.
        let servesPayments = access().permitsDecryption
        let nodes = try await rotations.nodes(
            of: renewal.merchantIdentifier, renewal.use, renewal.algorithm, servesPayments: servesPayments)
        var here = RenewalCircumstances(now: clock.now())
        here.isBegun = stored != nil
        here.requiredNodes = Set(nodes.filter(\.isRequired).map(\.name))
        let others = statements.excludedNodes.subtracting(here.requiredNodes).sorted()
        // A plan that a person follows is shown without them.
        guard others.isEmpty || stored == nil else {
            throw Refusal(
                .malformedRequest,
                "No proof of these nodes is needed, so they cannot be excluded: \(others.joined(separator: ", ")).",
                details: "the nodes are \(here.requiredNodes.sorted().joined(separator: ", "))")
        }
        here.upNodes = Set(nodes.filter(\.isUp).map(\.name))
        here.excludedNodes = statements.excludedNodes
        here.isTestPaymentMade = statements.isTestPaymentMade
        here.isRevocationWanted = statements.isRevocationWanted
        here.repeatedAttempt = statements.repeated
        here.hasRequest = stored.map { $0.request != nil } ?? true
        here.activatedAt = stored?.activatedAt
        here.hasEarlierCreation = all.contains { (other: StoredRenewal) -> Bool in
            guard other.identifier != stored?.identifier, other.renewal.newKey == renewal.newKey else { return false }
            return other.renewal.hasPossibleCreation
        }
        var fault: String?
        if let read = PortalName(renewal.merchantIdentifier).flatMap(reads.read) {
            switch read.phase {
            case .done(let list):
                // A clock that was set back must not make an old list look fresh.
                (here.list, here.readBeganAt) = (list, min(read.requestedAt, here.now - reads.age(of: read)))
            case .failed(let reason): fault = reason
            case .findingMerchant, .listingCertificates: break
            }
        }
        if let key = renewal.newKey {
            try await describe(key, of: renewal, stored, servesPayments, &here)
        }
        return Plan(
            stored: stored, renewal: renewal, step: renewal.next(here), circumstances: here, readFault: fault,
            nodes: nodes,
            includedNodes: stored == nil ? [] : statements.excludedNodes.intersection(here.upNodes).sorted())
    }

    /// Returns the required nodes.
    ///
    /// Without the setting every node of the ledger is required. With it, those that it names are, and those that have an
    /// active key which the renewal replaces: the setting may be older than the host. This node is required only if it serves
    /// payments or is named. People name a host that was removed in each approval.
    ///
    /// - Parameters:
    ///   - named: the nodes of the setting; empty without it.
    ///   - portal: this node's name if it serves no payments; otherwise nil.
    ///   - serving: the nodes that have a key to be replaced, or had one when they were last up.
    static func required(
        named: Set<String>, known: Set<String>, serving: Set<String>, portal: String?
    ) -> Set<String> {
        let own = portal.map { [$0] } ?? []
        return named.isEmpty ? known.subtracting(own) : named.union(serving.subtracting(own))
    }

    /// States what depends on the new key.
    private func describe(
        _ key: PublicKeyHash, of renewal: Renewal, _ stored: StoredRenewal?, _ servesPayments: Bool,
        _ here: inout RenewalCircumstances
    ) async throws(Refusal) {
        let entry = rotations.administration.catalogue.index.entry(key)
        let keyRecord = try await rotations.administration.keyRecord(of: key)
        here.keyState = keyRecord?.state
        // A restored ledger may have lost the attempts for a key that is older than the fence.
        if stored != nil, let keyRecord, let fence = try await refusing(ledger: await ledger.times()).restoreFence,
            keyRecord.createdAt < fence
        {
            here.restoreFence = fence
        }
        // A proof counts for the certificates that Apple lists, from which wallets get the key.
        let listed = renewal.listed(in: here.list).compactMap(\.sha256)
        let known =
            (stored?.certificate.map { AuditDigest.of($0).bytes } ?? entry?.certificate?.sha256).map { [$0] } ?? []
        let certificates = Set((listed.isEmpty ? known : listed).compactMap { AuditDigest(bytes: $0) })
        let since = stored.firstProof(at: here.now, longestAge: Renewal.longestProofAge)
        here.proofs = try await rotations.proofs(of: key, certificates, since: since)
        if servesPayments {
            here.hsmTokensWithoutKey = rotations.administration.catalogue.index.hsmTokens(
                hsmTokens, without: key, of: renewal.merchantIdentifier, renewal.use, renewal.algorithm)
        }
        // The HSM tokens of a host that serves no payments do not have the certificate. Its import made the key active,
        // unless that had to come before the request; then a proof with the certificate shows that it is imported.
        here.hasCertificate =
            servesPayments
            ? entry?.certificate != nil
            : keyRecord?.state == .active
                && (stored == nil || here.proofs.contains { $0.isWithCertificate && $0.succeeded })
        // The search is long for a node without payments, so it waits until wallets use the certificate.
        if let keyRecord, keyRecord.state == .active, renewal.isActivated(here) {
            let since = max(
                here.activatedAt ?? stored?.startedAt ?? keyRecord.createdAt,
                here.now.addingTimeInterval(-KeyRotations.firstUseSearchPeriod))
            // Of a node without payments, all newer claims are read. A search that takes too long has found no payment.
            for node in here.requiredNodes.subtracting(renewal.excludedNodes(here)).sorted() {
                let found = try? await ledger.nodes([node], releasedWith: key, since: since)
                here.nodesWithPayments.formUnion(found ?? [])
            }
        }
    }
}

extension StoredRenewal? {
    /// Returns the time from which proofs of the key count. From the start of the renewal on, a proof also fails for the HSM
    /// tokens that lack the key.
    func firstProof(at now: Date, longestAge: TimeInterval) -> Date {
        let oldest = now.addingTimeInterval(-longestAge)
        guard let self, self.startedAt <= now.addingTimeInterval(Renewal.largestClockDifference) else { return oldest }
        return max(oldest, self.startedAt)
    }
}
