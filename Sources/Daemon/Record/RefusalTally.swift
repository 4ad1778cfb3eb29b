import AccessControl
import AuditChain
import Foundation
import Ledger
import Refusals
import Synchronization

/// Counts refusals that are not recorded one by one: those before a request was read whole, and, beyond a rate, an authorised caller's
/// of what can be made without Apple's signature. A flood becomes one record a uid and minute, whatever its size. One for
/// each rule, where the groups of a uid's processes match several.
final class RefusalTally: Sendable {
    /// Of each caller's forgeries in a minute. A backend that passes on what anybody sends it stays below this in quiet times, so that
    /// each is found by its transaction.
    static let mostRecorded = 60

    /// What a refusal says of a request for which no payment token of Apple's is needed.
    private static let forgeable: Set<RefusalCode> = [
        .malformedRequest, .malformedToken, .unsupportedVersion, .signatureInvalid, .certificateUntrusted,
        .markerOIDMissing,
    ]
    private static let forgeableIn: Set<AuditEvent.Name> = [.request, .decrypt, .verify]

    private struct Bucket: Hashable {
        /// Seconds since 1970, a whole minute's.
        let minute: Int
        let uid: UInt32
        /// The rule's; nil where none matched.
        let name: String?
    }

    private struct Count {
        let peer: PeerCredentials
        var codes: [RefusalCode: Int]
    }

    /// A caller's minute, by the name that the rule gives it: many uids can have one.
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

    /// - Parameter name: the caller's name where a rule matched, and did not give what was asked for.
    func count(_ code: RefusalCode, of peer: PeerCredentials, name: String?) {
        let minute = Int(clock.now().timeIntervalSince1970 / 60) * 60
        counts.withLock {
            $0[Bucket(minute: minute, uid: peer.uid, name: name), default: Count(peer: peer, codes: [:])]
                .codes[code, default: 0] += 1
        }
    }

    /// Counts a refusal of an authorised caller if its records of forgeries are too many in this minute.
    ///
    /// - Parameter facts: what is known of the request.
    /// - Returns: true if it was counted, and is not to be recorded by itself.
    func counts(_ code: RefusalCode, of facts: AuditDraft.Facts, by caller: Caller) -> Bool {
        // A caller that leaves before its payment token was read needs none.
        let isUnread = code == .deadlineExceeded && facts.transactionId == nil
        guard isUnread || Self.forgeable.contains(code), Self.forgeableIn.contains(facts.event.name) else {
            return false
        }
        let minute = Int(clock.now().timeIntervalSince1970 / 60)
        let isRecorded = recorded.withLock { recorded in
            if recorded.minute != minute { recorded = Recorded(minute: minute) }
            recorded.callers[caller.name, default: 0] += 1
            return recorded.callers[caller.name, default: 0] <= Self.mostRecorded
        }
        guard !isRecorded else { return false }
        count(code, of: caller.peer, name: caller.name)
        return true
    }

    /// Takes what was counted in minutes that have ended.
    ///
    /// - Parameter all: the present minute too, when the daemon stops.
    func take(all: Bool = false) -> [AuditRecord] {
        let now = clock.now()
        let present = Int(now.timeIntervalSince1970 / 60) * 60
        let taken = counts.withLock { counts in
            let ended = counts.filter { all || $0.key.minute != present }
            for bucket in ended.keys { counts[bucket] = nil }
            return ended
        }
        return taken.sorted {
            ($0.key.minute, $0.key.uid, $0.key.name ?? "") < ($1.key.minute, $1.key.uid, $1.key.name ?? "")
        }.compactMap { bucket, count in
            let since = AuditTime(Date(timeIntervalSince1970: Double(bucket.minute)))
            guard let summary = RefusalSummary(since: since, counts: count.codes) else { return nil }
            // No process is named: many of one uid may have been refused.
            let caller = AuditCaller(
                name: bucket.name.map { AuditText($0) }, uid: count.peer.uid, gid: count.peer.gid)
            return AuditRecord(time: AuditTime(now), refusals: summary, caller: caller)
        }
    }
}

/// Writes the minutes that have ended into the record.
struct RefusalSummaries: Sendable {
    let tally: RefusalTally
    let ledger: any Ledger

    func start() -> Task<Void, Never> {
        Task.repeating(every: .seconds(5)) { for auditRecord in tally.take() { ledger.note(auditRecord) } }
    }

    /// When the daemon stops: the rest.
    func finish() async {
        for auditRecord in tally.take(all: true) {
            do throws(LedgerFailure) {
                _ = try await ledger.append(auditRecord)
            } catch {
                // The ledger's fault was logged. The remaining summaries are lost with this process: each would wait as
                // long, and in vain.
                return
            }
        }
    }
}
