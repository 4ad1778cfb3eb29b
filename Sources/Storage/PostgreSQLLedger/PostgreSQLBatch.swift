import AuditChain
import DatabaseKit
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import PostgreSQLClient

/// A write that shares its transaction with other writes.
enum BatchedWrite: Sendable {
    case release(Release, AuditRecord?, answer: @Sendable (ReleaseDecision) -> Void)
    /// Counts a repeat that was decrypted and then refused. The answer is true if no further repeat of the transaction
    /// is possible.
    case countRefusedRepeat(Release, answer: @Sendable (Bool) -> Void)
    case signature(SignatureUse, AuditRecord, answer: @Sendable (SignatureDecision) -> Void)
    case record(AuditRecord, answer: @Sendable (AuditLine) -> Void)
    /// A write that adds nothing to its batch. The batch changes the node's row in any case, which shows that the
    /// database can be written.
    case probe(answer: @Sendable ((isStandbyNamed: Bool, isHeld: Bool)) -> Void)

    var release: Release? {
        switch self {
        case .release(let release, _, _), .countRefusedRepeat(let release, _): release
        case .signature, .record, .probe: nil
        }
    }

    /// The key whose state decides whether the write is permitted; nil for a write that uses no key.
    var publicKeyHash: PublicKeyHash? {
        if case .signature(let signature, _, _) = self { signature.publicKeyHash } else { release?.publicKeyHash }
    }
}

/// The decision on a ``BatchedWrite``.
struct BatchedDecision {
    /// The release or signature that was granted; nil for a refusal, and for a write that is neither a release nor a
    /// signature.
    var granted: GrantedUse?
    let answer: @Sendable () -> Void
}

/// The batched writes of one transaction, decided in the order of their arrival.
///
/// The transaction's first round trip includes three statements. They lock the keys' rows (shared), insert the claims
/// that may be new, and read the existing claims. A batch waits for other nodes' commits in the order of transaction
/// identifiers, so two nodes never wait for each other. (Two batches could, if each had two Google Pay messages with
/// the other's messageIds in crossed order. PostgreSQL then ends one, which is repeated. Google gives no two messages one
/// messageId.) The isolation level is READ COMMITTED, and a separate
/// statement reads the claims that conflicted with an insertion. A single statement for both would not see a claim that
/// another node commits while the statement waits.
struct PostgreSQLBatch {
    let writes: [BatchedWrite]
    let node: String
    let repeatFor: Duration
    /// The server on which the transaction runs. Nothing is released until all live nodes have compared their chains on
    /// this server with the heads that they remember.
    let server: ServerIdentity?

    private var releases: [Release] { writes.compactMap(\.release) }

    /// The releases for which a claim is inserted if the database's state permits it.
    private var candidates: [Release] {
        writes.compactMap { write in
            if case .release(let release, _, _) = write, release.allowsFirstRelease { release } else { nil }
        }
    }

    /// The index in ``opening`` of the statement that inserts claims, which waits for other nodes' uncommitted claims.
    static let insertion = 1

    /// The statements sent with the beginning of the transaction.
    var opening: [PostgreSQLStatement] {
        let (releases, candidates) = (releases, candidates)
        let keys = Set(writes.compactMap(\.publicKeyHash))
        guard !keys.isEmpty else { return [] }
        guard !releases.isEmpty else { return [Self.keys(Array(keys))] }
        return [
            Self.keys(Array(keys)), insertion(of: candidates),
            PostgreSQLStatement(
                """
                SELECT \(ClaimRow.columns) FROM claim WHERE transaction_id = ANY ($1) AND attempt <> ALL ($2)
                ORDER BY transaction_id FOR UPDATE
                """,
                [
                    .byteStrings(Array(Set(releases.map(\.transactionId))).map(\.bytes)),
                    .byteStrings(candidates.map(\.attempt)),
                ], prepared: "claims"),
        ]
    }

