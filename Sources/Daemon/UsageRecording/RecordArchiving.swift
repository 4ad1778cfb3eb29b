import AuditChain
package import DaemonConfiguration
import Foundation
package import Ledger
import Locks
package import Logging
import Refusals
package import Telemetry

/// Moves records that are older than `ledger.retain_records` out of the ledger into files, always up to the end of a UTC
/// month.
///
/// The order of the steps makes it safe if the process ends after any of them. The file is written, synchronized to
/// disk, read back and verified. Then the archive is recorded, and an audit checkpoint seals that record. Only then are
/// the records removed, and only while the file has its recorded content. The next run continues where the last one
/// ended.
package final class RecordArchiving: Sendable {
    /// The number of records that one transaction removes. It is small, so that releases can be committed in between.
    private static let stepSize = 200
    private static let pause = Duration.seconds(3600)

    private let settings: LedgerSettings.Archive
    private let ledger: any Ledger
    private let gate: LedgerGate
    private let checkpoints: any CheckpointSealing
    private let auditKeysOfOthers: OtherNodesAuditKeys
    private let clock: WallClock
    private let logger: Logger
    private let fault = Mutex<String?>(nil)
    /// The time since a run last succeeded. A run also succeeds if there are no old records to archive.
    package let age: Stopwatch

    /// Returns nil if `settings` is nil, since the ledger then keeps all records.
    package init?(
        _ settings: LedgerSettings.Archive?, ledger: any Ledger, gate: LedgerGate, checkpoints: any CheckpointSealing,
        auditKeysOfOthers: OtherNodesAuditKeys, clock: WallClock, logger: Logger, age: Stopwatch = Stopwatch()
    ) {
        guard let settings else { return nil }
        self.settings = settings
        self.ledger = ledger
        self.gate = gate
        self.checkpoints = checkpoints
        self.auditKeysOfOthers = auditKeysOfOthers
        self.clock = clock
        self.logger = logger
        self.age = age
    }

    package func start() -> Task<Void, Never> {
        Task.repeating(every: Self.pause) { [gate] in
            // At the daemon's start, the first run waits until ledger and HSM token have been compared.
            while gate.position == .waiting, !Task.isCancelled { try? await Task.sleep(for: .seconds(1)) }
            await self.run()
        }
    }

    /// A sentence for `status` if old records cannot be archived or removed; else empty.
    package var warnings: [String] {
        guard let fault = fault.withLock(\.self) else { return [] }
        return ["Old records cannot be archived and stay in the ledger: \(fault)."]
    }

    func run() async {
        // A ledger that has not been compared, or is on hold, may be an older copy. Its records must not be removed.
        guard gate.position == .open, let node = AuditNode(ledger.node) else { return }
        do {
            if try await ledger.unsealedArchive() != nil { try await checkpoints.seal() }
            try await removeArchived(node)
            if try await archive(node) { try await removeArchived(node) }
            fault.withLock { $0 = nil }
            age.restart()
        } catch is CancellationError {
            // Stopping the daemon cancels the archiving, which continues after the next start.
        } catch {
            let reason =
                switch error {
                case let error as ArchiveFailure: error.description
                case let error as LedgerFailure: error.description
                case let error as Refusal: error.message
                default: "an unexpected failure"
                }
            fault.withLock { $0 = reason }
            logger.error(
                "old records were not archived; the next attempt is in an hour", metadata: ["reason": "\(reason)"])
        }
    }

    /// Writes the next archive, if there are enough old records.
    /// - Returns: true if there is a new archive, which is sealed.
    private func archive(_ node: AuditNode) async throws -> Bool {
        let now = clock.now()
        let first = (try await ledger.lastArchive()?.last ?? 0) + 1
        // The claims are searched only if records are old enough by the clock.
        guard let oldest = try await ledger.checkpoints(after: first - 1, limit: 1).first,
            oldest.checkpoint.time < settings.cutOff(at: now, confirmed: now)
        else { return false }
        guard let confirmed = try await ledger.newestConfirmedTime() else {
            throw ArchiveFailure.clockUnconfirmed(now: AuditTime(now))
        }
        let cutOff = settings.cutOff(at: now, confirmed: confirmed)
        guard let last = try await lastCheckpoint(from: first, before: cutOff) else { return false }
        try await ArchiveFile.prepare(settings.directory)
        let draft = ArchiveFile(directory: settings.directory, name: "\(node.name).\(first)")
        let pages = ledger.export(from: first, through: last)
        do {
            guard let end = try await draft.write(pages, first: first, olderThan: cutOff) else { return false }
            let keys = CheckpointKeys(
                try await ledger.auditKeys().compactMap { $0.publicKey.flatMap(CheckpointKey.init(stored:)) })
            let archive = try await draft.verify(from: first, to: end, of: node, keys: keys)
            try await draft.publish(archive, as: archive.fileName(of: node))
            try await auditKeysOfOthers.recordTrustedKeysAgain()
            var change = AdministrativeChange(at: now, records: [])
            change.archive = archive
            try await ledger.apply(change)
            try await checkpoints.seal()
            logger.notice(
                "old records were archived",
                metadata: [
                    "file": "\(archive.fileName(of: node))", "first": "\(archive.first)", "last": "\(archive.last)",
                    "file.sha256": "\(archive.digest.hex)",
                ])
            return true
        } catch {
            await draft.discard()
            throw error
        }
    }

    /// Returns the sequence of the last audit checkpoint that seals record `first` and was made before `cutOff`; nil if
    /// there is none. The search ends at the first audit checkpoint that was made at `cutOff` or later, even if the clock
    /// was set back after it.
    private func lastCheckpoint(from first: Int, before cutOff: AuditTime) async throws(LedgerFailure) -> Int? {
        var last: Int?
        var position = first - 1
        while true {
            let page = try await ledger.checkpoints(after: position, limit: 1000)
            for signed in page {
                guard signed.checkpoint.time < cutOff else { return last }
                last = signed.checkpoint.sequence
            }
            guard let end = page.last?.checkpoint.sequence else { return last }
            position = end
        }
    }

    private func removeArchived(_ node: AuditNode) async throws {
        guard let archive = try await ledger.lastArchive() else { return }
        // As long as the first record is in the ledger, no record of the archive has been removed. The file must then
        // exist with its recorded content. After that, the operator may have moved the file to another place.
        if try await !ledger.lines(archive.first...archive.first, limit: 1).isEmpty, archive.first < archive.last {
            let file = ArchiveFile(directory: settings.directory, name: archive.fileName(of: node))
            try await file.require(archive)
        }
        var removed = 0
        while true {
            let began = ContinuousClock.now
            let count = try await ledger.removeArchivedRecords(limit: Self.stepSize)
            guard count > 0 else { break }
            removed += count
            // Removing many records can take hours. Without this call, the metric would report the long removal as a
            // failure.
            age.restart()
            // The ledger's writer commits releases during this pause. The removal is not urgent, so the pause is twice
            // as long as the step.
            try await Task.sleep(for: began.duration(to: .now) * 2)
        }
        if removed > 0 { logger.info("archived records were removed", metadata: ["records": "\(removed)"]) }
    }
}

extension LedgerSettings.Archive {
    /// Returns the time at which the kept records begin: the first day of a UTC month, since whole months are archived.
    ///
    /// - Parameters:
    ///   - now: the time of the daemon's clock, which may be wrong.
    ///   - confirmed: the time of the newest claim of Apple Pay. It limits the effect of a clock that is ahead
    ///     (``ClaimRetention/longestLead``).
    func cutOff(at now: Date, confirmed: Date) -> AuditTime {
        let lead = Double(ClaimRetention.longestLead.components.seconds)
        let present = min(now, confirmed.addingTimeInterval(lead))
        let oldest = AuditTime(present.addingTimeInterval(-Double(retain.components.seconds)))
        return AuditTime(rfc3339: oldest.text.prefix(7) + "-01T00:00:00Z") ?? .earliest
    }
}
