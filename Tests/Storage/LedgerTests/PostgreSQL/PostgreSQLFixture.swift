import AuditChain
import Foundation
import PaymentToken
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

/// A database with the ledger of one node, and a proxy between them.
struct PostgreSQLFixture: Sendable {
    let database: LedgerDatabase
    let proxy: PostgreSQLProxy
    let ledger: PostgreSQLLedger
    let events = LedgerEvents()
    /// The public key hash of the requests' merchant key.
    let key = LedgerFixture.hash(1)

    /// A ledger with a proxy and one active key.
    init(
        _ databases: LedgerDatabases? = nil, _ change: (inout PostgreSQLLedger.Settings) -> Void = { _ in }
    ) async throws {
        let databases = if let databases { databases } else { try await LedgerDatabases.shared }
        database = try await databases.make()
        proxy = try await PostgreSQLProxy(to: database.server)
        var settings = PostgreSQLLedger.Settings(
            url: try PostgreSQLURL(proxy.url(database.name, user: LedgerDatabases.daemon)), node: "node-1",
            repeatFor: .seconds(3600), timeout: .seconds(60))
        change(&settings)
        let events = events
        ledger = try await PostgreSQLLedger.open(settings) { events.add($0) }
        try await ledger.store(LedgerFixture.record(key))
    }

    /// Another node's ledger in the same database, without the proxy.
    func node(
        _ name: String, _ change: (inout PostgreSQLLedger.Settings) -> Void = { _ in }
    ) async throws -> PostgreSQLLedger {
        var settings = ledger.settings
        settings.url = try database.url()
        settings.node = name
        change(&settings)
        return try await PostgreSQLLedger.open(settings)
    }

    /// Returns a request to release transaction `number`, with a reference unless `reference` is nil.
    func request(_ number: Int, reference: UInt8? = 7, named: NamedAttempt? = nil) throws -> Release {
        let bytes = [UInt8(number >> 8 & 0xff), UInt8(number & 0xff)] + [UInt8](repeating: 0, count: 30)
        return Release(
            transactionId: try #require(TransactionIdentifier(bytes: bytes)), publicKeyHash: key, caller: "checkout",
            referenceDigest: reference.map { [UInt8](repeating: $0, count: 32) },
            contentDigest: [UInt8](repeating: 9, count: 32), named: named, at: LedgerFixture.noon)
    }

    /// Releases a transaction, and records the release.
    func release(
        _ number: Int, reference: UInt8? = 7, named: NamedAttempt? = nil, on ledger: PostgreSQLLedger? = nil
    ) async throws -> RecordedVerdict {
        let request = try request(number, reference: reference, named: named)
        return try await (ledger ?? self.ledger).release(request, recording: LedgerFixture.record(of: request))
    }

    /// Starts a release in a task, whose result the test awaits later.
    func begin(
        _ number: Int, reference: UInt8? = 7, named: NamedAttempt? = nil, on ledger: PostgreSQLLedger? = nil
    ) -> Begun<Result<RecordedVerdict, any Error>> {
        Begun {
            do {
                return .success(try await release(number, reference: reference, named: named, on: ledger))
            } catch {
                return .failure(error)
            }
        }
    }

    /// The number of the daemon's sessions in this database that fulfil an SQL condition, such as `wait_event =
    /// 'SyncRep'`.
    func sessions(_ condition: String) async throws -> Int {
        let count = try await database.server.sql(
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = '\(database.name)' AND usename = '\(LedgerDatabases.daemon)' AND \(condition)
            """)
        return try #require(Int(count))
    }

    /// Ends the daemon's sessions in this database.
    func endSessions() async throws {
        try await database.server.sql(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = '\(database.name)' AND usename = '\(LedgerDatabases.daemon)'
            """)
    }

    func count(_ table: String) async throws -> Int {
        try #require(Int(try await database.sql("SELECT count(*) FROM \(table)")))
    }
}

extension LedgerEvents {
    /// The outcomes that the ledger read back for commits without an acknowledgement, the oldest first.
    var readBack: [ReadBackOutcome] {
        all.compactMap { event in if case .readBack(let outcome) = event { outcome } else { nil } }
    }

    /// The number of round trips of each acknowledged batch.
    var roundTrips: [Int] {
        all.compactMap { event in if case .exchanged(let roundTrips) = event { roundTrips } else { nil } }
    }
}

extension Result where Failure == any Error {
    /// True if the result is the failure `unavailable` or `timedOut`.
    var isUnavailable: Bool {
        switch self {
        case .failure(LedgerFailure.unavailable), .failure(LedgerFailure.timedOut): true
        default: false
        }
    }
}
