import AuditChain
import DatabaseKit
import Foundation
import Locks
import SQLiteFiles
import TestSupport
import Testing

@testable import Ledger
@testable import SQLiteLedger

/// Calls to a ledger whose disk does not respond. No caller waits longer than its deadline.
///
/// The tests make deadlines pass by calling `pass`, so that no result depends on the machine's speed. An answer that
/// arrives while the disk hangs cannot come from the disk.
@Suite("A ledger that hangs")
struct HangingLedgerTests {
    private let hang = Hang()

    /// Starts a call in a task, whose answer the test awaits later.
    private func begin<T: Sendable>(
        _ fixture: LedgerFixture, _ body: @escaping @Sendable (any TestedLedger) async throws -> T
    ) -> Begun<Result<T, any Error>> {
        Begun {
            do {
                return .success(try await body(fixture.ledger))
            } catch {
                return .failure(error)
            }
        }
    }

    /// Makes the deadlines of all calls pass.
    private func pass(_ fixture: LedgerFixture) { fixture.sqlite.deadlines.expire(asOf: .max - 1) }

    private func mayBeWritten<T>(_ result: Result<T, any Error>) -> Bool? {
        if case .failure(LedgerFailure.timedOut(_, let mayBeWritten)) = result { mayBeWritten } else { nil }
    }

