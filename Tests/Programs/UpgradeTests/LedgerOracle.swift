import AccessControl
import AuditChain
import DatabaseKit
import Foundation
import MerchantKeys
import PaymentToken
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger
@testable import SQLiteLedger

extension UpgradeRound {
    /// Checks what an upgraded ledger answers through its interface, against the content from before.
    func verify(_ content: LedgerContent, in store: UpgradedStore) async throws {
        let ledger: any Ledger
        switch store.place {
        case .file(let path):
            ledger = try await SQLiteLedger.open(SQLiteLedger.Settings(path: path, node: "node-1"))
        case .database(let server, let name, _):
            ledger = try await PostgreSQLLedger.open(
                PostgreSQLLedger.Settings(
                    url: PostgreSQLURL(server.url(name, user: kind.role)), node: "node-1", timeout: .seconds(60)))
        }
        do {
            try await verifyKeys(content, ledger)
            try await verifyApprovals(content, ledger)
            try await verifyChains(content, ledger)
            try await verifyReleases(content, ledger)
        } catch {
            await ledger.close()
            throw error
        }
        await ledger.close()
    }

    private func verifyKeys(_ content: LedgerContent, _ ledger: any Ledger) async throws {
        let found = try await ledger.keyRecords().map {
            [
                hex($0.publicKeyHash.bytes), $0.merchantIdentifier, $0.algorithm.name, $0.use.name, $0.state.rawValue,
                $0.cutOff.map { "\(StoredTime.nearestMilliseconds($0))" } ?? "", $0.origin.rawValue,
            ]
        }
        let wanted = content.rows("merchant_key").map { row in
            [
                hex(row[column: "public_key_hash"].bytes ?? []), row[column: "merchant_identifier"].text ?? "",
                row[column: "algorithm"].text ?? "", row[column: "key_use"].text ?? "processing",
                row[column: "state"].text ?? "", row[column: "cut_off"].shown ?? "", row[column: "origin"].text ?? "",
            ]
        }
        check(Set(found) == Set(wanted) && found.count == wanted.count, "keys: \(found), not \(wanted)")
        let auditKeys = try await ledger.auditKeys().map { hex($0.publicKey ?? []) }
        let planned = content.rows("audit_key").filter { $0[column: "node"] == .text("node-1") }
            .sorted { ($0[column: "ordinal"].integer ?? 0) < ($1[column: "ordinal"].integer ?? 0) }
            .map { hex($0[column: "public_key"].bytes ?? []) }
        check(auditKeys == planned, "audit keys: \(auditKeys), not \(planned)")
    }

    private func verifyApprovals(_ content: LedgerContent, _ ledger: any Ledger) async throws {
        let found = try await ledger.approvals(limit: 1000)
        let rows = content.rows("approval")
        check(found.count == rows.count, "\(found.count) approvals, not \(rows.count)")
        for row in rows {
            guard let approval = found.first(where: { .bytes($0.identifier.bytes) == row[column: "identifier"] }) else {
                check(false, "no approval \(row)")
                continue
            }
            let isSame =
                approval.operation.rawValue == row[column: "operation"].text
                && approval.parameters.bytes == row[column: "parameters"].bytes
                && approval.key?.bytes == row[column: "public_key_hash"].bytes
                && approval.keyState?.rawValue == row[column: "key_state"].text
                && Int64(approval.requester.uid) == row[column: "requester_uid"].integer
                && approval.requester.name == row[column: "requester_name"].text
                && approval.requester.person.account == row[column: "requester_account"].text
                && approval.reason.text == row[column: "reason"].text && approval.node == row[column: "node"].text
                && approval.status.rawValue == row[column: "status"].text
                && approval.decidedBy.map(Int64.init) == row[column: "decided_by"].integer
                && StoredTime.milliseconds(approval.expires) == row[column: "expires_at"].integer
            check(isSame, "approval \(approval), not \(row)")
        }
    }

