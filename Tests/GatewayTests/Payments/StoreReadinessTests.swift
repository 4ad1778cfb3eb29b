import Foundation
import Logging
import Payments
import TestSupport
import Testing

@testable import Gateway

@Suite("Readiness with the store of payments")
struct StoreReadinessTests {
    private let directory: FreshDirectory
    private let store: SQLitePaymentStore
    private let readiness = StoreReadiness()
    private let upkeep: PaymentUpkeep

    init() throws {
        directory = try FreshDirectory()
        store = try SQLitePaymentStore(path: directory.path("payments.sqlite"))
        upkeep = PaymentUpkeep(
            store, ProcessorDirectory(processors: []), PaymentMetrics(), readiness, UnstoredChanges(),
            Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    @Test("a store whose file is taken away is a fault until the file is back and a change was durable")
    func fileAway() async throws {
        await upkeep.turn(at: Date())
        #expect(readiness.fault == nil)
        let (path, away) = (directory.path("payments.sqlite"), directory.path("away"))
        try FileManager.default.moveItem(atPath: path, toPath: away)
        await upkeep.turn(at: Date())
        #expect(readiness.fault != nil)
        await upkeep.turn(at: Date())
        #expect(readiness.fault != nil)
        try FileManager.default.moveItem(atPath: away, toPath: path)
        await upkeep.turn(at: Date())
        #expect(readiness.fault == nil)
    }

    @Test(
        "what was known while the store was away is stored when it is back: no fate is lost, and what was not sent may be tried again"
    )
    func unstoredChanges() async throws {
        let now = Date()
        func submitting(_ number: UInt8) async throws -> Payment {
            let digest = [UInt8](repeating: number, count: 32)
            let arrival = PaymentArrival(
                key: .init(client: "shop", tokenDigest: digest), purpose: .payment, requestDigest: digest, orderId: nil,
                statedTransaction: nil, attempt: PaymentAttempt(owner: "gateway", deadline: now.addingTimeInterval(60)))
            guard case .begun(let payment, _) = try await store.begin(arrival, at: now),
                case .claimed(let claimed) = try await store.claim(
                    payment,
                    PaymentTransaction(identifier: digest, merchantIdentifier: "m", amount: nil, processor: "p"),
                    as: .submitting, nil, at: now)
            else { throw CancellationError() }
            return claimed
        }
        let (sent, notSent, settled) = (try await submitting(1), try await submitting(2), try await submitting(3))
        let (path, away) = (directory.path("payments.sqlite"), directory.path("away"))
        try FileManager.default.moveItem(atPath: path, toPath: away)
        let unstored = UnstoredChanges()
        unstored.add(sent, as: .captured, PaymentOutcome(authorizationCode: "A1"))
        unstored.add(notSent, as: .notSent, PaymentOutcome(reason: "not_connected"))
        unstored.add(settled, as: .authorized, PaymentOutcome())
        #expect(await unstored.store(in: store) == 0 && unstored.count == 3)
        try FileManager.default.moveItem(atPath: away, toPath: path)
        // Somebody was faster with this one.
        _ = try await store.settle(settled, as: .declined, PaymentOutcome(), at: now)
        #expect(await unstored.store(in: store) == 2 && unstored.count == 0)
        func state(_ payment: Payment) async throws -> PaymentState? {
            try await store.payment(transaction: payment.key.tokenDigest)?.state
        }
        #expect(try await state(sent) == .captured)
        #expect(try await state(notSent) == .notSent)
        #expect(try await state(settled) == .declined)
    }

    @Test("what the store says of one payment is no fault of the store")
    func onePayment() {
        readiness.failed(.notFound)
        readiness.failed(.superseded(.pending))
        #expect(readiness.fault == nil)
        readiness.failed(.inDoubt(reason: "gone"))
        #expect(readiness.fault == .inDoubt(reason: "gone"))
    }
}
