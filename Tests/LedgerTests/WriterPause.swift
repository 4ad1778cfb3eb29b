import AuditChain
import Dispatch
import GRDB
import TestSupport

@testable import Ledger

/// Keeps the writer busy, so that what is asked meanwhile comes into one batch.
final class WriterPause: Sendable {
    private let ledger: SQLiteLedger
    private let release = DispatchSemaphore(value: 0)

    /// Returns when the writer has ended what it did and stands still.
    init(_ ledger: SQLiteLedger) async {
        self.ledger = ledger
        let release = release
        await withCheckedContinuation { (begun: CheckedContinuation<Void, Never>) in
            ledger.connections.onWriter { _ in
                begun.resume()
                release.wait()
            }
        }
    }

    /// Waits until so many writes wait.
    func wait(for writes: Int) async throws {
        try await TestSupport.wait(for: "\(writes) waiting writes") { self.ledger.writer.waiting >= writes }
    }

    func end() { release.signal() }
}

extension LedgerFixture {
    /// Runs all at once, as one batch; their answers in the order of the operations.
    func inOneBatch<Answer: Sendable>(
        _ operations: [@Sendable (SQLiteLedger) async throws -> Answer]
    ) async throws -> [Result<Answer, any Error>] {
        let pause = await WriterPause(ledger)
        return try await withThrowingTaskGroup(of: (Int, Result<Answer, any Error>).self) { group in
            for (position, operation) in operations.enumerated() {
                let ledger = ledger
                group.addTask {
                    do {
                        return (position, .success(try await operation(ledger)))
                    } catch {
                        return (position, .failure(error))
                    }
                }
                // So that they enter in this order.
                try await pause.wait(for: position + 1)
            }
            pause.end()
            var answers: [Int: Result<Answer, any Error>] = [:]
            for try await (position, answer) in group { answers[position] = answer }
            return operations.indices.compactMap { answers[$0] }
        }
    }

    /// The record of a release as the daemon would make it.
    static func record(of release: Release, at time: AuditTime = AuditTime(noon)) -> AuditRecord {
        AuditRecord(
            time: time, event: .decrypt(reference: release.referenceDigest.flatMap { AuditDigest(bytes: $0) }),
            caller: AuditCaller(name: AuditText(release.caller), uid: 1001, gid: 1002),
            merchant: AuditText("merchant.com.example"), publicKeyHash: AuditDigest(bytes: release.publicKeyHash.bytes),
            transactionId: AuditDigest(bytes: release.transactionId.bytes), protection: .c, token: AuditText("primary"))
    }

    /// An operation that releases and records it.
    func releasing(
        _ number: Int, caller: String = "checkout", reference: UInt8? = 7
    ) throws -> @Sendable (SQLiteLedger) async throws -> RecordedVerdict {
        let request = try request(number, caller: caller, reference: reference)
        return { try await $0.release(request, recording: Self.record(of: request)) }
    }
}

extension SQLiteConnections {
    /// On the writing connection, outside the commit queue.
    func write<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { (waiting: CheckedContinuation<T, any Error>) in
            onWriter { db in waiting.resume(with: Result { try body(db) }) }
        }
    }
}
