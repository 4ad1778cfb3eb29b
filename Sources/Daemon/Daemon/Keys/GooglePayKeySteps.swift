import AuditChain
import DaemonConfiguration
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording

// The two statements of a person in the rotation of a Google Pay key: the public key is in Google's console, and it was
// removed there. Google's console has no API.
extension KeyRotations {
    /// A person's statement that a key's public half is in Google's console.
    struct Addition: Sendable {
        /// The required nodes without whose proofs the key becomes active.
        var excludedNodes: Set<String> = []
        let reason: AuditReason
    }

    /// Activates a Google Pay key, after every required node has proved it. From then on it opens messages, and
    /// `GET /v1/google-pay/public-key` returns it.
    ///
    /// - Throws: `invalid_state` if a node has not proved the key, or if the key does not wait for this.
    func add(
        _ name: String, _ addition: Addition, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> (key: KeyEntry, rotation: Rotation) {
        let without = addition.excludedNodes.sorted().joined(separator: ",")
        let reason = without.isEmpty ? addition.reason : AuditReason("without \(without): \(addition.reason.text)")
        draft.setEvent(.keyStateChange(KeyStateChange(from: nil, to: .active, reason: reason)))
        let (entry, known) = try await googlePayKey(name, draft: draft)
        guard known.state == .preActivation else {
            throw Refusal(
                .invalidState,
                "The key is \(known.state.rawValue); only a new key is stated to be in Google's console.",
                details: entry.publicKeyHash.hex)
        }
        try administration.requireRoom(for: known.use, of: known.merchantIdentifier, except: known.publicKeyHash)
        try await requireProved(known, without: addition.excludedNodes)
        guard !dryRun else { return (entry, try await rotation(of: known)) }
        var active = known
        active.state = .active
        try await administration.recorder.apply(
            AdministrativeChange(
                at: now, key: active, precondition: .state(.preActivation),
                records: [administration.recorder.auditRecord(of: draft, by: caller)]),
            for: draft)
        try await refusing(ledger: await administration.catalogue.keyChanged(known.publicKeyHash))
        return (index.entry(known.publicKeyHash) ?? entry, try await rotation(of: known))
    }

    /// A person's statement that a key's public half was removed in Google's console.
    struct Removal: Sendable {
        let removedAt: Date
        /// The time until which the key opens messages; nil for the default.
        let cutOff: Date?
        let force: Bool
        let reason: AuditReason
    }

    /// Deactivates an old Google Pay key, with a cut-off that leaves the time that Google asks for.
    func remove(
        _ name: String, _ removal: Removal, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> (finished: Finished, cutOff: Date?) {
        draft.setEvent(.keyStateChange(KeyStateChange(from: nil, to: .deactivated, reason: removal.reason)))
        let (_, known) = try await googlePayKey(name, draft: draft)
        guard removal.removedAt >= known.createdAt else {
            throw Refusal(
                .malformedRequest, "removedAt lies before the time at which the key came into the ledger.",
                details: "removedAt")
        }
        let cutOff: Date?
        do throws(GooglePayRotation.RemovalError) {
            cutOff = try GooglePayRotation.cutOff(removedAt: removal.removedAt, wanted: removal.cutOff, now: now)
        } catch {
            throw error.refusal
        }
        let finish = Finish(
            use: .googlePay, algorithm: known.algorithm, cutOff: cutOff,
            // Nothing stops a key at once that is in use: a wrong date would end it for ever.
            force: removal.force && cutOff != nil, reason: removal.reason, oldKey: known.publicKeyHash,
            removedAt: removal.removedAt)
        return (
            try await self.finish(known.merchantIdentifier, finish, by: caller, dryRun: dryRun, draft: draft), cutOff
        )
    }

    private func rotation(of key: KeyRecord) async throws(Refusal) -> Rotation {
        try await rotation(of: key.merchantIdentifier, key.use, key.algorithm)
    }

    private func googlePayKey(
        _ name: String, draft: AuditDraft
    ) async throws(Refusal) -> (entry: KeyEntry, keyRecord: KeyRecord) {
        let entry = try index.entry(named: name)
        draft.setSubject(entry)
        guard let known = try await administration.keyRecord(of: entry.publicKeyHash) else {
            throw Refusal(
                .invalidState, "The key was made outside paytokend and is not in the ledger; adopt it first.")
        }
        guard known.use == .googlePay else {
            throw Refusal(
                .invalidState, "This is no Google Pay key, so it is not in Google's console.",
                details: "recorded for \(known.use.name)")
        }
        return (entry, known)
    }

    // MARK: Proofs

    /// Throws unless every required node, except excluded ones, has proved the key, and at least one has.
    private func requireProved(_ key: KeyRecord, without excluded: Set<String>) async throws(Refusal) {
        let nodes = try await nodes(replacing: key, servesPayments: servesPayments())
        let required = Set(nodes.filter(\.isRequired).map(\.name))
        let others = excluded.subtracting(required).sorted()
        guard others.isEmpty else {
            throw Refusal(
                .malformedRequest,
                "No proof of these nodes is needed, so they cannot be excluded: \(others.joined(separator: ", ")).",
                details: "the nodes are \(required.sorted().joined(separator: ", "))")
        }
        guard required != excluded else {
            throw Refusal(
                .invalidState, "At least one node must have proved the key.", details: "POST /v1/keys/{key}/proofs")
        }
        let unproved = try await unprovedNodes(of: key, among: required.subtracting(excluded))
        guard unproved.isEmpty else {
            throw Refusal(
                .invalidState,
                "These nodes have not proved the key within the last 24 hours, so payments to it would fail there: "
                    + "\(unproved.joined(separator: ", ")). Prove it on each of them.",
                details: "POST /v1/keys/{key}/proofs")
        }
    }

    /// Returns the required nodes that have not proved a key before its activation, ordered by name.
    func unprovedNodes(of key: KeyRecord) async throws(Refusal) -> [String] {
        let nodes = try await nodes(replacing: key, servesPayments: servesPayments())
        return try await unprovedNodes(of: key, among: Set(nodes.filter(\.isRequired).map(\.name)))
    }

    private func unprovedNodes(of key: KeyRecord, among nodes: Set<String>) async throws(Refusal) -> [String] {
        var here = RenewalCircumstances(now: now)
        here.proofs = try await proofs(
            of: key.publicKeyHash, [], since: here.now.addingTimeInterval(-Renewal.longestProofAge))
        return nodes.sorted().filter { !here.isProved($0, withCertificate: false) }
    }

    /// Returns the recorded proofs of a key on all nodes.
    ///
    /// - Parameter certificates: SHA-256 of the certificates with which the key is to be proved.
    func proofs(
        of key: PublicKeyHash, _ certificates: Set<AuditDigest>, since: Date
    ) async throws(Refusal) -> [RenewalCircumstances.Proof] {
        try await refusing(ledger: await ledger.proofs(of: key, since: since)).map { proof in
            RenewalCircumstances.Proof(
                node: proof.node.name, hsmToken: proof.hsmToken,
                isWithCertificate: proof.certificate.map(certificates.contains) ?? false, at: proof.at,
                succeeded: proof.succeeded)
        }
    }

    private func nodes(replacing key: KeyRecord, servesPayments: Bool) async throws(Refusal) -> [RenewalPlans.Node] {
        try await nodes(of: key.merchantIdentifier, key.use, key.algorithm, servesPayments: servesPayments)
    }

    /// Returns the nodes of the ledger, and those of the setting `renewal.nodes`, that have to prove a merchant's new key.
    func nodes(
        of merchant: String, _ use: KeyUse, _ algorithm: KeyAlgorithm, servesPayments: Bool
    ) async throws(Refusal) -> [RenewalPlans.Node] {
        let known = Set(try await refusing(ledger: await ledger.nodes()).map(\.name))
        let server = try await refusing(ledger: await ledger.serverStatus())
        let status = Dictionary((server?.nodes ?? []).map { ($0.name, $0) }) { first, _ in first }
        let isUp = known.filter { status[$0]?.isLeased == true || $0 == ledger.node }
        let named = administration.renewal?.nodes ?? []
        let portal = servesPayments ? nil : ledger.node
        var serving: Set<String> = []
        if !named.isEmpty {
            let replaced = index.entries.filter {
                $0.merchantIdentifier == merchant && $0.use == use && $0.algorithm == algorithm && $0.state == .active
            }
            let holders = try await refusing(ledger: await ledger.keyHolders())
            // A merchant's first Google Pay key replaces none, and payments may come to each node.
            serving =
                use == .googlePay && replaced.isEmpty
                ? known : Set(replaced.flatMap { holders[$0.publicKeyHash] ?? [] }.map(\.node)).intersection(known)
        }
        let required = RenewalPlans.required(named: named, known: known, serving: serving, portal: portal)
        return known.union(required).sorted().map { name in
            RenewalPlans.Node(
                name: name, isRequired: required.contains(name), lastSeen: status[name]?.lastSeen,
                isUp: isUp.contains(name))
        }
    }
}

// What the phase of a rotation depends on.
extension KeyRotations {
    /// Reads what the phase of a rotation depends on, for one of its keys. The new key of a merchant with few payments may
    /// have opened payment tokens only before the last hour, so the ledger is searched further back.
    func complete(_ key: inout Rotation.Key, isNew: Bool, now: Date) async throws(Refusal) {
        let isGooglePay = key.keyRecord.use == .googlePay
        guard key.keyRecord.state == .active else {
            if isGooglePay, key.awaitsActivation { key.unprovedNodes = try await unprovedNodes(of: key.keyRecord) }
            return
        }
        guard isNew && !key.isProven || isGooglePay && !isNew else { return }
        let quiet = quiet()
        var (watchedFrom, last) = (key.keyRecord.createdAt, key.lastHour.last)
        do throws(Refusal) {
            if last == nil {
                let since = now.addingTimeInterval(-(isNew ? Self.firstUseSearchPeriod : quiet))
                last = try await refusing(
                    ledger: await useSearches.lastUse(
                        of: key.publicKeyHash, since: max(watchedFrom, since), now: now, in: ledger))
            }
            // A restored ledger may lack the payments before its acceptance.
            if isGooglePay, !isNew, let fence = try await refusing(ledger: await ledger.times()).restoreFence {
                watchedFrom = max(watchedFrom, fence)
            }
        } catch {
            guard isGooglePay else { throw error }
            // A search that is not completed in time shows no payment, so the key counts as in use.
            watchedFrom = now
        }
        key.wasUsed = key.wasUsed || last != nil
        guard isGooglePay, !isNew else { return }
        key.unusedFrom = GooglePayRotation.unused(watchedFrom: watchedFrom, lastUse: last, quiet: quiet)
    }
}

extension GooglePayRotation.RemovalError {
    fileprivate var refusal: Refusal {
        switch self {
        case .removedInFuture:
            Refusal(
                .malformedRequest, "removedAt lies in the future; remove the key in Google's console first.",
                details: "removedAt")
        case .cutOffTooEarly(let earliest):
            Refusal(
                .malformedRequest,
                "Google asks to keep a private key for eight days after its public key was removed, so the cut-off is not "
                    + "before \(earliest.formatted(.iso8601)).", details: "cutOff")
        }
    }
}
