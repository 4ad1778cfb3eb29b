package import AccessControl
import AuditChain
package import DaemonConfiguration
import Foundation
package import Ledger
import Locks
package import Refusals

/// Counts the refusals that get no record of their own. Some of them happened before a request was read completely. The
/// others are refusals of an authorized caller that used no key, beyond ``maximumRecorded`` in a minute.
///
/// A flood of any size becomes one record for each uid and minute. If processes of one uid have different groups,
/// different rules may match them. The uid then has a record for each rule. Accounts that a rule admits by a group
/// alone, or that no rule admits, are limited to ``maximumUnnamed`` such records in a minute. The uids beyond this
/// limit share one record, since one account can have thousands of uids (subuid(5)).
package final class RefusalTally: Sendable {
    /// The maximum number of refusals without use of a key that get their own records, for each caller and minute. In
    /// quiet times, a backend that forwards every payment token stays below this limit, so that each refusal can be
    /// found by its transaction.
    static let maximumRecorded = 60
    /// The maximum number of uids that get their own record in a minute. It applies separately to the accounts that each
    /// rule admits by a group alone, and to those that no rule admits.
    static let maximumUnnamed = 8

    private static let countedIn: Set<AuditEvent.Name> = [.request, .decrypt, .verify]

    private struct Bucket: Hashable {
        /// The start of the minute in which the refusals are counted, in seconds since 1970.
        let minute: Int
        /// The uid of the refused peer; nil for the peers that share one record.
        let uid: UInt32?
        /// The name of the access rule that matched the peer; nil if no rule matched.
        let name: String?
    }

    private struct Count {
        /// The peer whose refusals are counted; nil for the peers that share one record.
        let peer: PeerCredentials?
        let unnamed: UnnamedAccounts?
        var codes: [RefusalCode: Int] = [:]
    }

    /// The number of refusals in the current minute that used no key, by the caller's name. Uids with the same name
    /// share one number.
    private struct Recorded {
        var minute = 0
        var callers: [String: Int] = [:]
    }

    private let counts = Mutex<[Bucket: Count]>([:])
    private let recorded = Mutex(Recorded())
    private let clock: WallClock

    package init(clock: WallClock) {
        self.clock = clock
    }

    /// Counts a refusal.
    /// - Parameter caller: the peer's caller; nil if no rule matched the peer.
    package func count(_ code: RefusalCode, of peer: PeerCredentials, as caller: Caller?) {
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

    /// Counts a refusal of an authorized caller, if the request used no key and ``maximumRecorded`` such refusals of this
    /// caller already have records in this minute. Without this limit, a caller with one payment token from Apple, even an
    /// old one, could cause any number of records.
    ///
    /// - Parameter facts: the facts that are known about the request.
    /// - Returns: true if the refusal was counted. It must then not be recorded.
    func counts(_ code: RefusalCode, of facts: AuditDraft.RequestFacts, by caller: Caller) -> Bool {
        // Every failed decryption gets a record. Otherwise a missing audit reference in the answer would tell the caller
        // that no key was used.
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

    /// Returns the summaries of the minutes that have ended, and removes their counts.
    ///
    /// - Parameter all: true to include the current minute, which the daemon needs when it stops.
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
            // The process is left out, since several processes of this uid may have caused the refusals.
            let caller = count.peer.map { peer in
                AuditCaller(name: bucket.name.map { AuditText($0) }, uid: peer.uid, gid: peer.gid)
            }
            return AuditRecord(time: AuditTime(now), refusals: summary, caller: caller)
        }
    }
}

/// Writes the summaries of the refusals into the record when their minute has ended.
package struct RefusalSummaries: Sendable {
    let tally: RefusalTally
    let ledger: any Ledger

    package init(tally: RefusalTally, ledger: any Ledger) { (self.tally, self.ledger) = (tally, ledger) }

    package func start() -> Task<Void, Never> {
        Task.repeating(every: .seconds(5)) { for auditRecord in tally.take() { ledger.note(auditRecord) } }
    }

    /// Writes the summaries of all counted refusals when the daemon stops, including the current minute.
    package func finish() async {
        for auditRecord in tally.take(all: true) {
            do throws(LedgerFailure) {
                _ = try await ledger.append(auditRecord)
            } catch {
                // The ledger has logged its fault. Each further summary would take as long and also fail, so the
                // remaining summaries are not written.
                return
            }
        }
    }
}
