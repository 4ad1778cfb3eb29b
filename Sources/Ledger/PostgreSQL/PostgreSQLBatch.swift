import AuditChain
import Foundation
import MerchantKeys
import PaymentToken
import PostgreSQLClient

/// A write that shares its transaction with others.
enum BatchedWrite: Sendable {
    case release(Release, AuditRecord?)
    case countRefusedRepeat(Release)
    case signature(SignatureUse, AuditRecord)
    case record(AuditRecord)
    /// Changes nothing but what every batch changes: the node's row.
    case probe

    var release: Release? {
        switch self {
        case .release(let release, _), .countRefusedRepeat(let release): release
        case .signature, .record, .probe: nil
        }
    }

    /// The key whose state decides.
    var publicKeyHash: PublicKeyHash? {
        switch self {
        case .release(let release, _), .countRefusedRepeat(let release): release.publicKeyHash
        case .signature(let signature, _): signature.publicKeyHash
        case .record, .probe: nil
        }
    }
}

/// What was decided of a ``BatchedWrite``.
enum BatchedAnswer: Sendable {
    case decided(ReleaseDecision)
    case signed(SignatureDecision)
    /// Whether the transaction's repeats are used up now.
    case counted(isUsedUp: Bool)
    case recorded(AuditLine)
    case probed(isStandbyNamed: Bool, isHeld: Bool)
}

/// The batched writes of one transaction, decided in the order in which they came.
///
/// With the transaction's beginning go the statements that lock the keys' rows (shared), insert the claims of all that may be new,
/// and read those that others have: whoever waits for another node's commit does so in the order of the transactions'
/// identifiers, so that two nodes never wait for each other. READ COMMITTED, and a statement of its own to read what an
/// insertion met: one that did both would find nothing in a race.
struct PostgreSQLBatch {
    let writes: [BatchedWrite]
    let node: String
    let repeatFor: Duration
    /// Where it is decided; nothing is released where not all nodes have compared.
    let server: ServerIdentity?

    private var releases: [Release] { writes.compactMap(\.release) }

    /// Those that are claimed unless something in the database speaks against it.
    private var candidates: [Release] {
        writes.compactMap { write in
            if case .release(let release, _) = write, release.admitsNew { release } else { nil }
        }
    }

    /// Where among ``opening`` the statement is that waits for other nodes' claims.
    static let insertion = 1

    /// Sent with the transaction's beginning.
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

    /// The keys' rows, which nobody changes until this transaction ends. In one order, as every batch locks them.
    static func keys(_ hashes: [PublicKeyHash]) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            SELECT \(KeyStandingRow.columns) FROM merchant_key WHERE public_key_hash = ANY ($1)
            ORDER BY public_key_hash FOR SHARE
            """, [.byteStrings(hashes.map(\.bytes))], prepared: "keys")
    }

    /// Claims what the key's state and what is forgotten permit; ``decide(_:_:)`` compares that with the rules.
    private func insertion(of candidates: [Release]) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            INSERT INTO claim (transaction_id, public_key_hash, caller, reference_digest, content_digest, attempt,
                claimed_at, node)
            SELECT r.transaction_id, r.public_key_hash, r.caller, r.reference_digest, r.content_digest, r.attempt,
                r.claimed_at, $1
            FROM unnest($2::bytea[], $3::bytea[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bigint[],
                    $9::bigint[]) WITH ORDINALITY
                AS r (transaction_id, public_key_hash, caller, reference_digest, content_digest, attempt, claimed_at,
                    signed_at, position)
                JOIN merchant_key AS k ON k.public_key_hash = r.public_key_hash
                CROSS JOIN ledger_state AS s
            WHERE k.key_use = 'processing' AND (k.state = 'active' OR (k.state = 'deactivated' AND r.claimed_at < k.cut_off))
                AND (r.signed_at IS NULL OR s.forgotten_before IS NULL OR r.signed_at >= s.forgotten_before)
                AND (r.signed_at IS NULL OR s.restore_fence IS NULL OR r.signed_at >= s.restore_fence)
                AND s.held_since IS NULL AND s.system_identifier = $10 AND s.timeline = $11
            ORDER BY r.transaction_id, r.position
            ON CONFLICT (transaction_id) DO NOTHING RETURNING attempt
            """,
            [
                .text(node), .byteStrings(candidates.map(\.transactionId.bytes)),
                .byteStrings(candidates.map(\.publicKeyHash.bytes)), .texts(candidates.map(\.caller)),
                .byteStrings(candidates.map(\.referenceDigest)), .byteStrings(candidates.map(\.contentDigest)),
                .byteStrings(candidates.map(\.attempt)),
                .integers(candidates.map { StoredTime.milliseconds($0.at) }),
                .integers(candidates.map { $0.signedAt.map(StoredTime.milliseconds) }),
                .text(server?.systemIdentifier), .integer(server?.timeline),
            ], prepared: "claim")
    }

    /// Decides all, appends their records and adds to what the commit sends.
    ///
    /// - Parameter results: of ``opening``.
    /// - Returns: an answer for each, in their order.
    func decide(_ results: [PostgreSQLResult], _ transaction: PostgreSQLTransaction) throws -> [BatchedAnswer] {
        var claims = try BatchClaims(results, transaction, node: node, repeatFor: repeatFor)
        let answers = try writes.map { write -> BatchedAnswer in
            switch write {
            case .release(let release, var record):
                let verdict = try claims.decide(release)
                record?.outcome = verdict.outcome
                return .decided(
                    ReleaseDecision(
                        verdict: verdict, line: record.map(transaction.append),
                        isUsedUp: claims.isUsedUp(release, verdict)))
            case .countRefusedRepeat(let release):
                claims.countRefusedRepeat(release)
                return .counted(isUsedUp: claims.isUsedUp(release))
            case .signature(let signature, var record):
                let verdict = claims.decide(signature)
                record.outcome = verdict.outcome
                return .signed(SignatureDecision(verdict: verdict, line: transaction.append(record)))
            case .record(let record): return .recorded(transaction.append(record))
            case .probe:
                return .probed(isStandbyNamed: transaction.isStandbyNamed, isHeld: transaction.isHeld)
            }
        }
        try claims.close(transaction)
        return answers
    }
}

