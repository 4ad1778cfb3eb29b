import ConfigurationFile
import Foundation
import Logging
import Payments
import TestSupport
import Testing

@testable import Gateway
@testable import Processors

@Suite("Work without a request")
struct PaymentUpkeepTests {
    /// A processor that answers status requests as a test requires, and counts them.
    private struct Acquirer: Processor {
        let capabilities = ProcessorCapabilities(paymentData: [.threeDSecure], tellsStatus: true)
        let status = Shared<@Sendable (String) -> ProcessorStatus>({ _ in .noTrace })
        let questions = Shared(0)
        /// A latch that delays all responses while it is closed.
        let latch = Latch(isOpen: true)

        func authorize(
            _ submission: Submission, before deadline: ContinuousClock.Instant, late: @escaping LateOutcome
        ) async -> SubmissionOutcome { .notSent(.notConnected) }

        func status(
            of payment: SubmittedPayment, before deadline: ContinuousClock.Instant
        ) async -> ProcessorStatus {
            questions.increment()
            await latch.pass()
            return status.current(payment.transactionId)
        }

        func configured(_ name: String) -> ConfiguredProcessor {
            ConfiguredProcessor(name: name, merchants: [MerchantPattern("*")], processor: self)
        }
    }

    private let directory: FreshDirectory
    private let store: SQLitePaymentStore
    private let captured: @Sendable (String) -> ProcessorStatus = { _ in
        .known(ProcessorAnswer(.captured, PaymentOutcome()))
    }

    init() throws {
        directory = try FreshDirectory()
        store = try SQLitePaymentStore(path: directory.path("payments.sqlite"))
    }

