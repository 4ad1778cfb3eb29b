import AuditChain
import Crypto
import Foundation
import KeyTypes
import MerchantKeys
import TestSupport

@testable import Ledger

/// Random content of a ledger, as programs of its schema version could have written it.
struct LedgerContent: Sendable {
    let engine: StorageEngine
    let version: Int
    /// The time from which the content's times are derived, in milliseconds.
    let now: Int64
    private(set) var nodes = ["node-1"]
    private(set) var tables: Content = [:]
    /// The keys that sign the audit checkpoints.
    private(set) var signers: [P256.Signing.PrivateKey] = []
    /// The last audit checkpoint of each node that has one.
    private(set) var heads: [String: SignedCheckpoint] = [:]
    /// True if the ledger is on hold, so that it releases nothing.
    private(set) var isHeld = false

    private static let day: Int64 = 86_400_000

    init(_ engine: StorageEngine, version: Int, seed: UInt64, now: Int64) async throws {
        (self.engine, self.version, self.now) = (engine, version, now)
        var random = RandomValues(seed: seed)
        if engine == .postgresql {
            nodes += random.subset(of: ["node-2", "N", "a.b_c-" + String(repeating: "9", count: 58)], percent: 40)
        }
        addKeys(&random)
        addClaims(&random)
        if engine == .postgresql || version >= 2 { for node in nodes { try await addChain(of: node, &random) } }
        if engine == .postgresql || version >= 3 { addApprovals(&random) }
        if engine == .sqlite { addMeta(&random) } else { addState(&random) }
    }

    func rows(_ table: String) -> [StoredRow] { tables[table] ?? [] }

    /// True if this version's tables distinguish payment and identity keys.
    private var hasUses: Bool { version >= (engine == .sqlite ? 4 : 5) }
    private var hasArchives: Bool { version >= (engine == .sqlite ? 5 : 6) }
    private var hasAccounts: Bool { version >= (engine == .sqlite ? 6 : 7) }
    private var namesHSMTokens: Bool { version >= (engine == .sqlite ? 7 : 8) }
    private var hasGooglePay: Bool { version >= (engine == .sqlite ? 11 : 12) }

    private mutating func addKeys(_ random: inout RandomValues) {
        tables["merchant_key"] = (0..<random.count(0...9)).map { number in
            let state = random.any(of: KeyState.allCases)
            var row: StoredRow = [
                "public_key_hash": .bytes(number == 0 ? random.bytes(32) : random.unique(32)),
                "merchant_identifier": .text(random.text(longest: 255)),
                "algorithm": .text(random.any(of: ["EC", "RSA"])), "state": .text(state.rawValue),
                "cut_off": state == .deactivated && random.isTrue(percent: 80)
                    ? .integer(now + random.number(-Self.day...Self.day)) : .null,
                "origin": .text(random.any(of: KeyRecord.Origin.allCases).rawValue),
                "created_at": .integer(random.any(of: [0, now, 1, 253_402_300_799_999])),
                "node": .text(random.any(of: nodes)),
            ]
            if hasUses { row["key_use"] = .text(random.isTrue(percent: 80) ? "processing" : "identity") }
            if hasGooglePay, random.isTrue(percent: 30) { row["key_use"] = .text("google-pay") }
            return row
        }
    }

    private mutating func addClaims(_ random: inout RandomValues) {
        let keys = rows("merchant_key")
        guard !keys.isEmpty else { return }
        let many = random.isTrue(percent: 20) ? 120 : 12
        tables["claim"] = (0..<random.count(0...many)).map { number in
            let repeats = random.any(of: [0, 0, 1, 99, 100, Int64(Int32.max)])
            // A daemon removes claims that are older than ledger.retain_claims when it upgrades a file.
            let claimedAt = now - random.number(0...2 * Self.day)
            var row: StoredRow = [
                "transaction_id": .bytes(number == 0 ? random.bytes(32) : random.unique(32)),
                "public_key_hash": random.any(of: keys)[column: "public_key_hash"],
                "caller": .text(random.text(longest: 64)), "reference_digest": random.bytesIfAny(32),
                "content_digest": .bytes(random.bytes(32)), "attempt": .bytes(random.bytes(16)),
                "claimed_at": .integer(engine == .postgresql && number == 1 ? 0 : claimedAt),
                "repeats": .integer(repeats),
                "repeat_attempt": repeats > 0 ? .bytes(random.bytes(16)) : .null,
                "repeated_at": repeats > 0 ? .integer(claimedAt + 1) : .null, "node": .text(random.any(of: nodes)),
            ]
            if hasGooglePay { row["message_claim"] = random.isTrue(percent: 30) ? .bytes(random.unique(32)) : .null }
            return row
        }
    }