    @Test(
        "answers a release at its deadline when its commit hangs, discards the late verdict, and repeats it later")
    func commit() async throws {
        let fixture = try await LedgerFixture()
        try await SQLiteFaults(beforeCommit: hang.pass).install(on: fixture.sqlite.writer.connection)
        defer { hang.end() }
        let request = try fixture.request(1)
        hang.begin()
        let release = begin(fixture) { try await $0.release(request, recording: LedgerFixture.record(of: request)) }
        try await hang.waitUntilBlocking()
        pass(fixture)
        #expect(try await mayBeWritten(release.value()) == true)
        #expect(hang.held == 1, "it was the deadline that answered")
        hang.end()
        try await wait(for: "the late commit") { try await fixture.ledger.head().sequence == 1 }
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeated)
        #expect(try await fixture.ledger.release(fixture.request(1, reference: nil)) == .replayed)
    }

    @Test("answers calls that wait for a hanging commit, and never writes them")
    func behind() async throws {
        let fixture = try await LedgerFixture()
        try await SQLiteFaults(beforeCommit: hang.pass).install(on: fixture.sqlite.writer.connection)
        defer { hang.end() }
        hang.begin()
        let first = begin(fixture, try fixture.releasing(1))
        try await hang.waitUntilBlocking()
        let others = try (2...4).map { begin(fixture, try fixture.releasing($0)) }
        let probe = begin(fixture) { try await $0.probe() }
        try await wait(for: "four that wait") { fixture.ledger.waitingWrites == 4 }
        pass(fixture)
        #expect(try await mayBeWritten(first.value()) == true)
        for other in others { #expect(try await mayBeWritten(other.value()) == false) }
        #expect(try await mayBeWritten(probe.value()) == false)
        hang.end()
        try await fixture.ledger.probe()
        #expect(try await fixture.ledger.head().sequence == 1)
        for number in 2...4 {
            #expect(try await fixture.ledger.release(fixture.request(number, reference: nil)) == .released)
        }
    }

    @Test("queues only notes while the writer is stuck in a commit, and at most half of the queue")
    func stuck() throws {
        let queue = CommitQueue<NumberedWrite>(
            capacity: 4, deadlines: LedgerDeadlines(timeout: .zero))
        guard case .begins = queue.enter(1, isNote: false) else {
            Issue.record("it does not begin")
            return
        }
        #expect(queue.next() == [1])
        for _ in 0..<10 {
            guard case .stuck = queue.enter(2, isNote: false) else {
                Issue.record("it is queued")
                return
            }
        }
        for note: NumberedWrite in [3, 4] {
            guard case .joins = queue.enter(note, isNote: true) else {
                Issue.record("a note is not queued")
                return
            }
        }
        guard case .full = queue.enter(5, isNote: true) else {
            Issue.record("notes have no bound")
            return
        }
        #expect(queue.next() == [3, 4] && queue.next() == nil)
    }

    @Test("waits a moment with a commit for each release under way, and for none that already waits for it")
    func waitsForOthers() throws {
        let pauses = Mutex<[Duration]>([])
        let arriving = Mutex<(@Sendable () -> Void)?>(nil)
        let releases = ReleasesUnderWay()
        let queue = CommitQueue<NumberedWrite>(
            capacity: 4096, deadlines: LedgerDeadlines(timeout: .seconds(10)), moment: releases.worthWaiting(with:),
            pause: { moment in
                pauses.withLock { $0.append(moment) }
                arriving.withLock { $0 }?()
            })
        func paused() -> [Duration] { pauses.withLock { $0 } }

        releases.begin()
        _ = queue.enter(1, isNote: false)
        #expect(queue.next() == [1] && queue.next() == nil)
        #expect(paused().isEmpty, "a release that is alone waited")

        for _ in 0..<3 { releases.begin() }
        #expect(queue.next() == nil)
        #expect(paused().isEmpty, "nothing was there to commit")
        _ = queue.enter(2, isNote: false)
        arriving.withLock { $0 = { [queue] in _ = queue.enter(3, isNote: false) } }
        #expect(queue.next() == [2, 3], "what came meanwhile does not share the commit")
        #expect(paused() == [.microseconds(120)])

        arriving.withLock { $0 = nil }
        for _ in 0..<1000 { releases.begin() }
        _ = queue.enter(4, isNote: false)
        #expect(queue.next() == [4])
        #expect(paused().last == .milliseconds(5), "the wait has no bound")

        for _ in 0..<1004 { releases.end() }
        _ = queue.enter(5, isNote: false)
        #expect(queue.next() == [5] && paused().count == 2, "releases that have ended were waited for")
    }

    @Test("counts a record as dropped if it was not written before its caller left")
    func lostRecord() async throws {
        let isBroken = Mutex(true)
        let fixture = try await LedgerFixture()
        try await SQLiteFaults(beforeCommit: { [hang] in
            hang.pass()
            if isBroken.withLock({ $0 }) { throw LedgerFixture.Broken() }
        }).install(on: fixture.sqlite.writer.connection)
        defer { hang.end() }
        hang.begin()
        let append = begin(fixture) {
            try await $0.append(AuditRecord(time: AuditTime(LedgerFixture.noon), event: .stop))
        }
        try await hang.waitUntilBlocking()
        pass(fixture)
        #expect(try await mayBeWritten(append.value()) == true)
        #expect(fixture.events.dropped == 0)
        hang.end()
        try await wait(for: "the count") { fixture.events.dropped == 1 }
        isBroken.withLock { $0 = false }
        try await fixture.ledger.probe()
        #expect(try await fixture.ledger.everyEntry().map(\.event) == ["records_dropped"])
    }

    @Test("answers a hanging read at its deadline, skips later reads, and limits their number")
    func reads() async throws {
        let fixture = try await LedgerFixture()
        defer { hang.end() }
        hang.begin()
        let (key, reader, capacity) = (
            fixture.key, fixture.sqlite.connections.reader, SQLiteReader<LedgerFailure>.capacity
        )
        let first = begin(fixture) { [hang] _ in try await reader.read { _ in hang.pass() } }
        try await hang.waitUntilBlocking()
        let reads = (1..<capacity).map { _ in begin(fixture) { try await $0.keyRecord(key) } }
        try await wait(for: "the reads") { reader.waiting == capacity }
        await #expect(throws: LedgerFailure.overloaded) { try await fixture.ledger.head() }
        // A call counts as waiting slightly before its deadline is registered, so the deadlines must pass repeatedly.
        try await wait(for: "the answers") {
            pass(fixture)
            return first.hasEnded && reads.allSatisfy(\.hasEnded)
        }
        #expect(try await mayBeWritten(first.value()) == true)
        for read in reads { #expect(try await mayBeWritten(read.value()) != nil) }
        #expect(hang.held == 1)
        hang.end()
        try await wait(for: "the queue's end") { reader.waiting == 0 }
        #expect(try await fixture.ledger.head().sequence == 0)
    }

    @Test("gives up a copy that makes no progress, and begins no second one while the first one's thread hangs")
    func copy() async throws {
        let fixture = try await LedgerFixture()
        defer { hang.end() }
        let (first, second) = (fixture.directory.path("first"), fixture.directory.path("second"))
        HangingFiles.hang(first + ".partial", hang)
        hang.begin()
        let copy = begin(fixture) { try await $0.backup(to: first) }
        try await hang.waitUntilBlocking()
        await #expect(throws: LedgerBackupError.self) { try await fixture.ledger.backup(to: second) }
        pass(fixture)
        let given = try await copy.value()
        #expect(throws: LedgerBackupError.self) { try given.get() }
        #expect(hang.held == 1)
        hang.end()
        try await wait(for: "a copy") { (try? await fixture.ledger.backup(to: second)) != nil }
        #expect(!FileManager.default.fileExists(atPath: first), "a call that no caller awaits does not remain")
    }

    @Test("closes without waiting for a thread that hangs")
    func closing() async throws {
        let fixture = try await LedgerFixture()
        defer { hang.end() }
        hang.begin()
        let reader = fixture.sqlite.connections.reader
        let read = begin(fixture) { [hang] _ in try await reader.read { _ in hang.pass() } }
        try await hang.waitUntilBlocking()
        let closing = begin(fixture) { await $0.close() }
        try await wait(for: "the end of closing") {
            pass(fixture)
            return closing.hasEnded
        }
        #expect(try await mayBeWritten(read.value()) != nil && hang.held == 1)
    }

    @Test("opens without waiting for a hanging disk, and can open the ledger when the disk answers again")
    func opening() async throws {
        let directory = try FreshDirectory()
        defer { hang.end() }
        hang.begin()
        var settings = SQLiteLedger.Settings(path: directory.path("ledger.sqlite"), node: "node-1")
        HangingFiles.hang(settings.path, hang)
        settings.timeout = .milliseconds(20)
        let hanging = settings
        let error = await #expect(throws: LedgerOpeningError.self) {
            try await SQLiteLedger.open(hanging)
        }
        guard case .notNow? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        try await hang.waitUntilBlocking()
        hang.end()
        settings.timeout = .seconds(3600)
        let answering = settings
        try await wait(for: "the lock") {
            guard let ledger = try? await SQLiteLedger.open(answering) else { return false }
            await ledger.close()
            return true
        }
    }

    @Test(
        "passes the deadline by itself, discards late answers, and begins nothing that has not begun"
    )
    func deadline() async throws {
        for hasBegun in [false, true] {
            // On a busy machine, a short deadline may pass before the engine begins, so each attempt allows more time.
            for milliseconds in sequence(first: 1, next: { $0 * 2 }) {
                let calls = Calls()
                var began = false
                let error = await #expect(throws: LedgerFailure.self) {
                    try await LedgerDeadlines(timeout: .milliseconds(milliseconds)).answer { (call: LedgerCall<Int>) in
                        began = hasBegun && call.begin()
                        calls.keep(call)
                    }
                }
                let call = try #require(calls.kept)
                #expect(!call.begin() && !call.resume(.success(1)) && !call.extendDeadline())
                guard began == hasBegun else { continue }
                #expect(error == .timedOut(after: .milliseconds(milliseconds), mayBeWritten: hasBegun))
                break
            }
        }
        let answered = LedgerDeadlines(timeout: .seconds(3600))
        #expect(try await answered.answer { (call: LedgerCall<Int>) in call.resume(.success(2)) } == 2)
    }

    @Test("keeps waiting for a copy that makes progress")
    func moves() async throws {
        let deadlines = LedgerDeadlines(timeout: .seconds(3600))
        let calls = Calls()
        let answer = Task { try await deadlines.answer { (call: LedgerCall<Int>) in calls.keep(call) } }
        try await wait(for: "the call") { calls.kept != nil }
        let call = try #require(calls.kept)
        let first = call.deadline
        #expect(call.extendDeadline() && call.deadline > first)
        deadlines.expire(asOf: first)
        #expect(call.begin(), "it still waits")
        call.resume(.success(3))
        #expect(try await answer.value == 3)
    }

    @Test(
        "reports the end of the record, also after notes and after a lost acknowledgement")
    func recorded() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        #expect(fixture.events.recorded == 0)
        fixture.ledger.note(LedgerFixture.record(of: try fixture.request(1)))
        try await wait(for: "the note") { fixture.events.recorded == 1 }
        _ = try await fixture.releasing(2)(fixture.ledger)
        #expect(fixture.events.recorded == 2)
        fixture.loseAcknowledgement()
        _ = try await fixture.releasing(3)(fixture.ledger)
        try await wait(for: "what was read back") { fixture.events.recorded == 3 }
        // A write without a record reports nothing.
        try await fixture.ledger.probe()
        #expect(fixture.events.recorded == 3)
    }
}

/// Keeps a reference to a call, so that the call is not released without an answer.
private final class Calls: Sendable {
    private let call = Mutex<LedgerCall<Int>?>(nil)

    var kept: LedgerCall<Int>? { call.withLock { $0 } }

    func keep(_ new: LedgerCall<Int>) { call.withLock { $0 = new } }
}

private struct NumberedWrite: QueuedWrite, Equatable, ExpressibleByIntegerLiteral {
    let number: Int
    let begin: @Sendable () -> Bool = { true }
    let fail: @Sendable (LedgerFailure) -> Void = { _ in }

    init(integerLiteral number: Int) { self.number = number }

    static func == (one: NumberedWrite, other: NumberedWrite) -> Bool { one.number == other.number }
}
