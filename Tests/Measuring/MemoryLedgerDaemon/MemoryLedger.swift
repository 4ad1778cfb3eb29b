import AuditChain
import Daemon
import Foundation
import Ledger
import Locks
import MerchantKeys
import PaymentToken

/// Runs the unchanged paytokend with a ledger in memory. `scripts/bench` compares its performance with the durable
/// ledger's.
///
///     paytokend-memory-ledger CONFIGURATION
@main
struct MemoryLedgerDaemon {
    static func main() async {
        guard CommandLine.arguments.count == 2 else {
            FileHandle.standardError.write(Data("usage: paytokend-memory-ledger CONFIGURATION\n".utf8))
            exit(64)
        }
        let status = await DaemonProgram.run(configurationFile: CommandLine.arguments[1], ledger: MemoryLedger())
        exit(status.rawValue)
    }
}

/// A ledger that keeps claims and keys in memory, and has no audit record. It decides as the durable ledger does, but
/// loses all claims at a restart, so it is not for production.
final class MemoryLedger: SingleNodeLedger {
    private struct Claim {
        let caller: String
        let referenceDigest: [UInt8]?
        let contentDigest: [UInt8]
        let publicKeyHash: PublicKeyHash
        let at: Date
        var repeats = 0
        /// The attempt of the last release.
        var attempt: AttemptName?
    }

    private struct State {
        var claims: [TransactionIdentifier: Claim] = [:]
        var keys: [PublicKeyHash: KeyRecord] = [:]
        var auditKeys: [StoredAuditKey] = []
        var sequence = 0
    }

    let node = "memory"
    let engine = "memory"
    let schemaVersion = 0
    let nodeState = SingleNodeState()
    let releasesUnderWay = ReleasesUnderWay()
    private let state = Mutex(State())

    // MARK: Claims

    func release(_ release: Release, recording record: AuditRecord?) async throws(LedgerFailure) -> RecordedVerdict {
        state.withLock { state in
            state.sequence += 1
            return RecordedVerdict(Self.decide(release, &state), sequence: state.sequence)
        }
    }

    private static func decide(_ release: Release, _ state: inout State) -> ReleaseVerdict {
        guard let key = state.keys[release.publicKeyHash], key.use == release.wallet.keyUse, key.serves(at: release.at)
        else {
            return .keyNotActive
        }
        let claim = Claim(
            caller: release.caller, referenceDigest: release.referenceDigest, contentDigest: release.contentDigest,
            publicKeyHash: release.publicKeyHash, at: release.at, attempt: release.named?.name)
        guard let known = state.claims[release.transactionId] else {
            guard release.allowsFirstRelease else { return .replayed }
            state.claims[release.transactionId] = claim
            return .released
        }
        switch repeatability(of: release, known) {
        case .no, .unclaimed: return .replayed
        case .tooOften: return .repeatedTooOften
        case .byOther: return .releasedByOther
        case .yes:
            state.claims[release.transactionId]?.repeats += 1
            state.claims[release.transactionId]?.attempt = release.named?.name
            return .repeated
        }
    }

    private static func repeatability(of release: Release, _ known: Claim) -> Repeatability {
        guard isRepeat(release, of: known) else { return .no }
        if let named = release.named, !(known.attempt.map(named.after.contains) ?? false) { return .byOther }
        return known.repeats < Release.maximumRepeats ? .yes : .tooOften
    }

    private static func isRepeat(_ release: Release, of known: Claim) -> Bool {
        release.referenceDigest != nil && release.referenceDigest == known.referenceDigest
            && release.caller == known.caller && release.contentDigest == known.contentDigest
    }

    func wouldRepeat(_ release: Release) async throws(LedgerFailure) -> Repeatability {
        state.withLock { state in
            state.claims[release.transactionId].map { Self.repeatability(of: release, $0) } ?? .unclaimed
        }
    }

    func isUsedUp(_ transaction: TransactionIdentifier) -> Bool {
        state.withLock { $0.claims[transaction].map { $0.repeats >= Release.maximumRepeats } ?? false }
    }

    func countRefusedRepeat(_ release: Release) async throws(LedgerFailure) {
        state.withLock { state in
            guard let known = state.claims[release.transactionId], Self.repeatability(of: release, known) == .yes else {
                return
            }
            state.claims[release.transactionId]?.repeats += 1
        }
    }

    func record(
        _ signature: SignatureUse, recording record: AuditRecord
    ) async throws(LedgerFailure) -> RecordedSignature {
        state.withLock { state in
            state.sequence += 1
            let key = state.keys[signature.publicKeyHash]
            let signs = key?.use == signature.use && key?.serves(at: signature.at) == true
            return RecordedSignature(signs ? .granted : .keyNotActive, sequence: state.sequence)
        }
    }

    func usage(since time: Date) async throws(LedgerFailure) -> [PublicKeyHash: KeyUses] {
        state.withLock { state in
            state.claims.values.filter { $0.at >= time }.reduce(into: [:]) { usage, claim in
                var one = usage[claim.publicKeyHash] ?? KeyUses()
                one.count += 1
                one.last = max(one.last ?? claim.at, claim.at)
                usage[claim.publicKeyHash] = one
            }
        }
    }

