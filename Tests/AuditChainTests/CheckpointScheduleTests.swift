import AuditChain
import Testing

@Suite("When a checkpoint is due")
struct CheckpointScheduleTests {
    private let start = ContinuousClock.now

    @Test("An idle chain needs none, however long it is idle")
    func idle() {
        var schedule = CheckpointSchedule(recorded: 10, sealed: 10, at: start)
        #expect(!schedule.isDue(at: start + .seconds(100_000)))
        #expect(schedule.deadline == nil)
        schedule.recorded(upTo: 10, at: start)
        #expect(schedule.deadline == nil)
    }

    @Test("It is due at the thousandth record, not before")
    func count() {
        var schedule = CheckpointSchedule(at: start)
        schedule.recorded(upTo: 999, at: start)
        #expect(!schedule.isDue(at: start))
        schedule.recorded(upTo: 1000, at: start)
        #expect(schedule.isDue(at: start))
        schedule.sealed(upTo: 1000, cut: start)
        #expect(!schedule.isDue(at: start + .seconds(61)))
    }

    @Test("It is due when the oldest unsealed record is 60 seconds old, not before")
    func age() {
        var schedule = CheckpointSchedule(at: start)
        schedule.recorded(upTo: 1, at: start + .seconds(5))
        schedule.recorded(upTo: 2, at: start + .seconds(60))
        #expect(!schedule.isDue(at: start + .milliseconds(64_999)))
        #expect(schedule.isDue(at: start + .seconds(65)))
        #expect(schedule.deadline == start + .seconds(65))
    }

    @Test("Records that came while a checkpoint was signed wait from its cut on")
    func overtaken() {
        var schedule = CheckpointSchedule(at: start)
        schedule.recorded(upTo: 1000, at: start)
        schedule.recorded(upTo: 1500, at: start + .seconds(2))
        schedule.sealed(upTo: 1000, cut: start + .seconds(1))
        #expect(schedule.unsealed == 500)
        #expect(schedule.deadline == start + .seconds(61))
    }

    @Test("Records without a checkpoint at start wait from there, and an older checkpoint unseals nothing")
    func resumed() {
        var schedule = CheckpointSchedule(recorded: 30, sealed: 20, at: start)
        #expect(schedule.unsealed == 10)
        #expect(schedule.isDue(at: start + .seconds(60)))
        schedule.sealed(upTo: 30, cut: start)
        schedule.sealed(upTo: 5, cut: start)
        #expect(schedule.unsealed == 0)
        schedule.sealed(upTo: 99, cut: start)
        schedule.recorded(upTo: 31, at: start)
        #expect(schedule.unsealed == 1)
    }
}