    private mutating func addApprovals(_ random: inout RandomValues) {
        let keys = rows("merchant_key")
        tables["approval"] = (0..<random.count(0...8)).map { _ in
            let status = random.any(of: Approval.Status.allCases)
            let isOpen = status == .pending || status == .approved
            let key = keys.isEmpty || random.isTrue(percent: 30) ? nil : random.any(of: keys)
            let decided = status != .pending
            var row: StoredRow = [
                "identifier": .bytes(random.unique(random.any(of: [4, 8, 16]))),
                "operation": .text(random.any(of: ApprovalOperation.allCases).rawValue),
                "parameters": .bytes(random.bytes(32)), "public_key_hash": key?[column: "public_key_hash"] ?? .null,
                "key_state": key?[column: "state"] ?? .null,
                "requester": .integer(random.any(of: [0, 1001, Int64(UInt32.max) - 1])),
                "requester_name": .text(random.text(longest: 64)),
                "requester_uid": .integer(random.any(of: [0, 1001, Int64(UInt32.max) - 1])),
                "requester_gid": .integer(random.any(of: [0, 100, Int64(UInt32.max) - 1])),
                "requester_groups": .text(
                    random.any(of: ["", "0", "7,8", (0..<32).map(String.init).joined(separator: ",")])),
                "reason": .text(AuditReason(random.text(longest: 200)).text), "requested_at": .integer(now - 1000),
                "expires_at": .integer(isOpen ? now + 30 * Self.day : now + random.number(-Self.day...Self.day)),
                "status": .text(status.rawValue),
                "decided_by": decided ? .integer(random.any(of: [0, 1002, Int64(UInt32.max) - 1])) : .null,
                "decided_at": decided ? .integer(now) : .null, "node": .text(random.any(of: nodes)),
            ]
            if hasAccounts {
                row["requester_account"] = .text(ifAny: random.isTrue(percent: 70) ? random.text(longest: 32) : nil)
                row["requester_login_account"] = .text(ifAny: random.isTrue(percent: 70) ? "alice" : nil)
            }
            return row
        }
    }

    /// Adds a node's records, audit keys and audit checkpoints, and perhaps an archive of the beginning.
    private mutating func addChain(of name: String, _ random: inout RandomValues) async throws {
        guard let node = AuditNode(name), random.isTrue(percent: 85) else { return }
        let signer = try P256.Signing.PrivateKey(rawRepresentation: [0x01] + random.unique(31))
        signers.append(signer)
        let point = Array(signer.publicKey.x963Representation)
        for ordinal in 1...(random.isTrue(percent: 30) ? 2 : 1) as ClosedRange<Int64> {
            // A second key is planned and not confirmed.
            var row: StoredRow = [
                "node": .text(name), "ordinal": .integer(ordinal), "identifier": .bytes(random.unique(16)),
                "public_key": ordinal == 1 ? .bytes(point) : .null, "planned_at": .integer(now + ordinal),
            ]
            if namesHSMTokens { row["hsm_token"] = .text(ifAny: random.isTrue(percent: 50) ? "primary" : nil) }
            tables["audit_key", default: []].append(row)
        }
        guard let key = CheckpointKey(point: point) else { throw HarnessFailure(description: "an audit key") }
        var (head, records, checkpoints) = (ChainHead(node: node), [StoredRow](), [StoredRow]())
        func seal(at time: Int64) async throws {
            guard let unsigned = head.checkpoint(at: AuditTime(milliseconds: time), keyId: key.keyId) else { return }
            let signed = try await unsigned.signed { message throws(HarnessFailure) in
                guard let signature = try? signer.signature(for: Data(message)),
                    let raw = CheckpointSignature(rawRepresentation: Array(signature.rawRepresentation))
                else { throw HarnessFailure(description: "an audit checkpoint") }
                return raw
            }
            heads[name] = signed
            checkpoints.append([
                "node": .text(name), "sequence": .integer(Int64(head.sequence)), "time": .integer(time),
                "line": .bytes(signed.line),
            ])
        }
        for number in 0..<random.count(0...20) {
            let time = now - Self.day + Int64(number)
            records.append(Self.appended(record(at: time, &random), to: &head))
            if random.isTrue(percent: 20) { try await seal(at: time) }
        }
        if hasArchives, let last = checkpoints.randomElement(&random), let sequence = last[column: "sequence"].integer,
            random.isTrue(percent: 60)
        {
            let end = records[Int(sequence) - 1]
            let (digest, hash) = (random.unique(32), end[column: "hash"].bytes ?? [])
            guard
                let archive = RecordArchive(
                    first: 1, last: Int(sequence), hash: AuditDigest(bytes: hash) ?? .zero,
                    digest: AuditDigest(bytes: digest) ?? .zero, size: 1000)
            else { throw HarnessFailure(description: "an archive") }
            let record = AuditRecord(time: AuditTime(milliseconds: now), event: .recordArchive(archive))
            records.append(Self.appended(record, to: &head))
            tables["archive"] =
                [
                    [
                        "node": .text(name), "first": .integer(1), "last": .integer(sequence), "hash": .bytes(hash),
                        "digest": .bytes(digest), "size": .integer(1000), "recorded": .integer(Int64(head.sequence)),
                    ]
                ] + rows("archive")
            if random.isTrue(percent: 70) {
                try await seal(at: now)
                records.removeAll { ($0[column: "sequence"].integer ?? 0) < sequence }
                checkpoints.removeAll { ($0[column: "sequence"].integer ?? 0) < sequence }
            }
        }
        tables["audit_record", default: []] += records
        tables["checkpoint", default: []] += checkpoints
    }

