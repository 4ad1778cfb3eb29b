package import AuditChain
import Foundation
package import Ledger
import Logging
package import Refusals

/// The findings that an acceptance would cover: those of this node and of all others.
package struct DetectedRestore: Sendable, Equatable {
    package let node: String
    package let disagreement: LedgerDisagreement?
    /// The findings of all nodes in the ledger; empty if only one node uses it.
    package let holds: [LedgerHold]

    /// True if neither this node nor another has a finding. An acceptance then only sets the fence.
    package var isEmpty: Bool { disagreement == nil && holds.isEmpty }

    /// The sequence of the last record that is remembered outside the ledger; nil if no record is remembered.
    package var rememberedSequence: Int? {
        disagreement?.hsmTokenSequence ?? holds.compactMap { $0.finding.remembered?.sequence }.first
    }

    /// The newest time of a remembered record that the ledger lacks; nil if unknown. The lost ledger released payments at
    /// least until then.
    fileprivate var rememberedTime: Date? {
        ([disagreement?.remembered] + holds.map(\.finding.remembered)).compactMap { $0?.time?.date }.max()
    }
}

/// An acceptance whose commit was not acknowledged, or after whose commit the ledger could not be served. It is sought in the
/// record until it is found, another one succeeds, or the daemon ends.
struct UncertainAcceptance: Sendable {
    /// The audit key that seals the accepted ledger.
    let signing: AuditSigningKey
    /// The last sequence of this node's record before the acceptance.
    let sequence: Int
}

// The acceptance of an older ledger.
extension LedgerGate {
    /// Returns the findings that an acceptance would cover.
    /// - Throws: ledger_unavailable until this node has compared ledger and HSM token. Before that, an acceptance could
    ///   not cover this node's finding.
    package func detectedRestore() async throws(Refusal) -> DetectedRestore {
        if position == .waiting { try admit() }
        let status = try await refusing(ledger: await ledger.releaseStatus())
        var disagreement: LedgerDisagreement?
        if case .held(let found) = position {
            disagreement = found
        } else if let own = status.holds.first(where: { $0.node == ledger.node }) {
            disagreement = .changedUnderneath(own.finding)
        }
        return DetectedRestore(node: ledger.node, disagreement: disagreement, holds: status.holds)
    }

    /// Throws if a signing-time window is off on any node.
    /// - Throws: invalid_state. Without a window, the signing times of lost claims have no limit, so no fence is safe.
    package func requireBoundedWindows() async throws(Refusal) {
        try await publishSigningTimeWindow()
        let unbounded = try await refusing(ledger: await ledger.releaseStatus()).unboundedNodes
        guard unbounded.isEmpty else { throw LedgerFailure.windowOff(nodes: unbounded).refusal }
    }

    /// Checks that ``acceptRestore(_:reason:by:approval:decision:)`` would succeed.
    ///
    /// - Returns: the audit key that would seal from then on, or nil if that key does not change; and the ledger's last
    ///   sequence.
    package func examineRestore(
        _ matter: DetectedRestore
    ) async throws(Refusal) -> (signing: AuditSigningKey?, ledgerSequence: Int) {
        try await requireBoundedWindows()
        return (
            try await signingKey(after: matter.disagreement), try await refusing(ledger: await ledger.head()).sequence
        )
    }

    /// Takes the ledger into service as it is, and sets the fence. From the next seal on, the HSM token remembers the
    /// end of this ledger's record.
    ///
    /// - Parameters:
    ///   - matter: the findings about which the person decided.
    ///   - decision: the second person's decision, committed in one transaction with the acceptance.
    /// - Returns: the ledger's last sequence, and the sequence that was remembered.
    package func acceptRestore(
        _ matter: DetectedRestore, reason: AuditReason, by caller: AuditCaller?, approval: ApprovalIdentifier? = nil,
        decision: AdministrativeChange? = nil
    ) async throws(Refusal) -> (ledgerSequence: Int, hsmTokenSequence: Int?) {
        let (signing, sequence) = try await examineRestore(matter)
        var change = decision ?? AdministrativeChange(at: clock.now(), records: [])
        try await addAcceptance(of: matter, reason: reason, by: caller, approval: approval, to: &change)
        try await accept(change, sealingWith: signing, after: sequence)
        logger.warning(
            "a restored ledger was taken into service",
            metadata: ["ledger.sequence": "\(sequence)", "token.sequence": "\(matter.rememberedSequence ?? 0)"])
        return (sequence, matter.rememberedSequence)
    }

