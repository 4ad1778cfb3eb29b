import Foundation
import Logging
import TestSupport
import Testing

@testable import Gateway
@testable import Payments

@Suite("Readiness and the payment store")
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

    @Test("reports a missing store file as a fault until the file is back and a change was durable")
    func fileAway() async throws {
        await upkeep.runStoreRound(at: Date())
        #expect(readiness.fault == nil)
        let (path, away) = (directory.path("payments.sqlite"), directory.path("away"))
        try FileManager.default.moveItem(atPath: path, toPath: away)
        await upkeep.runStoreRound(at: Date())
        #expect(readiness.fault != nil)
        await upkeep.runStoreRound(at: Date())
        #expect(readiness.fault != nil)
        try FileManager.default.moveItem(atPath: away, toPath: path)
        await upkeep.runStoreRound(at: Date())
        #expect(readiness.fault == nil)
    }

    @Test("logs that old payments cannot be removed, and accepts payments")
    func failedPrune() async throws {
        // The number of commits that will still succeed.
        let (allowed, lines) = (Shared(Int.max), Shared<[String]>([]))
        let store = try SQLitePaymentStore(path: directory.path("other.sqlite"))
        try await SQLiteFaults(beforeCommit: {
            allowed.change { $0 -= 1 }
            if allowed.current < 0 { throw CancellationError() }
        }).install(on: store.connections.writer.connection)
        let old = Date(timeIntervalSinceNow: -8 * 86_400)
        let digest = [UInt8](repeating: 7, count: 32)
        _ = try await store.begin(
            PaymentArrival(
                key: .init(client: "shop", tokenDigest: digest), purpose: .payment, requestDigest: digest, orderId: nil,
                statedTransaction: nil, attempt: PaymentAttempt(owner: "gateway", deadline: old)), at: old)
        // The probe's commit succeeds, and the commit that removes old payments fails.
        allowed.change { $0 = 1 }
        await PaymentUpkeep(
            store, ProcessorDirectory(processors: []), PaymentMetrics(), readiness, UnstoredChanges(),
            Logger(label: "test") { _ in CapturedLog(lines: lines) }
        ).runStoreRound(at: Date())
        #expect(allowed.current == -1 && readiness.fault == nil)
        #expect(lines.current.map { $0.hasPrefix("old payments cannot be removed") } == [true])
        #expect(try await store.payments(PaymentFilter()).count == 1)
    }

    @Test("stores the outcomes known during an outage once the store is back, and permits a retry of what was not sent")
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
        let log = Shared<[String]>([])
        let logger = Logger(label: "test") { _ in CapturedLog(lines: log) }
        #expect(await unstored.storeAll(in: store, logger) == 0 && unstored.count == 3)
        try FileManager.default.moveItem(atPath: away, toPath: path)
        // An operator settles this payment before the gateway stores its outcome.
        _ = try await store.storeOutcome(settled, as: .declined, PaymentOutcome(), at: now)
        #expect(await unstored.storeAll(in: store, logger) == 3 && unstored.count == 0)
        #expect(log.current.count { $0.contains("contradicts the stored status") } == 1)
        func state(_ payment: Payment) async throws -> PaymentState? {
            try await store.payment(transaction: payment.key.tokenDigest)?.state
        }
        #expect(try await state(sent) == .captured)
        #expect(try await state(notSent) == .notSent)
        #expect(try await state(settled) == .declined)
    }

    /// Stores a payment that is being submitted. The last two bytes of its transaction identifier are `number`.
    private static func submitting(_ number: Int, in store: SQLitePaymentStore) async throws -> Payment {
        let digest = [UInt8](repeating: 7, count: 30) + [UInt8(number >> 8), UInt8(number & 0xff)]
        let arrival = PaymentArrival(
            key: .init(client: "shop", tokenDigest: digest), purpose: .payment, requestDigest: digest, orderId: nil,
            statedTransaction: nil,
            attempt: PaymentAttempt(owner: "gateway", deadline: Date().addingTimeInterval(3600)))
        guard case .begun(let payment, _) = try await store.begin(arrival, at: Date()),
            case .claimed(let claimed) = try await store.claim(
                payment, PaymentTransaction(identifier: digest, merchantIdentifier: "m", amount: nil, processor: "p"),
                as: .submitting, nil, at: Date())
        else { throw CancellationError() }
        return claimed
    }

    private static func state(_ payment: Payment, in store: SQLitePaymentStore) async throws -> PaymentState? {
        try await store.payment(transaction: payment.key.tokenDigest)?.state
    }

    private func upkeep(of store: SQLitePaymentStore) -> PaymentUpkeep {
        PaymentUpkeep(
            store, ProcessorDirectory(processors: []), PaymentMetrics(), readiness, UnstoredChanges(),
            Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    @Test(
        "is not ready on a disk too full to accept a payment, and leaves no row from a probe",
        .enabled("run it as root, who can mount a small file system") { await SmallDisk.isPermitted })
    func fullDisk() async throws {
        let disk = try await SmallDisk(kibibytes: 512)
        let store = try SQLitePaymentStore(path: disk.path + "/payments.sqlite")
        let upkeep = upkeep(of: store)
        let known = try await Self.submitting(0, in: store)
        await upkeep.runStoreRound(at: Date())
        #expect(readiness.fault == nil)
        try disk.fill()
        // Even on a full disk, SQLite accepts data that fits into its existing files, so the loop fills these first.
        var taken = 0
        while (try? await Self.submitting(taken + 1, in: store)) != nil { taken += 1 }
        for _ in 0..<3 { await #expect(throws: (any Error).self) { try await Self.submitting(900, in: store) } }
        await #expect(throws: PaymentStoreError.self) { try await store.probe() }
        #expect(try await Self.state(known, in: store) == .submitting, "reading needs no room")
        readiness.recordFailure(.unavailable(reason: "as a payment found it"))
        await upkeep.runStoreRound(at: Date())
        #expect(readiness.fault != nil)
        try disk.free()
        await upkeep.runStoreRound(at: Date())
        #expect(readiness.fault == nil)
        let rows = try await store.payments(PaymentFilter(limit: 1000))
        #expect(rows.allSatisfy { $0.key.client == "shop" })
        _ = try await Self.submitting(901, in: store)
        await store.close()
        try await disk.unmount()
    }

    @Test(
        "opens a store on a full disk after a clean stop and a crash, answers from it, and accepts payments once there is room",
        .enabled("run it as root, who can mount a small file system") { await SmallDisk.isPermitted },
        arguments: [true, false])
    func startOnFullDisk(afterCrash: Bool) async throws {
        let disk = try await SmallDisk(kibibytes: 512)
        let path = disk.path + "/payments.sqlite"
        var known = try await Self.submitting(0, in: store)
        known = try await store.storeOutcome(known, as: .captured, PaymentOutcome(), at: Date())
        let underWay = try await Self.submitting(1, in: store)
        if !afterCrash { await store.close() }
        // The files of an open store are those that a crash would leave.
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let from = directory.path("payments.sqlite") + suffix
            guard FileManager.default.fileExists(atPath: from) else { continue }
            try FileManager.default.copyItem(atPath: from, toPath: path + suffix)
        }
        try disk.fill()
        let opened = try SQLitePaymentStore(path: path)
        #expect(try await Self.state(known, in: opened) == .captured)
        #expect(try await Self.state(underWay, in: opened) == .submitting)
        let upkeep = upkeep(of: opened)
        await upkeep.runStoreRound(at: Date())
        #expect(readiness.fault != nil)
        await #expect(throws: (any Error).self) { try await Self.submitting(2, in: opened) }
        #expect(try await Self.state(known, in: opened) == .captured)
        try disk.free()
        await upkeep.runStoreRound(at: Date())
        #expect(readiness.fault == nil)
        _ = try await Self.submitting(2, in: opened)
        #expect(try await opened.payments(PaymentFilter()).count == 3)
        await opened.close()
        try await disk.unmount()
    }

    @Test("reports the store's answer about one payment as no fault of the store")
    func onePayment() {
        readiness.recordFailure(.notFound)
        readiness.recordFailure(.superseded(.pending))
        #expect(readiness.fault == nil)
        readiness.recordFailure(.inDoubt(reason: "gone"))
        #expect(readiness.fault == .inDoubt(reason: "gone"))
    }
}