    /// Exports each node's chain, and verifies it with scripts/verify-audit.
    private func verifyChains(_ content: LedgerContent, _ ledger: any Ledger) async throws {
        let directory = try FreshDirectory()
        try directory.write(
            content.signers.map(\.publicKey.pemRepresentation).joined(separator: "\n") + "\n", to: "keys.pem")
        for (name, head) in content.heads.sorted(by: { $0.key < $1.key }) {
            guard let node = AuditNode(name) else { continue }
            let chain: any ChainReading = name == ledger.node ? ledger : ledger.chain(of: node)
            var export: [UInt8] = []
            for try await page in chain.export(from: 1, through: nil) { export += page.bytes }
            try directory.write(export, to: "export.jsonl")
            try directory.write(head.line + [0x0a], to: "head")
            let verified = try await Program.run(
                ProjectFiles.url("scripts/verify-audit").path,
                [directory.path("export.jsonl"), directory.path("keys.pem"), "--head", directory.path("head")],
                waitsForTurn: false)
            // Records after the last audit checkpoint are not sealed.
            let isIntact = verified.status == 0 || verified.status == 2 && verified.output.hasPrefix("unsealed: ")
            check(isIntact, "the chain of \(name): \(verified)")
        }
    }

    /// Checks that nothing released can be released again, that only active keys release, and that a new payment token is
    /// released, except on hold.
    private func verifyReleases(_ content: LedgerContent, _ ledger: any Ledger) async throws {
        // A database on another server than before is compared first, after a lease if another node took part.
        if !content.isHeld {
            _ = try await ledger.confirm(remembered: nil)
            while try await ledger.releaseStatus().isServerChanged {
                try await Task.sleep(for: .milliseconds(100))
                _ = try await ledger.confirm(remembered: nil)
            }
        }
        let holds = try await ledger.releaseStatus().holds
        check(holds.isEmpty != content.isHeld, "holds: \(holds)")
        let now = Date()
        func release(_ transaction: [UInt8], _ key: Cell, _ caller: String, _ reference: [UInt8]?, _ content: [UInt8])
            async throws
            -> ReleaseVerdict
        {
            try await ledger.release(
                Release(
                    transactionId: try #require(TransactionIdentifier(bytes: transaction)),
                    publicKeyHash: try #require(key.bytes.flatMap { PublicKeyHash(bytes: $0) }), caller: caller,
                    referenceDigest: reference, contentDigest: content, at: now), recording: nil
            ).verdict
        }
        let other = [UInt8](repeating: 0xa5, count: 32)
        let keys = content.rows("merchant_key")
        for claim in content.rows("claim") {
            guard let transaction = claim[column: "transaction_id"].bytes,
                let key = keys.first?[column: "public_key_hash"]
            else { continue }
            let verdict = try await release(transaction, key, "another caller", other, other)
            check(verdict != .released && verdict != .repeated, "a claimed transaction: \(verdict)")
            if !content.isHeld, keys.first.map({ decrypts($0, at: now) }) == true {
                check(verdict == .replayed, "a claimed transaction: \(verdict)")
            }
        }
        // The daemon, and not the file's ledger, releases nothing on hold.
        guard !content.isHeld || kind == .ledgerDatabase else { return }
        for (number, key) in keys.enumerated() {
            let transaction = [UInt8](repeating: 0x77, count: 31) + [UInt8(number)]
            let verdict = try await release(transaction, key[column: "public_key_hash"], "checkout", nil, other)
            let wanted: ReleaseVerdict = content.isHeld ? .held : decrypts(key, at: now) ? .released : .keyNotActive
            check(verdict == wanted, "a new transaction with the key \(key): \(verdict), not \(wanted)")
        }
    }

    private func decrypts(_ key: StoredRow, at now: Date) -> Bool {
        guard (key[column: "key_use"].text ?? "processing") == "processing" else { return false }
        switch key[column: "state"].text {
        case "active": return true
        case "deactivated":
            guard let cutOff = key[column: "cut_off"].integer else { return false }
            return cutOff > StoredTime.milliseconds(now)
        default: return false
        }
    }
}