    private func record(at time: Int64, _ random: inout RandomValues) -> AuditRecord {
        let key = rows("merchant_key").isEmpty ? nil : random.any(of: rows("merchant_key"))
        let hash = key?[column: "public_key_hash"].bytes.flatMap { AuditDigest(bytes: $0) }
        let caller = AuditCaller(
            name: random.isTrue(percent: 70) ? AuditText(random.text(longest: 255)) : nil,
            uid: random.any(of: [0, 1001, .max - 1]), gid: random.isTrue(percent: 80) ? 100 : nil, pid: 7)
        var record = AuditRecord(
            time: AuditTime(milliseconds: time), event: .decrypt(reference: AuditDigest(bytes: random.bytes(32))),
            caller: caller, merchant: AuditText(random.text(longest: 255)), publicKeyHash: hash,
            transactionId: AuditDigest(bytes: random.unique(32)), protection: .c, hsmToken: AuditText("primary"))
        switch random.count(0...9) {
        case 0: record.outcome = .repeated
        case 1: record.outcome = .refused(.transactionReplayed)
        case 2: record = AuditRecord(time: record.time, event: .start(version: AuditText("0.1.0")))
        case 3: record = AuditRecord(time: record.time, event: .stop)
        case 4:
            // A key's row permits no more than its last recorded change of state.
            let state = key?[column: "state"].text.flatMap(AuditKeyState.init)
            record.event = .keyStateChange(
                KeyStateChange(from: .active, to: state, reason: AuditReason(random.text(longest: 200))))
            if state == nil { record.outcome = .refused(.keyNotActive) }
            record.transactionId = nil
        default: break
        }
        return record
    }

    private static func appended(_ record: AuditRecord, to head: inout ChainHead) -> StoredRow {
        let line = head.append(record)
        return [
            "node": .text(head.node.name), "sequence": .integer(Int64(line.sequence)),
            "time": .integer(record.time.milliseconds), "event": .text(record.event.name.rawValue),
            "outcome": .text(record.outcome.text), "caller": .text(ifAny: record.caller?.name?.text),
            "caller_uid": .integer(ifAny: record.caller.map { Int64($0.uid) }),
            "merchant": .text(ifAny: record.merchant?.text),
            "public_key_hash": .bytes(ifAny: record.publicKeyHash?.bytes),
            "transaction_id": .bytes(ifAny: record.transactionId?.bytes), "hash": .bytes(line.hash.bytes),
            "line": .bytes(line.bytes),
        ]
    }

