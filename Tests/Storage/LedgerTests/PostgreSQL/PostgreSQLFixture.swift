import AuditChain
import Foundation
import PaymentToken
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

/// Ledgers of one database, and the proxies between them and it.
struct PostgreSQLFixture: Sendable {
    let database: LedgerDatabase
    let proxy: PostgreSQLProxy
    let ledger: PostgreSQLLedger
    let events = LedgerEvents()
    /// Used to make requests; its own ledger is not used.
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

    /// A release of transaction `number`, with a reference or without one.
    func request(_ number: Int, reference: UInt8? = 7, named: NamedAttempt? = nil) throws -> Release {
        let bytes = [UInt8(number >> 8 & 0xff), UInt8(number & 0xff)] + [UInt8](repeating: 0, count: 30)
        return Release(
            transactionId: try #require(TransactionIdentifier(bytes: bytes)), publicKeyHash: key, caller: "checkout",
            referenceDigest: reference.map { [UInt8](repeating: $0, count: 32) },
            contentDigest: [UInt8](repeating: 9, count: 32), named: named, at: LedgerFixture.noon)
    }

    /// Releases and records the release.
    func release(
        _ number: Int, reference: UInt8? = 7, named: NamedAttempt? = nil, on ledger: PostgreSQLLedger? = nil
    ) async throws -> RecordedVerdict {
        let request = try request(number, reference: reference, named: named)
        return try await (ledger ?? self.ledger).release(request, recording: LedgerFixture.record(of: request))
    }

    /// Releases in a task that begins immediately.
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

    /// The number of the daemon's sessions in this database in a state, such as `wait_event = 'SyncRep'`.
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
    /// The outcomes of commits whose acknowledgement was lost, oldest first.
    var readBack: [ReadBackOutcome] {
        all.compactMap { event in if case .readBack(let outcome) = event { outcome } else { nil } }
    }

    /// The values of each acknowledged batch.
    var roundTrips: [Int] {
        all.compactMap { event in if case .exchanged(let roundTrips) = event { roundTrips } else { nil } }
    }
}

extension Result where Failure == any Error {
    /// True if it failed with `unavailable` or because of the deadline.
    var isUnavailable: Bool {
        switch self {
        case .failure(LedgerFailure.unavailable), .failure(LedgerFailure.timedOut): true
        default: false
        }
    }
}