    func proofs(of key: PublicKeyHash, since time: Date) async throws(LedgerFailure) -> [KeyProof] { [] }

    func renewals(of merchant: String) async throws(LedgerFailure) -> [StoredRenewal] { [] }

    func openRenewals() async throws(LedgerFailure) -> [StoredRenewal] { [] }

    func nodes(
        _ nodes: Set<String>, releasedWith key: PublicKeyHash, since time: Date
    ) async throws(LedgerFailure) -> Set<String> { [] }

    func lastUse(
        of key: PublicKeyHash, since time: Date, before end: Date?
    ) async throws(LedgerFailure) -> Date? {
        state.withLock { state in
            state.claims.values.filter { $0.publicKeyHash == key && $0.at >= time && $0.at < end ?? .distantFuture }
                .map(\.at).max()
        }
    }

    func prune(_ retention: ClaimRetention, now: Date) async throws(LedgerFailure) -> ClaimPruningOutcome {
        .pruned(count: 0, before: now)
    }

    func times() async throws(LedgerFailure) -> LedgerTimes { LedgerTimes() }

    func newestRelease() async throws(LedgerFailure) -> Date? { nil }

    func newestConfirmedTime() async throws(LedgerFailure) -> Date? { nil }

    // MARK: Keys

    func keyRecords() async throws(LedgerFailure) -> [KeyRecord] { state.withLock { Array($0.keys.values) } }

    func keyRecord(_ hash: PublicKeyHash) async throws(LedgerFailure) -> KeyRecord? { state.withLock { $0.keys[hash] } }

    func apply(_ change: AdministrativeChange) async throws(LedgerFailure) -> [Int] {
        state.withLock { state in
            if let auditKey = change.auditKey { state.auditKeys.append(auditKey) }
            if let key = change.key { state.keys[key.publicKeyHash] = key }
            for further in change.furtherKeys { state.keys[further.key.publicKeyHash] = further.key }
            return (change.records + change.furtherKeys.map(\.record)).map { _ in
                state.sequence += 1
                return state.sequence
            }
        }
    }

    func approvals(limit: Int) async throws(LedgerFailure) -> [Approval] { [] }

    func approval(_ identifier: ApprovalIdentifier) async throws(LedgerFailure) -> Approval? { nil }

    func expireApprovals(now: Date) async throws(LedgerFailure) -> Int { 0 }

    func forgetApprovals(expiredBefore time: Date, keeping count: Int) async throws(LedgerFailure) -> Int { 0 }

    func auditKeys() async throws(LedgerFailure) -> [StoredAuditKey] { state.withLock { $0.auditKeys } }

    func planAuditKey(identifier: [UInt8], in hsmToken: String?) async throws(LedgerFailure) {
        state.withLock { $0.auditKeys = [StoredAuditKey(identifier: identifier, publicKey: nil, hsmToken: hsmToken)] }
    }

    func update(auditKey identifier: [UInt8], foundIn hsmToken: String) async throws(LedgerFailure) {}

    func confirmAuditKey(
        identifier: [UInt8], publicKey: [UInt8], recording record: AuditRecord?
    ) async throws(LedgerFailure) -> Int? {
        state.withLock { $0.auditKeys = [StoredAuditKey(identifier: identifier, publicKey: publicKey)] }
        return nil
    }

    // MARK: Unrecorded

    func append(_ record: AuditRecord) async throws(LedgerFailure) -> Int {
        state.withLock { state in
            state.sequence += 1
            return state.sequence
        }
    }

    func note(_ record: AuditRecord) {}

    func head() async throws(LedgerFailure) -> ChainHead {
        guard let node = AuditNode(node) else { throw .unavailable(reason: "the node has no valid name") }
        return ChainHead(node: node)
    }

    func records(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int
    ) async throws(LedgerFailure) -> AuditPage { throw Self.noRecord }

    func extent(since: AuditTime?, until: AuditTime?) async throws(LedgerFailure) -> ClosedRange<Int>? { nil }

    func lines(_ sequences: ClosedRange<Int>, limit: Int) async throws(LedgerFailure) -> [StoredLine] { [] }

    func firstReleases(in sequences: ClosedRange<Int>) async throws(LedgerFailure) -> [UInt32: AuditTime] { [:] }

    func insert(_ checkpoint: SignedCheckpoint) async throws(LedgerFailure) {}

    func lastArchive() async throws(LedgerFailure) -> RecordArchive? { nil }

    func unsealedArchive() async throws(LedgerFailure) -> RecordArchive? { nil }

    func removeArchivedRecords(limit: Int) async throws(LedgerFailure) -> Int { 0 }

    func latestCheckpoint(below limit: Int?) async throws(LedgerFailure) -> SignedCheckpoint? { nil }

    func firstCheckpoint(from sequence: Int) async throws(LedgerFailure) -> SignedCheckpoint? { nil }

    func checkpoints(after sequence: Int, limit: Int) async throws(LedgerFailure) -> [SignedCheckpoint] { [] }

    func probe() async throws(LedgerFailure) {}

    func backup(to path: String) async throws(LedgerBackupError) -> BackupFile {
        throw .unavailable(reason: "a ledger in memory has no copy")
    }

    func close() async {}

    private static let noRecord = LedgerFailure.unavailable(reason: "a ledger in memory keeps no record")
}
