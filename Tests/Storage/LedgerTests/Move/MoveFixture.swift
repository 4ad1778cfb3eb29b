import AuditChain
import Foundation
import GRDB
import MerchantKeys
import PaymentToken
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import OfflineLedger
@testable import PostgreSQLLedger
@testable import SQLiteLedger

/// A stopped host's file with a sealed record, and a destination database.
struct MoveFixture: Sendable {
    let file: LedgerFixture
    let database: LedgerDatabase
    let signer = CheckpointSigner()
    /// The export of the file before the move: the lines of its records and audit checkpoints.
    let export: [UInt8]

    /// The error with which a test interrupts a move.
    struct Killed: Error {}

    /// Makes a file of node-1 with seven releases, sealed after the fourth and the last one, and with all other kinds
    /// of rows.
    ///
    /// - Parameter prepare: changes the ledger before it is closed.
    init(_ prepare: (any TestedLedger) async throws -> Void = { _ in }) async throws {
        file = try await LedgerFixture(engine: .sqlite)
        database = try await LedgerDatabases.shared.make()
        let ledger = file.ledger
        let identifier = [UInt8](repeating: 5, count: 16)
        try await ledger.planAuditKey(identifier: identifier, in: "primary")
        try await ledger.confirmAuditKey(
            identifier: identifier, publicKey: Array(signer.key.publicKey.x963Representation), recording: nil)
        for number in 1...7 {
            _ = try await file.releasing(number)(ledger)
            if number == 4 || number == 7 { try await signer.seal(ledger) }
        }
        try await prepare(ledger)
        export = try await Self.export(of: ledger)
        await ledger.close()
    }

    static func export(of ledger: any Ledger, through last: Int? = nil) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        for try await page in ledger.export(from: 1, through: last) { bytes += page.bytes }
        return bytes
    }

    var path: String { file.settings.path }

    /// - Parameters:
    ///   - url: the address to use instead of the database's own, with the owner's account.
    ///   - reached: called at each point of the move.
    func move(
        to url: PostgreSQLURL? = nil, _ reached: @escaping @Sendable (LedgerMoveMoment) throws -> Void = { _ in }
    ) throws -> LedgerMove {
        var move = LedgerMove(
            path: path, url: try url ?? database.url(as: LedgerDatabases.owner), passwordFile: nil, version: "1.2.3")
        move.faults = LedgerMoveFaults(reached: reached, page: 2)
        return move
    }

    /// Interrupts a move at this point, and leaves the state that a killed process would leave.
    func moveKilled(at moment: LedgerMoveMoment) async throws {
        let error = await #expect(throws: LedgerMoveError.self) {
            try await move { if $0 == moment { throw Killed() } }.carryOut()
        }
        guard case .brokenOff = error else { throw Killed() }
    }

    /// Opens the file as a daemon does.
    func openFile() async throws -> SQLiteLedger { try await SQLiteLedger.open(file.settings) }

    /// Opens the database as a node's daemon does.
    func openDatabase(as node: String = "node-1") async throws -> PostgreSQLLedger {
        try await PostgreSQLLedger.open(
            PostgreSQLLedger.Settings(
                url: try database.url(), node: node, repeatFor: .seconds(3600), timeout: .seconds(60)))
    }

    /// Runs SQL on the file without the ledger's code.
    func changeFile(_ sql: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.write { try $0.execute(sql: sql) }
        try queue.close()
    }

    /// The rows of all tables that a move writes, one row in each line.
    func rows() async throws -> [String] {
        var rows: [String] = []
        for table in ["audit_record", "checkpoint", "audit_key", "claim", "merchant_key", "approval", "hold"] {
            rows.append(
                try await database.sql("SELECT '\(table)', count(*), md5(string_agg(t::text, ',')) FROM \(table) t"))
        }
        // Only name, fence and version are compared, because a running daemon updates the other columns of its row.
        rows.append(try await database.sql("SELECT name, fence, version FROM node ORDER BY name"))
        return rows
    }

    /// Expects the result of a complete move: the node has the whole record exactly once, and continues it.
    func expectMoved(through last: Int = 7, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let moved = LedgerOpeningError.moved(path: path, server: try database.url().server, node: "node-1")
        await #expect(throws: moved, sourceLocation: sourceLocation) { try await openFile() }
        let ledger = try await openDatabase()
        #expect(try await Self.export(of: ledger) == export, sourceLocation: sourceLocation)
        #expect(try await ledger.auditKeys().map(\.publicKey) == [try signerPoint], sourceLocation: sourceLocation)
        for number in 1...last {
            let repeated = try await ledger.release(file.request(number))
            #expect(repeated == .repeated, "\(number)", sourceLocation: sourceLocation)
            let replayed = try await ledger.release(file.request(number, reference: 8))
            #expect(replayed == .replayed, "\(number)", sourceLocation: sourceLocation)
        }
        #expect(try await database.sql("SELECT count(*) FROM claim") == "\(last)", sourceLocation: sourceLocation)
        let next = try await file.releasing(1000)(ledger)
        let end = try await ledger.head().sequence
        #expect(next == RecordedVerdict(.released, sequence: end), sourceLocation: sourceLocation)
        try await signer.seal(ledger)
        #expect(try await signer.verdict(of: ledger).intactRecords == end, sourceLocation: sourceLocation)
        await ledger.close()
    }

    private var signerPoint: [UInt8] { get throws { Array(signer.key.publicKey.x963Representation) } }
}
