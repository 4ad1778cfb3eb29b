import AuditChain
import Foundation
import TestSupport
import Testing

@testable import Ledger

@Suite("Notes that no caller waits for", .everyEngine)
struct NoteTests {
    private func refusal(_ number: Int) -> AuditRecord {
        AuditRecord(
            time: AuditTime(LedgerFixture.noon + Double(number)), event: .decrypt(reference: nil),
            outcome: .refused(.signatureInvalid), caller: AuditCaller(name: AuditText("checkout"), uid: 1001, gid: 1002)
        )
    }

    @Test("returns while the writer is busy, and records the note afterwards")
    func recorded() async throws {
        let fixture = try await LedgerFixture()
        let pause = await WriterPause(fixture.ledger)
        for number in 1...5 { fixture.ledger.note(refusal(number)) }
        pause.end()
        #expect(try await fixture.ledger.append(refusal(6)) == 6)
        #expect(try await fixture.ledger.everyEntry().map(\.time) == (1...6).map { refusal($0).time })
    }

    @Test("gives notes half of the queue at most, and counts the dropped ones in a record")
    func flood() async throws {
        let fixture = try await LedgerFixture(waiting: 10)
        let pause = await WriterPause(fixture.ledger)
        for number in 1...25 { fixture.ledger.note(refusal(number)) }
        let release = try fixture.releasing(1)
        async let recorded = release(fixture.ledger)
        try await pause.wait(for: 6)
        pause.end()
        // The record of dropped notes comes first.
        #expect(try await recorded == RecordedVerdict(.released, sequence: 7))
        #expect(fixture.events.dropped == 20)
        let entries = try await fixture.ledger.everyEntry()
        #expect(entries.map(\.event) == ["records_dropped"] + Array(repeating: "decrypt", count: 6))
        #expect(entries[0].details["count"]?.numberValue?.text == "20")
    }

    @Test("records the count of dropped notes as soon as the ledger can write again")
    func unavailable() async throws {
        let fixture = try await LedgerFixture(busyTimeout: .milliseconds(50))
        try await dropThree(fixture)
        try await fixture.ledger.probe()
        let entries = try await fixture.ledger.everyEntry()
        #expect(entries.map(\.event) == ["records_dropped"])
        #expect(entries[0].details["count"]?.numberValue?.text == "3")
        // The dropped notes are recorded only once.
        try await fixture.ledger.probe()
        #expect(try await fixture.ledger.head().sequence == 1)
    }

    @Test("records the count of dropped notes when the ledger is closed, at the latest")
    func closing() async throws {
        let fixture = try await LedgerFixture(busyTimeout: .milliseconds(50))
        try await dropThree(fixture)
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        #expect(try await again.everyEntry().map(\.event) == ["records_dropped"])
        await again.close()
    }

    @Test("drops a note after the closing without any other effect")
    func afterClosing() async throws {
        let fixture = try await LedgerFixture()
        await fixture.ledger.close()
        fixture.ledger.note(refusal(1))
        #expect(fixture.events.dropped == 1)
        let again = try await fixture.reopened()
        #expect(try await again.head().sequence == 0)
        await again.close()
    }

    /// Drops three notes, while another program holds the lock that every write needs.
    private func dropThree(_ fixture: LedgerFixture) async throws {
        try await fixture.whileLocked {
            for number in 1...3 { fixture.ledger.note(refusal(number)) }
            try await wait(for: "three dropped notes") { fixture.events.dropped == 3 }
            await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
        }
    }
}