    /// Adds SQLite's named values.
    private mutating func addMeta(_ random: inout RandomValues) {
        isHeld = random.isTrue(percent: 20)
        var values = ["schema_version": (isHeld ? "restored-" : "") + "\(version)", "node": "node-1", "probed": "0"]
        if isHeld {
            values["restored_at"] = "\(now)"
            values["restored_end"] = "\(rows("audit_record").compactMap { $0[column: "sequence"].integer }.max() ?? 0)"
        }
        for name in random.subset(of: ["forgotten_before", "restore_fence", "signed_ahead"], percent: 30) {
            values[name] = "\(name == "signed_ahead" ? random.number(0...90_000) : now - random.number(0...Self.day))"
        }
        tables["ledger_meta"] = values.map { ["name": .text($0.key), "value": .text($0.value)] }
    }

    /// Adds PostgreSQL's nodes, holds and state.
    private mutating func addState(_ random: inout RandomValues) {
        isHeld = version >= 2 && random.isTrue(percent: 25)
        var state: StoredRow = [
            "only_row": .boolean(true), "schema_version": .integer(Int64(version)), "guard": .integer(0),
            "forgotten_before": random.isTrue(percent: 30) ? .integer(now - random.number(0...Self.day)) : .null,
        ]
        if version >= 2 {
            state["system_identifier"] = .text("7000000000000000001")
            state["timeline"] = .integer(random.any(of: [1, Int64(UInt32.max)]))
            state["held_since"] = isHeld ? .integer(now) : .null
            state["restore_fence"] = random.isTrue(percent: 30) ? .integer(now - 1) : .null
        }
        if version >= 3 { state["identity"] = .text("5bf9ba0e-5f8b-4f33-9c3c-\(hex(random.unique(6)))") }
        tables["ledger_state"] = [state]
        tables["node"] = nodes.map { name in
            var row: StoredRow = [
                "name": .text(name), "fence": .integer(random.any(of: [1, 77, Int64(UInt32.max) + 1])),
                "lease_until": .text("2026-01-02T03:04:05.678901+00:00"), "seen_at": .text("2026-01-02T03:04:05+00:00"),
                "version": .text(random.text(longest: 20)), "last_batch": random.bytesIfAny(16),
                "signed_ahead": .integer(random.number(0...90_000)),
                "clock_accepted_after": .integer(random.number(0...9)),
            ]
            if version >= 2 {
                row["widest_window"] = random.isTrue(percent: 60) ? .integer(300_000) : .null
                row["system_identifier"] = .text(ifAny: random.isTrue(percent: 60) ? "7000000000000000001" : nil)
                row["timeline"] = random.isTrue(percent: 60) ? .integer(1) : .null
            }
            return row
        }
        guard version >= 2 else { return }
        let (nodes, isHeld, now) = (nodes, isHeld, now)
        tables["hold"] = (isHeld ? [nodes[0]] + random.subset(of: Array(nodes.dropFirst()), percent: 50) : []).map {
            name in
            [
                "node": .text(name), "kind": .text(random.any(of: ["lost", "rolled_back", "forked"])),
                "ledger_sequence": .integer(random.limit()), "remembered_sequence": .integer(max(1, random.limit())),
                "remembered_hash": .bytes(random.bytes(32)), "remembered_at": .integer(now),
                "key_id": random.bytesIfAny(32), "found_at": .integer(now),
            ]
        }
        tables["key_holder"] = rows("merchant_key").flatMap { key in
            random.subset(of: nodes, percent: 50).map { node in
                [
                    "node": .text(node), "public_key_hash": key[column: "public_key_hash"],
                    "seen_at": .integer(random.limit()),
                ]
            }
        }
        guard version >= 3 else { return }
        tables["moved_ledger"] = random.subset(of: ["moving-1", "moved-2"], percent: 40).map { name in
            let isAccepted = name == "moved-2"
            return [
                "node": .text(name), "run": .integer(max(1, random.limit())), "begun_at": .integer(now),
                "accepted_at": isAccepted ? .integer(now) : .null,
                "last_sequence": isAccepted ? .integer(random.limit()) : .null,
                "last_hash": isAccepted ? .bytes(random.bytes(32)) : .null,
            ]
        }
    }
}

extension [StoredRow] {
    fileprivate func randomElement(_ random: inout RandomValues) -> StoredRow? { isEmpty ? nil : random.any(of: self) }
}