    /// Returns the statement that reads and locks the keys' rows, so that they cannot change until this transaction
    /// ends. All batches lock them in the same order, so they cannot deadlock.
    static func keys(_ hashes: [PublicKeyHash]) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            SELECT \(KeyEligibilityRow.columns) FROM merchant_key WHERE public_key_hash = ANY ($1)
            ORDER BY public_key_hash FOR SHARE
            """, [.byteStrings(hashes.map(\.bytes))], prepared: "keys")
    }

    /// Returns the statement that inserts those claims that the keys' states and the release limits permit.
    /// ``decide(_:_:)`` checks the result against the rules in Swift.
    private func insertion(of candidates: [Release]) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            INSERT INTO claim (transaction_id, public_key_hash, caller, reference_digest, content_digest, attempt,
                claimed_at, node, message_claim)
            SELECT r.transaction_id, r.public_key_hash, r.caller, r.reference_digest, r.content_digest, r.attempt,
                r.claimed_at, $1, r.message_claim
            FROM unnest($2::bytea[], $3::bytea[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bigint[],
                    $9::bigint[], $12::bytea[], $13::text[]) WITH ORDINALITY
                AS r (transaction_id, public_key_hash, caller, reference_digest, content_digest, attempt, claimed_at,
                    signed_at, message_claim, key_use, position)
                JOIN merchant_key AS k ON k.public_key_hash = r.public_key_hash
                CROSS JOIN ledger_state AS s
            WHERE k.key_use = r.key_use AND (k.state = 'active' OR (k.state = 'deactivated' AND r.claimed_at < k.cut_off))
                AND (r.signed_at IS NULL OR s.forgotten_before IS NULL OR r.signed_at >= s.forgotten_before)
                AND (r.signed_at IS NULL OR s.restore_fence IS NULL OR r.signed_at >= s.restore_fence)
                AND s.held_since IS NULL AND s.system_identifier = $10 AND s.timeline = $11
            ORDER BY r.transaction_id, r.position
            ON CONFLICT DO NOTHING RETURNING attempt
            """,
            [
                .text(node), .byteStrings(candidates.map(\.transactionId.bytes)),
                .byteStrings(candidates.map(\.publicKeyHash.bytes)), .texts(candidates.map(\.caller)),
                .byteStrings(candidates.map(\.referenceDigest)), .byteStrings(candidates.map(\.contentDigest)),
                .byteStrings(candidates.map(\.attempt)),
                .integers(candidates.map { StoredTime.milliseconds($0.at) }),
                .integers(candidates.map { $0.signedAt.map(StoredTime.milliseconds) }),
                .text(server?.systemIdentifier), .integer(server?.timeline),
                .byteStrings(candidates.map { $0.messageClaim?.bytes }), .texts(candidates.map(\.wallet.keyUse.name)),
            ], prepared: "claim")
    }

    /// Decides all writes, appends their records and adds statements to the commit.
    ///
    /// - Parameter results: the results of ``opening``.
    /// - Returns: a decision for each write, in order.
    func decide(_ results: [PostgreSQLResult], _ transaction: PostgreSQLTransaction) throws -> [BatchedDecision] {
        var claims = try BatchClaims(results, transaction, node: node, repeatFor: repeatFor)
        let decisions = try writes.map { write -> BatchedDecision in
            switch write {
            case .release(let release, var record, let answer):
                let verdict = try claims.decide(release)
                record?.outcome = verdict.outcome
                let decision = ReleaseDecision(
                    verdict: verdict, line: record.map(transaction.append),
                    isUsedUp: verdict.isLast { claims.isUsedUp(release) })
                let isGranted = verdict == .released || verdict == .repeated
                return BatchedDecision(granted: isGranted ? .release(release) : nil) { answer(decision) }
            case .countRefusedRepeat(let release, let answer):
                claims.countRefusedRepeat(release)
                let isUsedUp = claims.isUsedUp(release)
                return BatchedDecision { answer(isUsedUp) }
            case .signature(let signature, var record, let answer):
                let verdict = claims.decide(signature)
                record.outcome = verdict.outcome
                let decision = SignatureDecision(verdict: verdict, line: transaction.append(record))
                return BatchedDecision(granted: verdict == .granted ? .signature(signature) : nil) { answer(decision) }
            case .record(let record, let answer):
                let line = transaction.append(record)
                return BatchedDecision { answer(line) }
            case .probe(let answer):
                let (isStandbyNamed, isHeld) = (transaction.isStandbyNamed, transaction.isHeld)
                return BatchedDecision { answer((isStandbyNamed, isHeld)) }
            }
        }
        try claims.close(transaction)
        return decisions
    }
}

/// The rows of keys and claims that a batch has read, and the batch's changes to the claims.
private struct BatchClaims {
    private let transaction: PostgreSQLTransaction
    private let repeatFor: Duration
    private var keys: [PublicKeyHash: KeyEligibility] = [:]
    /// The attempts whose claims this batch has inserted and whose releases are not decided yet.
    private var inserted: Set<[UInt8]> = []
    private var claims: [TransactionIdentifier: Claim] = [:]
    /// The transactions that this batch repeats, each with the time of its last repeat.
    private var repeated: [TransactionIdentifier: Int64] = [:]