    private func upkeep(_ processors: [ConfiguredProcessor]) -> PaymentUpkeep {
        PaymentUpkeep(
            store, ProcessorDirectory(processors: processors), PaymentMetrics(), StoreReadiness(), UnstoredChanges(),
            Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    /// Stores a payment that is being submitted. The last two bytes of its transaction identifier are `number`.
    private func submitting(_ number: Int, at processor: String, _ now: Date) async throws -> Payment {
        let digest = [UInt8](repeating: 7, count: 30) + [UInt8(number >> 8), UInt8(number & 0xff)]
        let arrival = PaymentArrival(
            key: .init(client: "shop", tokenDigest: digest), purpose: .payment, requestDigest: digest, orderId: nil,
            statedTransaction: nil, attempt: PaymentAttempt(owner: "gateway", deadline: now))
        guard case .begun(let payment, _) = try await store.begin(arrival, at: now.addingTimeInterval(Double(number))),
            case .claimed(let claimed) = try await store.claim(
                payment,
                PaymentTransaction(identifier: digest, merchantIdentifier: "m", amount: nil, processor: processor),
                as: .submitting, nil, at: now)
        else { throw CancellationError() }
        return claimed
    }

    private func makePending(_ numbers: Range<Int>, at processor: String, _ now: Date) async throws {
        // The store's queue accepts at most 1,024 changes, so the payments are stored in groups of 100.
        for first in stride(from: numbers.lowerBound, to: numbers.upperBound, by: 100) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in first..<min(first + 100, numbers.upperBound) {
                    group.addTask {
                        let claimed = try await submitting(number, at: processor, now)
                        _ = try await store.storeOutcome(
                            claimed, as: .pending, PaymentOutcome(reason: "no_answer_in_time"), at: now)
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test("asks about a payment that follows more pending ones than a page holds and that the processor does not know")
    func paymentUnknownToProcessor() async throws {
        let now = Date(timeIntervalSince1970: 1_790_000_000)
        try await makePending(0..<1100, at: "acquirer", now)
        let newest = try #require(try await store.payments(PaymentFilter(limit: 1)).first)
        let name = try #require(newest.transaction?.name)
        let (acquirer, captured) = (Acquirer(), captured)
        acquirer.status.change { $0 = { $0 == name ? captured($0) : .noTrace } }
        let upkeep = upkeep([acquirer.configured("acquirer")])
        await upkeep.runStoreRound(at: now)
        // The first round asks about the first page of pending payments, and the second round about the rest.
        for round in 0..<2 { await upkeep.askProcessors(at: now.addingTimeInterval(2000 + Double(round))) }
        #expect(try await store.payments(PaymentFilter(limit: 1)).first?.state == .captured)
        // Each round asks at most 100 questions.
        #expect(acquirer.questions.current == 200)
    }

    @Test("removes payments that were refused long ago, and counts them")
    func prunes() async throws {
        for age in [8.0, 1] {
            let received = Date(timeIntervalSinceNow: -age * 86_400)
            let digest = [UInt8](repeating: UInt8(age), count: 32)
            let arrival = PaymentArrival(
                key: .init(client: "shop", tokenDigest: digest), purpose: .payment, requestDigest: digest, orderId: nil,
                statedTransaction: nil, attempt: PaymentAttempt(owner: "gateway", deadline: received))
            guard case .begun(let payment, _) = try await store.begin(arrival, at: received) else {
                throw CancellationError()
            }
            _ = try await store.end(payment, as: .refused, PaymentOutcome(reason: "signature_invalid"), at: received)
        }
        await upkeep([]).runStoreRound(at: Date())
        #expect(try await store.payments(PaymentFilter()).map(\.key.tokenDigest.first) == [1])
    }

    @Test("isolates a hanging processor from other processors' payments and from the store's upkeep")
    func hangingProcessor() async throws {
        let now = Date().addingTimeInterval(-3600)
        try await makePending(0..<150, at: "hanging", now)
        try await makePending(150..<151, at: "answering", now)
        let (hanging, answering) = (Acquirer(), Acquirer())
        hanging.latch.close()
        answering.status.change { [captured] in $0 = captured }
        let upkeep = upkeep([hanging.configured("hanging"), answering.configured("answering")])
        let running = Task { await upkeep.run() }
        // The hanging processor receives its whole share of questions, and answers none of them.
        try await wait(for: "questions") { hanging.latch.waiting == PendingPaymentQuestions.maximumPerRound }
        try await wait(for: "the other's answer") {
            try await store.payments(PaymentFilter(processor: "answering")).map(\.state) == [.captured]
        }
        // This payment is in the state `submitting`, as after a gateway that stopped during the submission.
        _ = try await submitting(151, at: "answering", now)
        try await wait(for: "the abandoned payment's fate") {
            try await store.payments(PaymentFilter(processor: "answering")).map(\.state) == [.captured, .captured]
        }
        #expect(
            hanging.questions.current == PendingPaymentQuestions.maximumPerRound
                && hanging.latch.waiting == PendingPaymentQuestions.maximumPerRound)
        running.cancel()
        hanging.latch.open()
        await running.value
    }

    @Test("asks a silent processor less and less often, and normally again once it answers")
    func silentProcessor() async throws {
        let now = Date(timeIntervalSince1970: 1_790_000_000)
        try await makePending(0..<150, at: "silent", now)
        let silent = Acquirer()
        silent.status.change { $0 = { _ in .notAnswered("too late") } }
        let upkeep = upkeep([silent.configured("silent")])
        await upkeep.runStoreRound(at: now)
        func questions(after seconds: Double) async -> Int {
            let before = silent.questions.current
            await upkeep.askProcessors(at: now.addingTimeInterval(10_000 + seconds))
            return silent.questions.current - before
        }
        #expect(await questions(after: 0) == 100)
        #expect(await questions(after: 0.5) == 0)
        #expect(await questions(after: 1) == 1)
        #expect(await questions(after: 2) == 0)
        #expect(await questions(after: 3) == 1)
        #expect(await questions(after: 6) == 0)
        #expect(await questions(after: 4000) == 1)
        #expect(await questions(after: 4010) == 1)
        silent.status.change { $0 = { _ in .noTrace } }
        #expect(await questions(after: 15_000) == 1)
        #expect(await questions(after: 15_001) == 100)
    }
}
