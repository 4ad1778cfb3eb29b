// Moves a stopped host's ledger from its file into a database that several hosts share: `paytokenctl ledger move`.
//
// Guarantee: the node's records, claims, keys, approvals and audit keys are moved once and completely, and the file and
// the database never both serve. These are the steps. The process may be killed after any of them, and the next run
// continues from there:
//
//  1. Both sides are checked, and the file's chain is verified. Nothing is changed.
//  2. The database records that the node is being moved (`moved_ledger`), so no daemon takes its name there. The file
//     still serves.
//  3. Records and claims are copied, a thousand in a transaction. The file still serves; the next run copies what it
//     adds.
//  4. The file is marked (`SQLiteMoveMark`) and no longer serves. Until the database accepts the node, the move can be
//     cancelled, after which the file serves again.
//  5. One transaction copies everything else and accepts the node.
//  6. The file is marked as moved once that transaction is known to be safe.
//
// Where to start: `LedgerMove` below, then MoveDestination.swift and MoveAcceptance.swift; MovedFile.swift reads the
// file.

import AuditChain
import DatabaseKit
import Dispatch
import Foundation
import Ledger
public import PostgreSQLClient
import PostgreSQLLedger
import SQLiteLedger

/// Moves a stopped host's ledger from its file into a database. It logs in as the owner of the database's tables.
public struct LedgerMove: Sendable {
    /// The file's absolute path.
    public let path: String
    public let url: PostgreSQLURL
    public let passwordFile: String?
    /// This program's version, which the node's status shows until its daemon has started.
    public let version: String
    var faults = LedgerMoveFaults()

    /// - Parameter passwordFile: the file with the owner's password on one line. Nil to log in without a password, or
    ///   with one that libpq finds.
    public init(path: String, url: PostgreSQLURL, passwordFile: String?, version: String) {
        self.path = path
        self.url = url
        self.passwordFile = passwordFile
        self.version = version
    }

    public typealias Progress = @Sendable (LedgerMoveProgress) -> Void

    /// Checks both sides and reports what would be moved and what both sides have. Changes nothing.
    ///
    /// - Parameter progress: called on another thread.
    public func preview(_ progress: @escaping Progress = { _ in }) async throws(LedgerMoveError) -> LedgerMoveReport {
        try await blocking {
            let file = try fileToMove()
            let database = try MoveDestination(url, passwordFile: passwordFile)
            return try self.preview(file, database, progress).report
        }
    }

    /// Moves the ledger, or continues an interrupted move. Repeating a completed move changes nothing.
    public func carryOut(_ progress: @escaping Progress = { _ in }) async throws(LedgerMoveError) -> LedgerMoveReport {
        try await blocking { try move(progress) }
    }

    /// Cancels the move, after which the file serves again. This is possible until the database accepts the node.
    /// Repeating it changes nothing.
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

    /// Refuses a file that is being moved to another ledger, which may have accepted it.
    private func requireSame(_ file: MovedFile, _ database: MoveDestination) throws(LedgerMoveError) {
        guard let mark = file.mark, mark.identity != database.identity else { return }
        throw .elsewhere(path: path, server: mark.server)
    }

    /// Requires that everything in the database about this node is from this file and from this move.
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

    /// Returns true if the database has accepted exactly this marked file.
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

    /// Opens the file. Refuses a file whose restore is not accepted. Only the acceptance sets the fence for forgotten
    /// releases, and after a move no node would know that it is missing. Refuses an open renewal too: the nodes for which
    /// it waits would change.
    private func fileToMove() throws -> MovedFile {
        let file = try MovedFile(path: path)
        guard !file.awaitsAcceptance else { throw LedgerMoveError.restored(path: path) }
        if file.mark == nil, let merchant = try file.merchantOfOpenRenewal() {
            throw LedgerMoveError.openRenewal(path: path, merchant: merchant)
        }
        return file
    }

    private func move(_ progress: Progress) throws -> LedgerMoveReport {
        let (file, database) = (try fileToMove(), try MoveDestination(url, passwordFile: passwordFile))
        var (report, _, head) = try preview(file, database, progress)
        let node = file.node
        try faults.reached(.checked)
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

    /// Copies all audit checkpoints each time, since records copied by an earlier run may have been sealed since.
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