    /// Adds the acceptance of the ledger as it is to `change`: the acceptance's audit record, and the fence that it
    /// sets.
    package func addAcceptance(
        of matter: DetectedRestore, reason: AuditReason, by caller: AuditCaller?, approval: ApprovalIdentifier?,
        to change: inout AdministrativeChange
    ) async throws(Refusal) {
        let sequence = try await refusing(ledger: await ledger.head()).sequence
        // The fence must be later than the newest known release too. The clock may be late, and an old copy may lack the
        // claims of its last minutes.
        let newest = [try await refusing(ledger: await ledger.newestRelease()), matter.rememberedTime].compactMap(
            \.self
        )
        .max()
        change.records.append(
            AuditRecord(
                time: AuditTime(clock.now()),
                event: .ledgerAcceptRestore(
                    LedgerRestore(
                        ledgerSequence: sequence, hsmTokenSequence: matter.rememberedSequence, reason: reason,
                        approval: approval)),
                caller: caller))
        change.restore = .accept(matter.holds, newestRelease: newest, approval: approval)
    }

    /// Returns the findings that are accepted when a new audit key replaces a lost one: the findings in the ledger.
    /// This node cannot add a comparison, since the HSM token with the lost key is gone.
    package func restoreAfterLoss() async throws(Refusal) -> DetectedRestore {
        let status = try await refusing(ledger: await ledger.releaseStatus())
        return DetectedRestore(node: ledger.node, disagreement: nil, holds: status.holds)
    }

    /// Takes the ledger into service after a new audit key has replaced a lost one. The transaction that stored the new
    /// key also accepted the ledger as it is.
    package func openAfterLoss() async throws(Refusal) {
        _ = try await refusing(ledger: await ledger.confirm(remembered: nil))
        takeFirst(.open)
        logger.warning("the ledger was taken into service without the HSM token that sealed it, which is lost")
    }

    /// Takes the ledger into service on this node, after another node accepted a restore that covered this node's finding.
    func endOwnHold(_ accepted: LedgerHold, after disagreement: LedgerDisagreement) async throws(Refusal) {
        guard let signing = try await signingKey(after: disagreement) else { return }
        let sequence = try await refusing(ledger: await ledger.head()).sequence
        var change = AdministrativeChange(
            at: clock.now(),
            records: [
                AuditRecord(
                    time: AuditTime(clock.now()),
                    event: .ledgerAcceptRestore(
                        LedgerRestore(
                            ledgerSequence: sequence, hsmTokenSequence: disagreement.hsmTokenSequence,
                            reason: AuditReason("accepted on node \(accepted.acceptedOn ?? "-")"))))
            ])
        change.restore = .endOwnHold
        try await accept(change, sealingWith: signing, after: sequence)
        logger.warning(
            "a restored ledger was taken into service, because another node accepted it",
            metadata: ["accepted.on": "\(accepted.acceptedOn ?? "-")", "ledger.sequence": "\(sequence)"])
    }

    /// Commits an acceptance, and takes the ledger into service.
    ///
    /// - Parameter signing: the audit key that seals from then on; nil if this node has no finding.
    private func accept(
        _ change: AdministrativeChange, sealingWith signing: AuditSigningKey?, after sequence: Int
    ) async throws(Refusal) {
        do throws(Refusal) {
            try await refusing(ledger: await ledger.apply(change))
            if let signing { try await serve(signing) }
        } catch {
            if let signing {
                uncertainAcceptance.withLock { $0 = UncertainAcceptance(signing: signing, sequence: sequence) }
            }
            throw error
        }
    }