/// What a batch knows of keys and claims, and what it changes of them.
private struct BatchClaims {
    private let transaction: PostgreSQLTransaction
    private let repeatFor: Duration
    private var keys: [PublicKeyHash: KeyStanding] = [:]
    /// The attempts whose claims were inserted, until they are decided.
    private var won: Set<[UInt8]> = []
    private var claims: [TransactionIdentifier: Claim] = [:]
    /// Those that are repeated, with the time of the last repeat.
    private var repeated: [TransactionIdentifier: Int64] = [:]

    init(
        _ results: [PostgreSQLResult], _ transaction: PostgreSQLTransaction, node: String, repeatFor: Duration
    ) throws {
        self.transaction = transaction
        self.repeatFor = repeatFor
        for row in results.first?.rows ?? [] {
            let (hash, key) = try KeyStandingRow.read(row)
            keys[hash] = key
        }
        guard results.count == 3 else { return }
        for row in results[1].rows { won.insert(try row.bytes(0)) }
        for row in results[2].rows {
            let (transaction, claim) = try ClaimRow.read(row)
            claims[transaction] = claim
        }
    }

    mutating func decide(_ release: Release) throws -> ReleaseVerdict {
        let isWon = won.remove(release.attempt) != nil
        guard !transaction.isHeld else {
            try require(!isWon)
            return .held
        }
        guard keys[release.publicKeyHash]?.decrypts(at: release.at) == true else {
            try require(!isWon)
            return .keyNotActive
        }
        let refusal = release.refusalOfNew { transaction.limits }
        if isWon {
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

    /// - Parameter attempt: the one that is released; nil for one that is counted and refused, after which the last release
    ///   is the same as before.
    private mutating func countRepeat(_ release: Release, by attempt: [UInt8]?) {
        claims[release.transactionId]?.repeats += 1
        if let attempt { claims[release.transactionId]?.repeatAttempt = attempt }
        repeated[release.transactionId] = StoredTime.milliseconds(release.at)
    }

    func isUsedUp(_ release: Release) -> Bool { claims[release.transactionId]?.isUsedUp ?? false }

    func isUsedUp(_ release: Release, _ verdict: ReleaseVerdict) -> Bool {
        switch verdict {
        case .repeated: isUsedUp(release)
        case .repeatedTooOften: true
        case .released, .replayed, .releasedByOther, .keyNotActive, .forgotten, .beforeRestore, .held: false
        }
    }

    /// Adds the repeats to what the commit sends.
    func close(_ transaction: PostgreSQLTransaction) throws {
        // Every claim that was inserted is one that was decided.
        try require(won.isEmpty)
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

    /// The statement that inserts knows the rules too; where it and the rules disagree nothing is committed.
    private func require(_ holds: Bool) throws {
        guard holds else {
            throw LedgerFailure.unavailable(reason: "A claim was inserted that the rules do not permit: a defect.")
        }
    }
}
