import Testing

@testable import UsageRecording

@Suite("When a checkpoint is due")
struct UnsealedRecordsTests {
    private let start = ContinuousClock.now
    private let unsealed = UnsealedRecords()

    @Test("is never due for an idle chain")
    func idle() {
        unsealed.restart(end: 10, sealed: 10, at: start)
        #expect(!unsealed.isDue(at: start + .seconds(100_000)))
        #expect(unsealed.deadline == nil)
        unsealed.recorded(upTo: 10, at: start)
        #expect(unsealed.deadline == nil)
    }

    @Test("is due at the thousandth record, not before")
    func count() {
        unsealed.recorded(upTo: 999, at: start)
        #expect(!unsealed.isDue(at: start))
        unsealed.recorded(upTo: 1000, at: start)
        #expect(unsealed.isDue(at: start))
        unsealed.sealed(upTo: 1000, cut: start)
        #expect(!unsealed.isDue(at: start + .seconds(61)))
    }

    @Test("is due when the oldest unsealed record is 60 seconds old, not before")
    func age() {
        unsealed.recorded(upTo: 1, at: start + .seconds(5))
        unsealed.recorded(upTo: 2, at: start + .seconds(60))
        #expect(!unsealed.isDue(at: start + .milliseconds(64_999)))
        #expect(unsealed.isDue(at: start + .seconds(65)))
        #expect(unsealed.deadline == start + .seconds(65))
    }

    @Test("counts records appended during the signature as unsealed, and their age from the checkpoint's cut")
    func overtaken() {
        unsealed.recorded(upTo: 1000, at: start)
        unsealed.recorded(upTo: 1500, at: start + .seconds(2))
        unsealed.sealed(upTo: 1000, cut: start + .seconds(1))
        #expect(unsealed.count == 500)
        #expect(unsealed.deadline == start + .seconds(61))
    }

    @Test("counts the age of unsealed records from the program's start, and ignores an older checkpoint")
    func resumed() {
        unsealed.restart(end: 30, sealed: 20, at: start)
        #expect(unsealed.count == 10)
        #expect(unsealed.isDue(at: start + .seconds(60)))
        unsealed.sealed(upTo: 30, cut: start)
        unsealed.sealed(upTo: 5, cut: start)
        #expect(unsealed.count == 0)
        unsealed.recorded(upTo: 31, at: start)
        #expect(unsealed.count == 1)
    }

    @Test("never seals more than is recorded, and never counts a sealed record as unsealed")
    func sealedFirst() {
        unsealed.restart(end: 30, sealed: 99, at: start)
        #expect(unsealed.count == 0 && unsealed.deadline == nil)
        unsealed.sealed(upTo: 40, cut: start)
        unsealed.recorded(upTo: 31, at: start)
        #expect(unsealed.count == 0 && unsealed.deadline == nil)
        unsealed.recorded(upTo: 41, at: start)
        #expect(unsealed.count == 1)
    }
}
