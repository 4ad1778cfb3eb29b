import AuditChain
import Ledger
import UsageRecording

// An approval to accept a restore covers a digest of the findings. The digest includes the findings' kinds and values,
// but not the sentences that describe the findings to people. Those sentences may therefore change.

extension DetectedRestore {
    /// The digest of this node's finding and of all other nodes' findings.
    var parameters: AuditDigest {
        var parameters = OperationParameters(.ledgerAcceptRestore)
        // The version of the digest's format. Version 0.1.0 of the daemon hashed sentences instead, without a format
        // version.
        parameters.add("form 2")
        parameters.add(node)
        parameters.add(disagreement)
        for hold in holds {
            parameters.add(hold.node)
            parameters.add(AuditTime(hold.foundAt).text)
            parameters.add(hold.finding)
        }
        return parameters.digest
    }

    /// Returns true if an approval with this digest permits accepting the findings. For an approval that
    /// version 0.1.0 recorded, the digest is ``parametersOfFirstVersion``; for any other approval, ``parameters``.
    func isPermitted(by approved: AuditDigest) -> Bool {
        approved == parameters || approved == parametersOfFirstVersion
    }
}

extension OperationParameters {
    fileprivate mutating func add(_ disagreement: LedgerDisagreement?) {
        switch disagreement {
        case nil: add("agreement")
        case .lost: add("lost")
        case .rolledBack: add("rolled_back")
        case .forked: add("forked")
        case .changedUnderneath: add("found_beneath")
        case .anotherHSMToken(let keyId, _):
            add("another_hsm_token")
            add(keyId?.hex)
        }
        if let finding = disagreement?.finding { add(finding) }
    }

    fileprivate mutating func add(_ finding: LedgerHold.Finding) {
        add(finding.kind.rawValue)
        add(String(finding.ledgerSequence))
        add(finding.remembered.map { String($0.sequence) })
        add(finding.remembered?.hash.hex)
        add(finding.remembered?.time?.text)
        add(finding.keyId?.hex)
    }
}

// MARK: Version 0.1.0

// After an upgrade, requests that version 0.1.0 recorded stay open until `approvals.expire` has passed. Their digests
// cover the sentences below, so no word of these sentences may change. Remove this part in version 0.3.0.

extension DetectedRestore {
    var parametersOfFirstVersion: AuditDigest {
        var parameters = OperationParameters(.ledgerAcceptRestore)
        parameters.add(disagreement?.descriptionOfFirstVersion)
        guard !holds.isEmpty else { return parameters.digest }
        parameters.add(node)
        for hold in holds {
            parameters.add(hold.node)
            parameters.add(AuditTime(hold.foundAt).text)
            parameters.add(hold.finding.sentenceOfFirstVersion)
        }
        return parameters.digest
    }
}

extension LedgerDisagreement {
    fileprivate var descriptionOfFirstVersion: String {
        switch self {
        case .lost(let remembered, let keyId):
            "The ledger is new, but the token remembers "
                + (remembered.map { "record \($0.sequence) of node \($0.node.name)" } ?? "an audit key")
                + ", so a ledger was lost. " + Self.meaningOfFirstVersion
                + (keyId.map {
                    " Accepting takes over the token's audit key with the keyId \($0.hex): compare it with the keyId of a "
                        + "checkpoint exported before, since anyone with the PIN can make such a key."
                } ?? "")
        case .rolledBack(let last, let remembered):
            "The ledger ends with record \(last), but the token remembers record \(remembered.sequence) of "
                + "\(remembered.time.text), so the ledger is an older copy. " + Self.meaningOfFirstVersion
        case .forked(let remembered):
            "The ledger's record \(remembered.sequence) is not the one that the token remembers, so the ledger went on "
                + "from an older copy or was changed. " + Self.meaningOfFirstVersion
        case .anotherHSMToken(let keyId, _):
            "The token does not hold the audit key that sealed this ledger's record"
                + (keyId.map { " (keyId \($0.hex))" } ?? "") + ". Put that token back, or the ledger that belongs to "
                + "this one; nothing is released before."
        case .changedUnderneath(let finding) where finding.kind == .restored:
            "The ledger is a backup, or was restored from one, that ends with record \(finding.ledgerSequence), and nobody has "
                + "accepted that. " + Self.meaningOfFirstVersion
        case .changedUnderneath(let finding):
            "The database is older than what this node had written to it: \(finding.sentenceOfFirstVersion) "
                + Self.meaningOfFirstVersion
        }
    }

    private static let meaningOfFirstVersion =
        "It may have forgotten released transactions and suspended or compromised keys; nothing is released. Put the "
        + "right ledger back. To take this one into service knowingly, start paytokend with --await-restore and run "
        + "paytokenctl ledger accept-restore: payment tokens that were signed before it, or within the widest "
        + "signing-time window after it, are refused from then on."
}

extension LedgerHold.Finding {
    fileprivate var sentenceOfFirstVersion: String {
        let known = remembered.map { end in
            "record \(end.sequence)" + (end.time.map { " of \($0.text)" } ?? "")
        }
        return switch kind {
        case .lost: "no record of its own, and its HSM token remembers \(known ?? "an audit key")."
        case .rolledBack: "its record ends with \(ledgerSequence), and \(known ?? "a later one") is remembered."
        case .restored: "a backup in the ledger's place, which ends with record \(ledgerSequence)."
        case .forked: "another record in the place of \(known ?? "the one that is remembered")."
        }
    }
}
