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
            store, ProcessorDirectory(processors: []), PaymentMetrics(), readiness,
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

    @Test("what the store says of one payment is no fault of the store")
    func onePayment() {
        readiness.failed(.notFound)
        readiness.failed(.superseded(.pending))
        #expect(readiness.fault == nil)
        readiness.failed(.inDoubt(reason: "gone"))
        #expect(readiness.fault == .inDoubt(reason: "gone"))
    }
}
