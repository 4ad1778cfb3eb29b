import AuditChain
import Foundation
import Ledger
import Refusals
import Synchronization

/// Counts refusals before authorisation: a flood becomes one record a uid and minute, whatever its size.
final class RefusalTally: Sendable {
    private struct Bucket: Hashable {
        /// Seconds since 1970, a whole minute's.
        let minute: Int
        let uid: UInt32
    }

    private struct Count {
        let peer: PeerCredentials
        let name: String?
        var codes: [RefusalCode: Int]
    }

    private let counts = Mutex<[Bucket: Count]>([:])
    private let clock: WallClock

    init(clock: WallClock) {
        self.clock = clock
    }

    /// - Parameter name: the caller's name where a rule matched, and did not give what was asked for.
    func count(_ code: RefusalCode, of peer: PeerCredentials, name: String?) {
        let minute = Int(clock.now().timeIntervalSince1970 / 60) * 60
        counts.withLock {
            $0[Bucket(minute: minute, uid: peer.uid), default: Count(peer: peer, name: name, codes: [:])]
                .codes[code, default: 0] += 1
        }
    }

    /// Takes what was counted in minutes that are over.
    ///
    /// - Parameter all: the present minute too, when the daemon stops.
    func take(all: Bool = false) -> [AuditRecord] {
        let now = clock.now()
        let present = Int(now.timeIntervalSince1970 / 60) * 60
        let taken = counts.withLock { counts in
            let over = counts.filter { all || $0.key.minute != present }
            for bucket in over.keys { counts[bucket] = nil }
            return over
        }
        return taken.sorted { ($0.key.minute, $0.key.uid) < ($1.key.minute, $1.key.uid) }.compactMap { bucket, count in
            let since = AuditTime(Date(timeIntervalSince1970: Double(bucket.minute)))
            guard let summary = RefusalSummary(since: since, counts: count.codes) else { return nil }
            // Of many processes of one uid the first is named only where it stands for all.
            let caller = AuditCaller(
                name: count.name.map { AuditText($0) }, uid: count.peer.uid, gid: count.peer.gid)
            return AuditRecord(time: AuditTime(now), refusals: summary, caller: caller)
        }
    }
}

/// Writes the minutes that are over into the record.
struct RefusalSummaries: Sendable {
    let tally: RefusalTally
    let ledger: any Ledger

    func start() -> Task<Void, Never> {
        Task {
            while !Task.isCancelled {
                try? await Task.sleep(for: .seconds(5))
                for record in tally.take() { ledger.note(record) }
            }
        }
    }

    /// When the daemon stops: the rest.
    func finish() async {
        for record in tally.take(all: true) {
            do throws(LedgerFailure) {
                _ = try await ledger.append(record)
            } catch {
                // What cannot be written now is lost with the process; the ledger's own fault was logged. The rest would
                // wait as long, and in vain.
                return
            }
        }
    }
}
