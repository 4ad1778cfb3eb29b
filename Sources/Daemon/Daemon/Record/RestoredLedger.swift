import AuditChain
import Foundation
import Ledger
import Logging
import Refusals

/// What there is to accept: what this node has found at its start, and what all nodes have.
struct DetectedRestore: Sendable, Equatable {
    let node: String
    let disagreement: LedgerDisagreement?
    /// None in a ledger of one node.
    let holds: [LedgerHold]

    /// Nobody has found anything. Then an acceptance sets the fence, and that is all.
    var isEmpty: Bool { disagreement == nil && holds.isEmpty }

    /// What is remembered outside the ledger.
    var rememberedSequence: Int? {
        disagreement?.hsmTokenSequence ?? holds.compactMap { $0.finding.remembered?.sequence }.first
    }

    /// The newest moment at which something was sealed that the ledger does not have: until then at least it released.
    fileprivate var rememberedTime: Date? {
        ([disagreement?.remembered] + holds.map(\.finding.remembered)).compactMap { $0?.time?.date }.max()
    }
}

// An older ledger goes on in service.
extension LedgerGate {
    /// - Throws: ledger_unavailable before this node has compared: what it finds belongs to the matter.
    func detectedRestore() async throws(Refusal) -> DetectedRestore {
        if position == .waiting { try admit() }
        let status = try await refusing(ledger: await ledger.releaseStatus())
        var disagreement: LedgerDisagreement?
        if case .held(let found) = position {
            disagreement = found
        } else if let own = status.holds.first(where: { $0.node == ledger.node }) {
            disagreement = .foundBeneath(own.finding)
        }
        return DetectedRestore(node: ledger.node, disagreement: disagreement, holds: status.holds)
    }

    /// - Throws: invalid_state while a window is off: then nothing bounds what was forgotten.
    func requireBoundedWindows() async throws(Refusal) {
        try await publishSigningTimeWindow()
        let unbounded = try await refusing(ledger: await ledger.releaseStatus()).unboundedNodes
        guard unbounded.isEmpty else { throw LedgerFailure.windowOff(nodes: unbounded).refusal }
    }

    /// Checks everything that ``acceptRestore(_:reason:by:approval:decision:)`` needs.
    ///
    /// - Returns: the audit key that would go on sealing, where another one has to, and where the ledger ends.
    func examineRestore(
        _ matter: DetectedRestore
    ) async throws(Refusal) -> (signing: AuditSigningKey?, ledgerSequence: Int) {
        try await requireBoundedWindows()
        return (
            try await signingKey(after: matter.disagreement), try await refusing(ledger: await ledger.head()).sequence
        )
    }

    /// Takes the ledger into service as it is, sets the fence, and has the HSM token remember the ledger's end from now on.
    ///
    /// - Parameters:
    ///   - matter: as it was found by who decided.
    ///   - decision: the second person's, written in one transaction with the acceptance.
    /// - Returns: where the ledger ends, and the sequence that was remembered.
    func acceptRestore(
        _ matter: DetectedRestore, reason: AuditReason, by caller: AuditCaller?, approval: ApprovalIdentifier? = nil,
        decision: AdministrativeChange? = nil
    ) async throws(Refusal) -> (ledgerSequence: Int, hsmTokenSequence: Int?) {
        let (signing, sequence) = try await examineRestore(matter)
        // By a clock that is behind now, the copy may be of long ago and what it has forgotten of just before.
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

    /// This node goes on after an acceptance on another one, which covered what it has found.
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
            "a restored ledger was taken into service, as another node accepted it",
            metadata: ["accepted.on": "\(accepted.acceptedOn ?? "-")", "ledger.sequence": "\(sequence)"])
    }

    /// The audit key that goes on sealing; nil when nothing was wrong with this node's own.
    private func signingKey(after disagreement: LedgerDisagreement?) async throws(Refusal) -> AuditSigningKey? {
        guard let disagreement else { return nil }
        let evidence = try await LedgerEvidence(ledger: ledger, hsmToken: hsmToken)
        let signing: AuditSigningKey
        switch disagreement {
        case .anotherHSMToken:
            throw Refusal(
                .invalidState,
                "The HSM token does not hold the key that sealed this ledger's record; accepting cannot help.",
                details: "put that HSM token back, or take the ledger that belongs to this one")
        case .lost(_, let seen):
            guard let key = evidence.keyOfLostLedger else {
                throw Refusal(
                    .invalidState, "The HSM token holds no audit key, or several of which none signed its head.")
            }
            guard key.checkpointKey.keyId == seen else {
                throw Refusal(
                    .invalidState, "The HSM token shows another audit key than the one that was to be taken over.",
                    details: "start paytokend anew, and look who has the HSM token's PIN")
            }
            signing = key
        case .rolledBack, .forked:
            guard let key = evidence.signingKey else { throw .defect }
            signing = key
        case .foundBeneath:
            guard let key = evidence.signingKey ?? evidence.keyOfLostLedger else {
                throw Refusal(
                    .invalidState, "The HSM token does not show this node's audit key; start paytokend anew.")
            }
            signing = key
        }
        guard try await signing.isProven(by: hsmToken) else {
            throw Refusal(.invalidState, "The HSM's audit key does not sign as its public key says; it is not used.")
        }
        return signing
    }

    /// The acceptance is recorded. The HSM token remembers this chain from the next seal on; a daemon that starts before that
    /// seal asks for the acceptance again.
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

// A ledger of several nodes: what this one finds holds all, and it looks once a second what the others have found.
extension LedgerGate {
    /// This node's position at its start.
    func sharedPosition() async throws(Refusal) -> Position {
        let status = try await refusing(ledger: await ledger.releaseStatus())
        let own = status.holds.first { $0.node == ledger.node } ?? status.accepted
        // While this node's own finding stands, the HSM token goes on remembering what it does.
        if let disagreement = try await disagreement(serves: own == nil) {
            try await hold(disagreement, own)
            return try await takenUp(own, disagreement) ? .open : .held(disagreement)
        }
        if let own {
            let disagreement = LedgerDisagreement.foundBeneath(own.finding)
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

    /// Has all nodes hold, unless the ledger knows it already.
    private func hold(_ disagreement: LedgerDisagreement, _ known: LedgerHold?) async throws(Refusal) {
        guard let finding = disagreement.finding, known?.finding.isAbout(finding) != true else { return }
        try await refusing(ledger: await ledger.hold(finding))
    }

    /// The comparison with what the HSM token remembers, made on the server that takes the writes and noted there.
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

    /// Until it is cancelled.
    func watch() async {
        while !Task.isCancelled {
            do throws(Refusal) {
                try await detect()
            } catch {
                // The ledger is away, or the HSM token: whoever asks to release is told so.
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
                // The writer has found it: the database is older than what this process has written.
                checkpoints.withhold()
                take(.held(.foundBeneath(own.finding)))
            } else if let accepted = status.accepted {
                // The writer has found it, and another node accepted it since the last look.
                let disagreement = LedgerDisagreement.foundBeneath(accepted.finding)
                checkpoints.withhold()
                take(.held(disagreement))
                _ = try await takenUp(accepted, disagreement)
            } else if status.isServerChanged || !status.hasCompared {
                try await compareServer()
            }
        }
    }
}
