// A stopped host's ledger on its way from its file into a database that several hosts share: `paytokenctl ledger move`.
//
// What it guarantees: the node's record, claims, keys, approvals and audit keys go over once and whole, and at no moment do both
// serve. The steps, each of which may be the last one that a process lives to see, and is found by the next:
//
//  1. Both sides are looked at, and the file's chain is verified. Nothing has changed.
//  2. The database notes that the node is being moved (`moved_ledger`): no daemon takes its name there. The file still serves.
//  3. Records and claims are copied, a thousand in a transaction. The file still serves; what it adds is copied by the next run.
//  4. The file is marked (`SQLiteMoveMark`). From here on it does not serve, unless it is taken back, which the database permits
//     only while it has not accepted the node.
//  5. One transaction brings all else and accepts the node.
//  6. The file is marked as moved, once that transaction is known to be safe.
//
// Where to start: `LedgerMove` below, then MoveDestination.swift and MoveAcceptance.swift; MovedFile.swift reads.

import AuditChain
import DatabaseKit
import Dispatch
import Foundation
public import PostgreSQLClient

/// Moves a stopped host's ledger out of its file into a database, with the account that owns the tables.
public struct LedgerMove: Sendable {
    /// Absolute.
    public let path: String
    public let url: PostgreSQLURL
    public let passwordFile: String?
    /// This program's version, which the nodes' status shows until the node's daemon has started.
    public let version: String
    var faults = LedgerMoveFaults()

    /// - Parameter passwordFile: holds the owner's password in one line; nil: authentication without one, or what libpq finds.
    public init(path: String, url: PostgreSQLURL, passwordFile: String?, version: String) {
        self.path = path
        self.url = url
        self.passwordFile = passwordFile
        self.version = version
    }

    public typealias Progress = @Sendable (LedgerMoveProgress) -> Void

    /// Looks at both sides: what would be moved, and what the two have both.
    ///
    /// - Parameter progress: called on another thread.
    public func preview(_ progress: @escaping Progress = { _ in }) async throws(LedgerMoveError) -> LedgerMoveReport {
        try await blocking {
            let file = try fileToMove()
            let database = try MoveDestination(url, passwordFile: passwordFile)
            return try self.preview(file, database, progress).report
        }
    }

    /// Moves it, or goes on with a move that broke off. Done once more it changes nothing.
    public func carryOut(_ progress: @escaping Progress = { _ in }) async throws(LedgerMoveError) -> LedgerMoveReport {
        try await blocking { try move(progress) }
    }

    /// Has the file serve again, as long as the database has not accepted it. Done once more it changes nothing.
    public func giveUp() async throws(LedgerMoveError) -> LedgerMoveReport {
        try await blocking {
            let (file, database) = (try MovedFile(path: path), try MoveDestination(url, passwordFile: passwordFile))
            try requireSame(file, database)
            var report = report(file, database)
            report.status = .givenUp
            guard file.mark?.state != .moved,
                try database.forget(file.node, { try requireOwn($0, file, database) })
            else { throw LedgerMoveError.accepted(path: path, server: database.server) }
            if file.mark != nil { try file.put(nil) }
            return report
        }
    }

    private func report(_ file: MovedFile, _ database: MoveDestination) -> LedgerMoveReport {
        var report = LedgerMoveReport(path: path, server: database.server, node: file.node.name)
        report.insecureSettings = database.insecureSettings
        return report
    }

    /// A file that is on its way to one ledger is not moved to another: that one may have accepted it.
    private func requireSame(_ file: MovedFile, _ database: MoveDestination) throws(LedgerMoveError) {
        guard let mark = file.mark, mark.identity != database.identity else { return }
        throw .elsewhere(path: path, server: mark.server)
    }

    /// What the database has of the node, if anything, must be from this file and of this very move.
    private func requireOwn(
        _ stored: MoveDestination.StoredNode, _ file: MovedFile, _ database: MoveDestination
    ) throws {
        let (node, server) = (file.node.name, database.server)
        guard !stored.isLeased else { throw LedgerMoveError.nodeInUse(node: node, server: server) }
        let isBeginning = stored.sequence == 0 && !stored.hasKeys
        guard isBeginning || stored.move?.isAccepted == false,
            try stored.hash == (stored.sequence == 0 ? nil : file.hash(of: stored.sequence)),
            stored.move?.isAccepted != true
        else { throw LedgerMoveError.nodeKnown(node: node, server: server) }
    }

    /// Whether the database has accepted just this file, as its mark asks.
    private func isAccepted(
        _ file: MovedFile, _ database: MoveDestination, _ stored: MoveDestination.StoredNode
    ) throws -> Bool {
        guard file.mark != nil, let move = stored.move, move.isAccepted else { return false }
        let head = try file.head()
        guard move.sequence == Int64(head.sequence), move.hash == head.hash.bytes else {
            throw LedgerMoveError.nodeKnown(node: file.node.name, server: database.server)
        }
        return true
    }