    init(
        _ results: [PostgreSQLResult], _ transaction: PostgreSQLTransaction, node: String, repeatFor: Duration
    ) throws {
        self.transaction = transaction
        self.repeatFor = repeatFor
        keys = try KeyEligibilityRow.all(results.first?.rows ?? [])
        guard results.count == 3 else { return }
        for row in results[1].rows { inserted.insert(try row.bytes(0)) }
        for row in results[2].rows {
            let (transaction, claim) = try ClaimRow.read(row)
            claims[transaction] = claim
        }
    }

    mutating func decide(_ release: Release) throws -> ReleaseVerdict {
        let isInserted = inserted.remove(release.attempt) != nil
        guard !transaction.isHeld else {
            try require(!isInserted)
            return .held
        }
        guard keys[release.publicKeyHash]?.decrypts(for: release.wallet, at: release.at) == true else {
            try require(!isInserted)
            return .keyNotActive
        }
        let refusal = release.refusalOfFirstRelease { transaction.limits }
        if isInserted {
            try require(refusal == nil && claims[release.transactionId] == nil)
            claim(release)
            return .released
        }
        guard let claim = claims[release.transactionId] else { return refusal ?? .replayed }
        let repeatability = claim.repeatability(of: release, within: repeatFor)
        if repeatability == .yes { countRepeat(release, by: release.attempt) }
        return repeatability.verdict
    }

    func decide(_ signature: SignatureUse) -> SignatureVerdict {
        transaction.isHeld ? .held : signature.verdict(keys[signature.publicKeyHash])
    }

    private mutating func claim(_ release: Release) {
        let time = StoredTime.milliseconds(release.at)
        claims[release.transactionId] = Claim(
            caller: release.caller, referenceDigest: release.referenceDigest, contentDigest: release.contentDigest,
            attempt: release.attempt, repeatAttempt: nil, claimedAt: time, repeats: 0)
        if let signedAt = release.signedAt {
            transaction.claimed(at: time, signedAt: StoredTime.milliseconds(signedAt))
        }
    }

    mutating func countRefusedRepeat(_ release: Release) {
        guard let claim = claims[release.transactionId], claim.repeatability(of: release, within: repeatFor) == .yes
        else { return }
        countRepeat(release, by: nil)
    }

    /// - Parameter attempt: the released attempt; nil for a repeat that is counted but refused. Nil leaves the claim's
    ///   last released attempt unchanged.
    private mutating func countRepeat(_ release: Release, by attempt: [UInt8]?) {
        claims[release.transactionId]?.repeats += 1
        if let attempt { claims[release.transactionId]?.repeatAttempt = attempt }
        repeated[release.transactionId] = StoredTime.milliseconds(release.at)
    }

    func isUsedUp(_ release: Release) -> Bool { claims[release.transactionId]?.isUsedUp ?? false }

    /// Adds a statement to the commit that stores the repeats. Throws if an inserted claim belongs to no release of the
    /// batch.
    func close(_ transaction: PostgreSQLTransaction) throws {
        try require(inserted.isEmpty)
        let changed = repeated.keys.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        guard !changed.isEmpty else { return }
        transaction.close(
            with: PostgreSQLStatement(
                """
                UPDATE claim SET repeats = r.repeats, repeat_attempt = r.attempt, repeated_at = r.repeated_at
                FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[])
                    AS r (transaction_id, repeats, attempt, repeated_at)
                WHERE claim.transaction_id = r.transaction_id
                """,
                [
                    .byteStrings(changed.map(\.bytes)), .integers(changed.map { Int64(claims[$0]?.repeats ?? 0) }),
                    .byteStrings(changed.map { claims[$0]?.repeatAttempt }), .integers(changed.map { repeated[$0] }),
                ], prepared: "repeats"))
    }

    /// Throws if `holds` is false, so that nothing is committed. Callers pass false if the SQL statement has inserted a
    /// claim that the release rules in Swift do not permit.
    private func require(_ holds: Bool) throws {
        guard holds else {
            throw LedgerFailure.unavailable(
                reason: "A claim was inserted that the rules do not permit. This is a defect of paytokend; report it.")
        }
    }
}
