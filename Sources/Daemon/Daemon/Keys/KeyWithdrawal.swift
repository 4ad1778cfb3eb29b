import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording
import WorkerSupervision

// The removal of a new key from HSM tokens after the ledger has refused it. Otherwise the key would remain there as an
// external key, and nothing in paytokend could destroy it.
extension KeyAdministration {
    /// The content of the ledger after it has refused a new key.
    private enum Finding {
        /// The ledger does not have the key, and never will by this change.
        case absent
        /// The ledger has the key: the change was made after all, or another host has imported the same key.
        case present
        /// The change may have been made or may still be made, or the ledger cannot be read.
        case unknown
    }

    /// Commits a key's record and the audit record in one transaction. If the ledger refuses a new key, destroys it in the
    /// HSM tokens that received it for this change. A key that the ledger has, or may have, is never destroyed.
    ///
    /// Two hosts that share an HSM token may import the same key at the same moment. Neither sees the other's transaction
    /// before its end, so the host that is refused may destroy the key of the other. The other host's answer then shows
    /// the key as missing, and repeating the import there restores it.
    ///
    /// - Parameter holders: the HSM tokens that received the key for this change; empty if one of them had it before.
    func apply(
        _ change: AdministrativeChange, of hash: PublicKeyHash, newIn holders: [any HSMTokenAdministering],
        for draft: AuditDraft
    ) async throws(Refusal) {
        do throws(LedgerFailure) {
            draft.recorded(at: try await ledger.apply(change).last)
        } catch {
            guard !holders.isEmpty else { throw error.refusal }
            throw await refusal(error, of: hash, newIn: holders)
        }
    }

    private func refusal(
        _ failure: LedgerFailure, of hash: PublicKeyHash, newIn holders: [any HSMTokenAdministering]
    ) async -> Refusal {
        let refusal = failure.refusal
        var keeping = holders
        switch await finding(hash, after: failure) {
        case .absent: keeping = await withdraw(hash, from: holders)
        case .present, .unknown: for holder in holders { try? await refresh(hash, in: holder) }
        }
        guard !keeping.isEmpty else { return refusal }
        let names = keeping.map(\.name).joined(separator: " and ")
        return Refusal(
            refusal.code, refusal.message,
            details: (refusal.details.map { "\($0); " } ?? "")
                + "HSM token \(names) still has the key \(hash.hex). Remove it only if GET /v1/keys shows it as external: "
                + "pkcs11-tool --module LIBRARY --token-label LABEL --login --delete-object --type privkey "
                + "--id \(hash.hex), then with --type pubkey and --type cert")
    }

    /// - Parameter failure: the ledger's answer to the change; nil if no change was requested.
    private func finding(_ hash: PublicKeyHash, after failure: LedgerFailure? = nil) async -> Finding {
        if case .timedOut(_, mayBeWritten: true) = failure { return .unknown }
        do throws(LedgerFailure) {
            let known = try await ledger.keyRecord(hash)
            return known == nil ? .absent : .present
        } catch {
            return .unknown  // The ledger cannot be read.
        }
    }

    /// Returns true if neither the ledger nor any HSM token has the key, as far as is known. Each target is asked, since
    /// another host or another program may have brought the key into it meanwhile.
    func isNew(
        _ hash: PublicKeyHash, _ known: KeyRecord?, in targets: [any HSMTokenAdministering]
    ) async throws(Refusal) -> Bool {
        guard known == nil, catalogue.index.entry(hash) == nil else { return false }
        for target in targets where try await !refusing(hsm: await target.describeKey(hash)).isEmpty { return false }
        return true
    }

    /// Removes a new key from the HSM tokens that accepted it, after another HSM token did not accept it. Returns the
    /// refusal for the caller of the import.
    func refusal(
        _ refusal: Refusal, by hsmToken: any HSMTokenAdministering, after holders: [any HSMTokenAdministering],
        of hash: PublicKeyHash, isNew: Bool
    ) async -> Refusal {
        var keeping = holders
        // Meanwhile another host that shares an HSM token may have imported the same key.
        if isNew, await finding(hash) == .absent {
            keeping = await withdraw(hash, from: holders)
        } else {
            for holder in holders { try? await refresh(hash, in: holder) }
        }
        guard !keeping.isEmpty else { return refusal }
        return Refusal(
            refusal.code,
            "HSM token \(hsmToken.name) did not accept the key, but \(keeping.map(\.name).joined(separator: " and ")) did; "
                + "repeat the command to complete the import.",
            details: refusal.details ?? refusal.message)
    }

    /// Destroys a key in these HSM tokens, and returns those that may still have it.
    private func withdraw(
        _ hash: PublicKeyHash, from holders: [any HSMTokenAdministering]
    ) async -> [any HSMTokenAdministering] {
        var keeping: [any HSMTokenAdministering] = []
        for holder in holders {
            let isDestroyed = (try? await holder.destroyKey(hash)) != nil
            // An HSM token that was opened meanwhile has listed the key.
            if !isDestroyed || catalogue.index.entry(hash) != nil { try? await refresh(hash, in: holder) }
            if !isDestroyed { keeping.append(holder) }
        }
        return keeping
    }
}
