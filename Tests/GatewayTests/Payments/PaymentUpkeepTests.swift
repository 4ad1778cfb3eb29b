import ConfigurationFile
import Foundation
import Logging
import Payments
import Processors
import TestSupport
import Testing

@testable import Gateway

@Suite("What goes on without a request")
struct PaymentUpkeepTests {
    /// Knows of one payment, and counts the questions.
    private struct Acquirer: Processor {
        let capabilities = ProcessorCapabilities(paymentData: [.threeDSecure], tellsStatus: true)
        let known: String
        let questions = Shared(0)

        func authorize(
            _ submission: Submission, before deadline: ContinuousClock.Instant
        ) async -> SubmissionOutcome { .notSent(.notConnected) }

        func status(
            of payment: SubmittedPayment, before deadline: ContinuousClock.Instant
        ) async -> ProcessorStatus {
            questions.change { $0 += 1 }
            return payment.transactionId == known ? .known(ProcessorAnswer(.captured, PaymentOutcome())) : .noTrace
        }
    }

    @Test(
        "behind more pending payments than are looked at together, of which the processor has no trace, one has its turn"
    )
    func manyWithoutTrace() async throws {
        let directory = try FreshDirectory()
        let store = try SQLitePaymentStore(path: directory.path("payments.sqlite"))
        let now = Date(timeIntervalSince1970: 1_790_000_000)
        func pending(_ number: Int) async throws {
            let digest = [UInt8](repeating: 7, count: 30) + [UInt8(number >> 8), UInt8(number & 0xff)]
            let arrival = PaymentArrival(
                key: .init(client: "shop", tokenDigest: digest), purpose: .payment, requestDigest: digest, orderId: nil,
                statedTransaction: nil, attempt: PaymentAttempt(owner: "gateway", deadline: now))
            guard
                case .begun(let payment, _) = try await store.begin(arrival, at: now.addingTimeInterval(Double(number))),
                case .claimed(let claimed) = try await store.claim(
                    payment,
                    PaymentTransaction(
                        identifier: digest, merchantIdentifier: "m", amount: nil, processor: "acquirer"),
                    as: .submitting, nil, at: now)
            else { throw CancellationError() }
            _ = try await store.settle(claimed, as: .pending, PaymentOutcome(reason: "no_answer_in_time"), at: now)
        }
        // The store lets 1024 changes wait.
        for first in stride(from: 0, to: 1100, by: 100) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in first..<first + 100 { group.addTask { try await pending(number) } }
                try await group.waitForAll()
            }
        }
        let newest = try #require(try await store.payments(PaymentFilter(limit: 1)).first)
        let name = try #require(newest.transaction?.name)
        let acquirer = Acquirer(known: name)
        let upkeep = PaymentUpkeep(
            store,
            ProcessorDirectory(
                processors: [
                    ConfiguredProcessor(name: "acquirer", merchants: [MerchantPattern("*")], processor: acquirer)
                ]), PaymentMetrics(), StoreReadiness(), UnstoredChanges(),
            Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        // The first page, and then the rest.
        for turn in 0..<2 { await upkeep.turn(at: now.addingTimeInterval(2000 + Double(turn))) }
        #expect(try await store.payments(PaymentFilter(limit: 1)).first?.state == .captured)
        // A hundred questions a turn at most.
        #expect(acquirer.questions.current == 200)
    }
}
