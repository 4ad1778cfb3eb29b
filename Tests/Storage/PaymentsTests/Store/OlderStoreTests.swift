import Foundation
import GRDB
import TestSupport
import Testing

@testable import Payments

/// Payment stores of earlier versions, from SQL files. `Tests/Storage/OlderLedgers/make-store` describes their
/// contents.
@Suite("Stores of older versions")
struct OlderStoreTests {
    struct File: Sendable, CustomTestStringConvertible {
        let engine: StorageEngine
        let version: Int

        static let all = StorageEngine.allCases.flatMap { engine in [1, 2].map { File(engine: engine, version: $0) } }

        var testDescription: String { "payments-\(engine.rawValue)-\(version)" }
    }

    /// The location of a store, which the tests read without the gateway's code.
    private enum Place {
        case file(FreshDirectory, String)
        case database(PaymentDatabase)

        static func with(_ file: File) async throws -> Place {
            switch file.engine {
            case .sqlite:
                let directory = try FreshDirectory()
                let path = try directory.write([], to: "payments.sqlite", mode: 0o600)
                let queue = try DatabaseQueue(path: path)
                let sql = try OlderLedgers.sqlWithoutTransaction(file.testDescription)
                try await queue.write { try $0.execute(sql: sql) }
                try queue.close()
                return .file(directory, path)
            case .postgresql:
                let database = try await PaymentDatabases.shared.make(empty: true)
                try await database.server.sql(
                    OlderLedgers.sql(file.testDescription), in: database.name, as: PaymentDatabases.owner)
                return .database(database)
            }
        }

        static func new(_ engine: StorageEngine) async throws -> Place {
            switch engine {
            case .sqlite:
                let directory = try FreshDirectory()
                return .file(directory, directory.path("payments.sqlite"))
            case .postgresql: return .database(try await PaymentDatabases.shared.make(empty: true))
            }
        }

        /// Upgrades the store as `store create` and the gateway's start do, in this order.
        func opened() async throws -> any PaymentStore {
            switch self {
            case .file(_, let path): return try SQLitePaymentStore(path: path)
            case .database(let database):
                _ = try await PostgreSQLPaymentSchema.create(
                    database.url(as: PaymentDatabases.owner), grantTo: PaymentDatabases.gateway)
                return try await database.store()
            }
        }

        /// The definitions of tables, indexes, functions and triggers.
        func schema() async throws -> String {
            switch self {
            case .file(_, let path):
                let queue = try DatabaseQueue(path: path)
                defer { try? queue.close() }
                return try await queue.read { db in
                    try String.fetchAll(
                        db,
                        sql: "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' "
                            + "ORDER BY type, name")
                }.joined(separator: ";\n")
            case .database(let database):
                return try await database.server.definitions(of: "paytoken_gateway", in: database.name)
            }
        }
    }

    @Test("keeps an older version's payments unchanged, and never begins a sent one again", arguments: File.all)
    func opened(_ file: File) async throws {
        let place = try await Place.with(file)
        let store = try await place.opened()
        let payments = try await store.payments(PaymentFilter(oldestFirst: true))
        // The simulator's outcomes for the amounts 10.00, 10.80, 10.81 and 10.84, in the order of payment.
        #expect(payments.map(\.state) == [.authorized, .captured, .declined, .pending])
        #expect(payments.map { $0.transaction?.amount?.minorUnits } == [1000, 1080, 1081, 1084])
        for payment in payments {
            #expect(payment.transaction?.amount?.currency.letters == "USD")
            #expect(payment.transaction?.processor == "simulator")
            let name = try #require(payment.transaction?.identifier)
            #expect(try await store.payment(transaction: name) == payment)
            let history = try await store.history(of: payment.key)
            #expect(history.map(\.state) == [.received, .decrypted, .submitting, payment.state])
            let again = PaymentArrival(
                key: payment.key, purpose: .payment, requestDigest: payment.requestDigest, orderId: payment.orderId,
                statedTransaction: name,
                attempt: PaymentAttempt(owner: "gateway-2", deadline: payment.changedAt.addingTimeInterval(3600)))
            let beginning = try await store.begin(again, at: payment.changedAt.addingTimeInterval(3000))
            #expect(beginning == .known(payment))
            // An earlier version may have stored the digests of the client's spelling. This version searches for the
            // normal form's digests first.
            let other = [UInt8](repeating: 1, count: 32)
            let spelled = PaymentArrival(
                key: .init(client: payment.key.client, tokenDigest: other), purpose: .payment, requestDigest: other,
                originalDigests: .init(tokenDigest: payment.key.tokenDigest, requestDigest: payment.requestDigest),
                orderId: payment.orderId, statedTransaction: nil, attempt: again.attempt)
            #expect(try await store.begin(spelled, at: again.attempt.deadline) == .known(payment))
        }
        await store.close()
        withExtendedLifetime(place) {}
    }

    @Test(
        "finds a table that was changed without a new schema version",
        arguments: StorageEngine.allCases)
    func frozen(_ engine: StorageEngine) async throws {
        let version = engine == .sqlite ? SQLitePaymentSchema.version : PostgreSQLPaymentSchema.version
        // A new schema version needs another SQL file, which Tests/Storage/OlderLedgers/make-store writes, and an entry
        // in File.all. UpgradeTests compare the schema of each upgraded version with it.
        let published = try #require(
            File.all.first { $0.engine == engine && $0.version == version }, "no file of version \(version)")
        let expected = try await Place.with(published).schema()
        #expect(!expected.isEmpty)
        let new = try await Place.new(engine)
        await (try await new.opened()).close()
        #expect(try await new.schema() == expected)
    }
}