    /// Takes the ledger into service if the record has an acceptance whose outcome was uncertain.
    private func finishAcceptance() async throws(Refusal) {
        guard case .held = position, let uncertain = uncertainAcceptance.withLock(\.self) else { return }
        let lines = try await refusing(ledger: await ledger.lines(uncertain.sequence + 1...Int.max, limit: 500))
        guard lines.contains(where: { AuditEvent.Name.ledgerAcceptRestore.isEvent(ofRecord: $0.bytes) }) else { return }
        let holds = try await refusing(ledger: await ledger.releaseStatus()).holds
        guard !holds.contains(where: { $0.node == ledger.node }) else { return }
        try await serve(uncertain.signing)
        logger.warning(
            "a restored ledger was taken into service, because the record has the acceptance that had seemed to fail",
            metadata: ["ledger.sequence": "\(uncertain.sequence)"])
    }

    /// Returns the audit key that seals the accepted ledger; nil if this node has no finding.
    private func signingKey(after disagreement: LedgerDisagreement?) async throws(Refusal) -> AuditSigningKey? {
        guard let disagreement else { return nil }
        let evidence = try await LedgerEvidence(ledger: ledger, hsmToken: hsmToken)
        let signing: AuditSigningKey
        switch disagreement {
        case .anotherHSMToken:
            throw Refusal(
                .invalidState,
                "The HSM token does not hold the key that sealed this ledger's record; accepting cannot help.",
                details: "put that HSM token back, or use the ledger that belongs to this one; if it is lost for good: "
                    + "POST /v1/audit/key with lost")
        case .lost(_, let seen):
            guard let key = evidence.keyOfLostLedger else {
                throw Refusal(
                    .invalidState, "The HSM token holds no audit key, or several, none of which signed its head.")
            }
            guard key.checkpointKey.keyId == seen else {
                throw Refusal(
                    .invalidState, "The HSM token shows another audit key than the one that would be taken over.",
                    details: "restart paytokend, and find out who has the HSM token's PIN")
            }
            signing = key
        case .rolledBack, .forked:
            guard let key = evidence.signingKey else { throw .defect }
            signing = key
        case .changedUnderneath:
            guard let key = evidence.signingKey ?? evidence.keyOfLostLedger else {
                throw Refusal(
                    .invalidState, "The HSM token does not show this node's audit key; restart paytokend.")
            }
            signing = key
        }
        guard try await signing.isProven(by: hsmToken) else {
            throw Refusal(
                .invalidState,
                "The HSM's audit key made a signature that its public key does not verify; the key is not used.")
        }
        return signing
    }

    /// Puts the audit key into service after the acceptance was recorded. The HSM token remembers this chain only from the
    /// next seal on. If the daemon starts again before that seal, the acceptance must be repeated.
    private func serve(_ signing: AuditSigningKey) async throws(Refusal) {
        let known = try await refusing(ledger: await ledger.auditKeys())
        if !known.contains(where: { $0.identifier == signing.identifier && $0.publicKey == signing.publicKey }) {
            try await refusing(ledger: await ledger.planAuditKey(identifier: signing.identifier, in: hsmToken.name))
            try await refusing(ledger: await confirm(signing))
        }
        checkpoints.use(signing, newest: nil, head: try await refusing(ledger: await ledger.head()))
        _ = try await refusing(ledger: await ledger.confirm(remembered: nil))
        uncertainAcceptance.withLock { $0 = nil }
        setPosition(.open)
        do throws(Refusal) {
            try await checkpoints.seal()
        } catch {
            logger.error("the accepted ledger is not sealed yet", metadata: ["reason": "\(error.message)"])
        }
    }
}

