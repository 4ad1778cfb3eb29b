import AccessControl
import AuditChain
import Foundation
import Ledger
import Refusals
import Synchronization

/// Counts refusals that are not recorded individually: those before a request was read completely, and, above a rate,
/// those of an authorized caller for which no key was used.
///
/// A flood of any size becomes one record per uid and minute, or one per rule if the groups of a uid's processes match
/// several rules. Among the accounts that one rule admits by a group, or that no rule admits, ``maximumUnnamed`` have
/// their own records in a minute. All others share one, since an account can have thousands of uids (subuid(5)).
final class RefusalTally: Sendable {
    /// The number of recorded refusals without use of a key, per caller and minute. A backend that forwards everything
    /// it receives stays below this in quiet times, so that each refusal is found by its transaction.
    static let maximumRecorded = 60
    /// The maximum number of uids that get their own records in a minute. It applies separately to the accounts that
    /// one rule admits by a group, and to those that no rule admits.
    static let maximumUnnamed = 8

    private static let countedIn: Set<AuditEvent.Name> = [.request, .decrypt, .verify]

    private struct Bucket: Hashable {
        /// The start of the minute, in seconds since 1970.
        let minute: Int
        /// The peer's uid; nil for the accounts without their own bucket.
        let uid: UInt32?
        /// The rule's name; nil if no rule matched.
        let name: String?
    }

    private struct Count {
        /// The peer whose refusals are counted; nil for the accounts without their own bucket.
        let peer: PeerCredentials?
        let unnamed: UnnamedAccounts?
        var codes: [RefusalCode: Int] = [:]
    }

    /// The present minute's counts by the name that the rule gives the caller; many uids can share it.
    private struct Recorded {
        var minute = 0
        var callers: [String: Int] = [:]
    }

    private let counts = Mutex<[Bucket: Count]>([:])
    private let recorded = Mutex(Recorded())
    private let clock: WallClock

    init(clock: WallClock) {
        self.clock = clock
    }

    /// - Parameter caller: the peer's caller if a rule matched and did not permit the request; otherwise nil.
    func count(_ code: RefusalCode, of peer: PeerCredentials, as caller: Caller?) {
        let minute = Int(clock.now().timeIntervalSince1970 / 60) * 60
        let unnamed = caller.map(\.unnamedAccounts) ?? .unmatched
        counts.withLock { counts in
            var bucket = Bucket(minute: minute, uid: peer.uid, name: caller?.name)
            var count = counts[bucket] ?? Count(peer: peer, unnamed: unnamed)
            if let unnamed, counts[bucket] == nil,
                counts.count(where: { $0.key.minute == minute && $0.value.unnamed == unnamed }) >= Self.maximumUnnamed
            {
                bucket = Bucket(minute: minute, uid: nil, name: nil)
                count = counts[bucket] ?? Count(peer: nil, unnamed: nil)
            }
            count.codes[code, default: 0] += 1
            counts[bucket] = count
        }
    }

    /// Counts a refusal of an authorized caller, instead of recording it, if no key was used for it and
    /// ``maximumRecorded`` such refusals of this caller are already recorded in this minute. Without the limit, a
    /// caller with a single payment token from Apple, even an old one, could cause any number of records.
    ///
    /// - Parameter facts: the facts that are known about the request.
    /// - Returns: true if it was counted, and must not be recorded individually.
    func counts(_ code: RefusalCode, of facts: AuditDraft.Facts, by caller: Caller) -> Bool {
        // Every failed decryption has the same answer, including its place in the record, whether a key was used or
        // not.
        guard facts.hsmToken == nil, !facts.mayHaveReachedHSM, code != .decryptionFailed,
            Self.countedIn.contains(facts.event.name)
        else { return false }
        let minute = Int(clock.now().timeIntervalSince1970 / 60)
        let isRecorded = recorded.withLock { recorded in
            if recorded.minute != minute { recorded = Recorded(minute: minute) }
            recorded.callers[caller.name, default: 0] += 1
            return recorded.callers[caller.name, default: 0] <= Self.maximumRecorded
        }
        guard !isRecorded else { return false }
        count(code, of: caller.peer, as: caller)
        return true
    }

    /// Removes and returns the counts of minutes that have ended.
    ///
    /// - Parameter all: true to include the present minute, when the daemon stops.
    func take(all: Bool = false) -> [AuditRecord] {
        let now = clock.now()
        let present = Int(now.timeIntervalSince1970 / 60) * 60
        let taken = counts.withLock { counts in
            let ended = counts.filter { all || $0.key.minute != present }
            for bucket in ended.keys { counts[bucket] = nil }
            return ended
        }
        return taken.sorted {
            ($0.key.minute, $0.key.uid ?? .max, $0.key.name ?? "")
                < ($1.key.minute, $1.key.uid ?? .max, $1.key.name ?? "")
        }.compactMap { bucket, count in
            let since = AuditTime(Date(timeIntervalSince1970: Double(bucket.minute)))
            guard let summary = RefusalSummary(since: since, counts: count.codes) else { return nil }
            // Omits the process: the refusals may come from several processes of this uid.
            let caller = count.peer.map { peer in
                AuditCaller(name: bucket.name.map { AuditText($0) }, uid: peer.uid, gid: peer.gid)
            }
            return AuditRecord(time: AuditTime(now), refusals: summary, caller: caller)
        }
    }
}

/// Writes the counts of ended minutes into the record.
struct RefusalSummaries: Sendable {
    let tally: RefusalTally
    let ledger: any Ledger

    func start() -> Task<Void, Never> {
        Task.repeating(every: .seconds(5)) { for auditRecord in tally.take() { ledger.note(auditRecord) } }
    }

    /// Writes the remaining counts when the daemon stops.
    func finish() async {
        for auditRecord in tally.take(all: true) {
            do throws(LedgerFailure) {
                _ = try await ledger.append(auditRecord)
            } catch {
                // The ledger's fault was logged. The remaining summaries are lost with this process: writing each would
                // take as long, without success.
                return
            }
        }
    }
}
