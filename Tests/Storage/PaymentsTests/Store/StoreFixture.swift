import Crypto
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Payments

/// A fresh store, and payments to store in it.
struct StoreFixture: Sendable {
    let store: any PaymentStore
    let directory: FreshDirectory
    /// The database that the fixture made; nil without PostgreSQL.
    private let database: PaymentDatabase?
    /// A time in whole milliseconds, which the store can represent exactly.
    let now = Date(timeIntervalSince1970: 1_790_000_000)

    init(_ engine: StorageEngine = .sqlite) async throws {
        directory = try FreshDirectory()
        switch engine {
        case .sqlite:
            database = nil
            store = try SQLitePaymentStore(path: directory.path("payments.sqlite"))
        case .postgresql:
            let made = try await PaymentDatabases.shared.make()
            database = made
            store = try await made.store()
        }
    }

    /// Runs SQL directly in the database.
    func execute(_ sql: String) async throws {
        if let database {
            try await database.sql(sql, as: PaymentDatabases.owner)
        } else {
            try await DatabaseQueue(path: directory.path("payments.sqlite")).write { try $0.execute(sql: sql) }
        }
    }

    /// Makes a fixture with a store that is already open.
    init(on store: any PaymentStore) async throws {
        (directory, database) = (try FreshDirectory(), nil)
        self.store = store
    }

    /// A client's request. Equal names of payment tokens or requests give equal digests.
    func arrival(
        _ token: String = "token", client: String = "shop", purpose: Payment.Purpose = .payment,
        request: String = "request", stating transaction: String? = nil, deadline: TimeInterval = 25
    ) -> PaymentArrival {
        PaymentArrival(
            key: .init(client: client, tokenDigest: Self.digest(token)), purpose: purpose,
            requestDigest: Self.digest(request), orderId: "order 1",
            statedTransaction: transaction.map(Self.digest),
            attempt: PaymentAttempt(owner: "gateway-1", deadline: now.addingTimeInterval(deadline)))
    }

    func transaction(_ name: String = "transaction") throws -> PaymentTransaction {
        let dollars = try #require(Currency(letters: "USD"))
        return PaymentTransaction(
            identifier: Self.digest(name), merchantIdentifier: "merchant.com.example",
            amount: Amount(minorUnits: 1099, currency: dollars), processor: "acquirer")
    }

    static func digest(_ name: String) -> [UInt8] { Array(SHA256.hash(data: Data(name.utf8))) }

    /// Begins a payment, and returns it with the names of the client's earlier attempts that certainly sent nothing;
    /// throws if no payment begins.
    func begun(_ arrival: PaymentArrival, at now: Date? = nil) async throws -> (Payment, after: [[UInt8]]) {
        guard case .begun(let payment, let after) = try await store.begin(arrival, at: now ?? self.now) else {
            throw NotBegun()
        }
        return (payment, after)
    }

    func submitting(_ arrival: PaymentArrival, _ name: String = "transaction") async throws -> Payment {
        let payment = try await begun(arrival).0
        guard
            case .claimed(let claimed) = try await store.claim(
                payment, transaction(name), as: .submitting, nil, at: now)
        else { throw NotBegun() }
        return claimed
    }

    struct NotBegun: Error {}
}