// The gate of a ledger that several nodes share. A finding of this node puts the ledger on hold for all nodes, and this
// node reads the others' findings once a second.
extension LedgerGate {
    /// Compares the ledger with the HSM token when this node starts, and returns the node's resulting position.
    func sharedPosition() async throws(Refusal) -> Position {
        let status = try await refusing(ledger: await ledger.releaseStatus())
        let own = status.holds.first { $0.node == ledger.node } ?? status.accepted
        // While this node has a finding that is not accepted, nothing is sealed. Otherwise the HSM token would forget the
        // audit checkpoint that it remembers.
        if let disagreement = try await disagreement(serves: own == nil) {
            try await hold(disagreement, own)
            return try await endHoldIfAccepted(own, disagreement) ? .open : .held(disagreement)
        }
        if let own {
            let disagreement = LedgerDisagreement.changedUnderneath(own.finding)
            return try await endHoldIfAccepted(own, disagreement) ? .open : .held(disagreement)
        }
        try await compareServer()
        return position == .waiting ? .open : position
    }

    /// Takes the ledger into service if another node has accepted a restore that covers this node's finding.
    ///
    /// - Returns: true if the ledger is now in service.
    private func endHoldIfAccepted(
        _ own: LedgerHold?, _ disagreement: LedgerDisagreement
    ) async throws(Refusal) -> Bool {
        guard let own, own.acceptedOn != nil, own.finding.isAbout(disagreement.finding) else { return false }
        try await endOwnHold(own, after: disagreement)
        return true
    }

    /// Puts the ledger on hold on all nodes, unless the ledger already has this finding.
    private func hold(_ disagreement: LedgerDisagreement, _ known: LedgerHold?) async throws(Refusal) {
        guard let finding = disagreement.finding, known?.finding.isAbout(finding) != true else { return }
        try await refusing(ledger: await ledger.hold(finding))
    }

    /// Compares the primary server's ledger with what the HSM token remembers, and records in that ledger that they
    /// were compared.
    private func compareServer() async throws(Refusal) {
        let remembered = try await checkpoints.remembered()?.checkpoint
        let head = try await refusing(ledger: await ledger.head())
        let disagreement: LedgerDisagreement
        switch try await refusing(ledger: await ledger.confirm(remembered: remembered)) {
        case .continues: return
        case .behind(let last):
            guard let remembered else { return }
            disagreement = .rolledBack(ledgerSequence: last, remembered: remembered)
        case .forked, .anotherNode:
            guard let remembered else { return }
            disagreement = .forked(remembered: remembered)
        }
        checkpoints.stopSealing()
        try await hold(disagreement, nil)
        setPosition(.held(disagreement))
        logger.critical("\(disagreement.description)", metadata: ["ledger.sequence": "\(head.sequence)"])
    }

    /// Reads the other nodes' findings once a second, until the task is cancelled.
    func watch() async {
        while !Task.isCancelled {
            do throws(Refusal) {
                try await detect()
            } catch {
                // The ledger or the HSM token is unavailable. Releases are refused for the same reason, so this is not
                // logged as an error.
                logger.debug("the other nodes' findings were not read", metadata: ["reason": "\(error.message)"])
            }
            try? await Task.sleep(for: .seconds(1))
        }
    }

    func detect() async throws(Refusal) {
        guard position != .waiting else { return }
        try await publishSigningTimeWindow()
        try await finishAcceptance()
        guard ledger.isShared else { return }
        let status = try await refusing(ledger: await ledger.releaseStatus())
        switch position {
        case .waiting: return
        case .held(let disagreement):
            if let accepted = status.accepted { _ = try await endHoldIfAccepted(accepted, disagreement) }
        case .open:
            if let own = status.holds.first(where: { $0.node == ledger.node }) {
                // The ledger's writer found that the database is older than what this process has written to it.
                checkpoints.stopSealing()
                setPosition(.held(.changedUnderneath(own.finding)))
            } else if let accepted = status.accepted {
                // Since the last check, this node's writer of the ledger reported a finding, and another node accepted
                // it.
                let disagreement = LedgerDisagreement.changedUnderneath(accepted.finding)
                checkpoints.stopSealing()
                setPosition(.held(disagreement))
                _ = try await endHoldIfAccepted(accepted, disagreement)
            } else if status.isServerChanged || !status.hasCompared {
                try await compareServer()
            }
        }
    }
}