    private func preview(
        _ file: MovedFile, _ database: MoveDestination, _ progress: Progress
    ) throws -> (report: LedgerMoveReport, stored: MoveDestination.StoredNode, head: ChainHead) {
        try requireSame(file, database)
        var report = report(file, database)
        let (records, checkpoints, claims) = try file.counts()
        (report.records, report.checkpoints, report.claims) = (records, checkpoints, claims)
        (report.keys, report.approvals) = (try file.keys().count, try file.approvals().count)
        let (stored, head) = (try database.storedNode(of: file.node), try file.head())
        if try isAccepted(file, database, stored) {
            report.status = .moved
            return (report, stored, head)
        }
        if file.mark?.state == .moved { throw LedgerMoveError.elsewhere(path: path, server: database.server) }
        try requireOwn(stored, file, database)
        report.differingKeys = try database.merge(file.keys()).differing
        let (limits, own) = (try database.limits(), try file.times().limits)
        report.forgottenBefore = [limits.forgottenBefore, own.forgottenBefore].compactMap(\.self).max().map(
            StoredTime.date)
        report.restoreFence = [limits.restoreFence, own.restoreFence].compactMap(\.self).max().map(StoredTime.date)
        try file.verify(page: faults.page, reached: { progress(.verified(records: $0, of: records)) })
        try forEachPage(of: file) { page in
            report.claimsInBoth += try database.claimed(page, otherThan: file.node)
        }
        return (report, stored, head)
    }

    private func forEachPage(of file: MovedFile, _ body: ([any StoredRow]) throws -> Void) throws {
        var last: [UInt8] = []
        while case let page = try file.claims(after: last, limit: faults.page), let end = try page.last?.bytes(0) {
            try body(page)
            last = end
        }
    }

    /// What a restored file has forgotten is refused from its acceptance on. Moved before, nobody would know of it.
    private func fileToMove() throws -> MovedFile {
        let file = try MovedFile(path: path)
        guard !file.awaitsAcceptance else { throw LedgerMoveError.restored(path: path) }
        return file
    }

    private func move(_ progress: Progress) throws -> LedgerMoveReport {
        let (file, database) = (try fileToMove(), try MoveDestination(url, passwordFile: passwordFile))
        var (report, _, head) = try preview(file, database, progress)
        let node = file.node
        try faults.reached(.looked)
        if report.status == .moved {
            if file.mark?.state == .moving { try database.confirm(node) }
        } else {
            var end: Int64 = 0
            try database.begin(node) { stored in
                try requireOwn(stored, file, database)
                end = stored.sequence
            }
            try faults.reached(.begun)
            try copyRecords(of: file, to: database, behind: end, of: report.records, progress)
            try copyCheckpoints(of: file, to: database)
            var copied = 0
            try forEachPage(of: file) { page in
                try database.insert(claims: page, of: node)
                copied += page.count
                progress(.claims(copied, of: report.claims))
                try faults.reached(.claimsCopied)
            }
            if file.mark == nil {
                try file.put(
                    SQLiteMoveMark(state: .moving, identity: database.identity, server: database.server))
            }
            try faults.reached(.marked)
            report.differingKeys = try database.accept(file, head: head, version: version) {
                try faults.reached(.accepting)
            }
            report.status = .moved
        }
        try faults.reached(.accepted)
        if file.mark?.state != .moved {
            try file.put(SQLiteMoveMark(state: .moved, identity: database.identity, server: database.server))
        }
        try faults.reached(.done)
        return report
    }

    private func copyRecords(
        of file: MovedFile, to database: MoveDestination, behind start: Int64, of total: Int, _ progress: Progress
    ) throws {
        var last = start
        while case let records = try file.records(after: last, limit: faults.page), let end = records.last?.sequence {
            try database.insert(records, of: file.node)
            last = end
            progress(.copied(records: Int(end), of: total))
            try faults.reached(.recordsCopied)
        }
    }

    /// All of them, each time: a record that an earlier run has copied may have been sealed since.
    private func copyCheckpoints(of file: MovedFile, to database: MoveDestination) throws {
        var next: Int64 = 0
        while case let checkpoints = try file.checkpoints(next...Int64.max, limit: faults.page),
            let end = checkpoints.last?.sequence
        {
            try database.insert(checkpoints, of: file.node)
            next = end + 1
        }
    }

    // MARK: Threads and errors

    private func blocking<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) async throws(LedgerMoveError) -> Value {
        try await onThread { () throws(LedgerMoveError) in
            do {
                return try body()
            } catch let error as LedgerMoveError {
                throw error
            } catch let error as LedgerOpeningError {
                throw .database(error)
            } catch {
                throw .brokenOff(reason: LedgerFailure(error).description)
            }
        }
    }
}
