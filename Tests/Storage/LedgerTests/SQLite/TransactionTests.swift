import Dispatch
import GRDB
import Testing

@testable import Ledger
@testable import SQLiteLedger

@Suite("SQLite's transactions")
struct TransactionTests {
    @Test("answers nothing as written when the engine ends a transaction in the middle")
    func transactionGivenUp() async throws {
        let fixture = try await LedgerFixture()
        try await fixture.sqlite.connections.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER poison BEFORE INSERT ON audit_record WHEN NEW.caller = 'poison'
                    BEGIN SELECT RAISE(ROLLBACK, 'poisoned'); END
                    """)
        }
        var operations = try (1...5).map { try fixture.releasing($0) }
        operations.insert(try fixture.releasing(100, caller: "poison"), at: 2)
        for answer in try await fixture.inOneBatch(operations) {
            #expect(throws: LedgerFailure.self) { try answer.get() }
        }
        for number in 1...5 {
            #expect(try await fixture.ledger.release(fixture.request(number, reference: nil)) == .released)
        }
        #expect(try await fixture.ledger.head().sequence == 0)
    }

    @Test("releases during a long read")
    func longRead() async throws {
        let fixture = try await LedgerFixture()
        let reading = AsyncStream.makeStream(of: Void.self)
        let finish = DispatchSemaphore(value: 0)
        let connections = fixture.sqlite.connections
        async let read = connections.reader.read { db in
            let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM claim")
            reading.continuation.yield()
            finish.wait()
            return count
        }
        var started = reading.stream.makeAsyncIterator()
        await started.next()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        finish.signal()
        #expect(try await read == 0)
    }
}
