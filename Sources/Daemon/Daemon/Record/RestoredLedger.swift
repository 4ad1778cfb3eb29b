import AuditChain
import Foundation
import Ledger
import Logging
import Refusals

/// The findings that an acceptance covers: this node's at its start, and those of all nodes.
struct DetectedRestore: Sendable, Equatable {
    let node: String
    let disagreement: LedgerDisagreement?
    /// The findings of all nodes; empty in a ledger of one node.
    let holds: [LedgerHold]

    /// True if nothing was found. An acceptance then only sets the fence.
    var isEmpty: Bool { disagreement == nil && holds.isEmpty }

    /// The sequence that is remembered outside the ledger.
    var rememberedSequence: Int? {
        disagreement?.hsmTokenSequence ?? holds.compactMap { $0.finding.remembered?.sequence }.first
    }

    /// The newest time of a seal that the ledger does not contain. The lost ledger released payments at least until
    /// then.
    fileprivate var rememberedTime: Date? {
        ([disagreement?.remembered] + holds.map(\.finding.remembered)).compactMap { $0?.time?.date }.max()
    }
}

// Taking an older ledger into service.
extension LedgerGate {
    /// Returns the findings that an acceptance would cover.
    /// - Throws: ledger_unavailable before this node has compared, since its finding must be included.
    func detectedRestore() async throws(Refusal) -> DetectedRestore {
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

    /// Requires that every signing-time window has a limit.
    /// - Throws: invalid_state while a window is off, since what was forgotten then has no limit.
    func requireBoundedWindows() async throws(Refusal) {
        try await publishSigningTimeWindow()
        let unbounded = try await refusing(ledger: await ledger.releaseStatus()).unboundedNodes
        guard unbounded.isEmpty else { throw LedgerFailure.windowOff(nodes: unbounded).refusal }
    }

    /// Checks everything that ``acceptRestore(_:reason:by:approval:decision:)`` needs.
    ///
    /// - Returns: the audit key that would continue sealing, or nil if that key does not change; and the ledger's last
    ///   sequence.
    func examineRestore(
        _ matter: DetectedRestore
    ) async throws(Refusal) -> (signing: AuditSigningKey?, ledgerSequence: Int) {
        try await requireBoundedWindows()
        return (
            try await signingKey(after: matter.disagreement), try await refusing(ledger: await ledger.head()).sequence
        )
    }

    /// Takes the ledger into service as it is, sets the fence, and has the HSM token remember the ledger's end from
    /// then on.
    ///
    /// - Parameters:
    ///   - matter: the findings that the person decided on.
    ///   - decision: the second person's decision, written in one transaction with the acceptance.
    /// - Returns: the ledger's last sequence, and the sequence that was remembered.
    func acceptRestore(
        _ matter: DetectedRestore, reason: AuditReason, by caller: AuditCaller?, approval: ApprovalIdentifier? = nil,
        decision: AdministrativeChange? = nil
    ) async throws(Refusal) -> (ledgerSequence: Int, hsmTokenSequence: Int?) {
        let (signing, sequence) = try await examineRestore(matter)
        // The clock may be late now, and an old copy may lack claims from just before. The newest known release
        // therefore limits the fence too.
        let newest = [try await refusing(ledger: await ledger.newestRelease()), matter.rememberedTime].compactMap(
            \.self
        )
        .max()
        var change = decision ?? AdministrativeChange(at: clock.now(), records: [])
        change.records.append(
            AuditRecord(
                time: AuditTime(clock.now()),
                event: .ledgerAcceptRestore(
                    LedgerRestore(
                        ledgerSequence: sequence, hsmTokenSequence: matter.rememberedSequence, reason: reason,
                        approval: approval)),
                caller: caller))
        change.restore = .accept(matter.holds, newestRelease: newest, approval: approval)
        try await refusing(ledger: await ledger.apply(change))
        if let signing { try await serve(signing) }
        logger.warning(
            "a restored ledger was taken into service",
            metadata: ["ledger.sequence": "\(sequence)", "token.sequence": "\(matter.rememberedSequence ?? 0)"])
        return (sequence, matter.rememberedSequence)
    }

    /// Continues on this node after another one accepted a restore that covered this node's finding.
    func takeUp(_ accepted: LedgerHold, after disagreement: LedgerDisagreement) async throws(Refusal) {
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
        change.restore = .takeUp
        try await refusing(ledger: await ledger.apply(change))
        try await serve(signing)
        logger.warning(
            "a restored ledger was taken into service, because another node accepted it",
            metadata: ["accepted.on": "\(accepted.acceptedOn ?? "-")", "ledger.sequence": "\(sequence)"])
    }

    /// Returns the audit key that continues sealing; nil when this node found nothing wrong.
    private func signingKey(after disagreement: LedgerDisagreement?) async throws(Refusal) -> AuditSigningKey? {
        guard let disagreement else { return nil }
        let evidence = try await LedgerEvidence(ledger: ledger, hsmToken: hsmToken)
        let signing: AuditSigningKey
        switch disagreement {
        case .anotherHSMToken:
            throw Refusal(
                .invalidState,
                "The HSM token does not hold the key that sealed this ledger's record; accepting cannot help.",
                details: "put that HSM token back, or use the ledger that belongs to this one")
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

    /// Puts the audit key into service after the acceptance was recorded. The HSM token remembers this chain from the
    /// next seal on; a daemon that starts before that seal requires the acceptance again.
    private func serve(_ signing: AuditSigningKey) async throws(Refusal) {
        let known = try await refusing(ledger: await ledger.auditKeys())
        if !known.contains(where: { $0.identifier == signing.identifier && $0.publicKey == signing.publicPoint }) {
            try await refusing(ledger: await ledger.planAuditKey(identifier: signing.identifier))
            try await refusing(ledger: await confirm(signing))
        }
        checkpoints.use(signing, newest: nil, head: try await refusing(ledger: await ledger.head()))
        _ = try await refusing(ledger: await ledger.confirm(remembered: nil))
        take(.open)
        do throws(Refusal) {
            try await checkpoints.seal()
        } catch {
            logger.error("the accepted ledger is not sealed yet", metadata: ["reason": "\(error.message)"])
        }
    }
}

// A ledger of several nodes: a finding of this node holds all nodes, and once a second it reads the findings of the
// others.
extension LedgerGate {
    /// Determines this node's position at its start.
    func sharedPosition() async throws(Refusal) -> Position {
        let status = try await refusing(ledger: await ledger.releaseStatus())
        let own = status.holds.first { $0.node == ledger.node } ?? status.accepted
        // While this node's own finding is open, the HSM token keeps the audit checkpoint that it remembers.
        if let disagreement = try await disagreement(serves: own == nil) {
            try await hold(disagreement, own)
            return try await takenUp(own, disagreement) ? .open : .held(disagreement)
        }
        if let own {
            let disagreement = LedgerDisagreement.changedUnderneath(own.finding)
            return try await takenUp(own, disagreement) ? .open : .held(disagreement)
        }
        try await compareServer()
        return position == .waiting ? .open : position
    }

    private func takenUp(_ own: LedgerHold?, _ disagreement: LedgerDisagreement) async throws(Refusal) -> Bool {
        guard let own, own.acceptedOn != nil, own.finding.isAbout(disagreement.finding) else { return false }
        try await takeUp(own, after: disagreement)
        return true
    }

    /// Holds the ledger on all nodes, unless the ledger already has this finding.
    private func hold(_ disagreement: LedgerDisagreement, _ known: LedgerHold?) async throws(Refusal) {
        guard let finding = disagreement.finding, known?.finding.isAbout(finding) != true else { return }
        try await refusing(ledger: await ledger.hold(finding))
    }

    /// Compares with what the HSM token remembers on the server that takes the writes, and records the result there.
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
        checkpoints.withhold()
        try await hold(disagreement, nil)
        take(.held(disagreement))
        logger.critical("\(disagreement.description)", metadata: ["ledger.sequence": "\(head.sequence)"])
    }

    /// Reads the other nodes' findings once a second, until the task is cancelled.
    func watch() async {
        while !Task.isCancelled {
            do throws(Refusal) {
                try await detect()
            } catch {
                // The ledger or the HSM token is unavailable; requests for a release are refused for that reason.
                logger.debug("the other nodes' findings were not read", metadata: ["reason": "\(error.message)"])
            }
            try? await Task.sleep(for: .seconds(1))
        }
    }

    func detect() async throws(Refusal) {
        try await publishSigningTimeWindow()
        guard ledger.isShared else { return }
        let status = try await refusing(ledger: await ledger.releaseStatus())
        switch position {
        case .waiting: return
        case .held(let disagreement):
            if let accepted = status.accepted { _ = try await takenUp(accepted, disagreement) }
        case .open:
            if let own = status.holds.first(where: { $0.node == ledger.node }) {
                // The ledger's writer found that the database is older than what this process has written.
                checkpoints.withhold()
                take(.held(.changedUnderneath(own.finding)))
            } else if let accepted = status.accepted {
                // Another node has accepted the writer's finding since the last check.
                let disagreement = LedgerDisagreement.changedUnderneath(accepted.finding)
                checkpoints.withhold()
                take(.held(disagreement))
                _ = try await takenUp(accepted, disagreement)
            } else if status.isServerChanged || !status.hasCompared {
                try await compareServer()
            }
        }
    }
}
