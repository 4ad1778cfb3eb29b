import Foundation
import Locks
import ProcessorSimulator
import TestSupport
import Testing

/// The submission log: its content, the time at which it is on disk, and reading it after a restart.
@Suite struct SubmissionLogTests {
    private func submission(_ cents: Int = 0, payment: String = SubmissionRequest.payment) throws -> Submission {
        try Submission(body: Array(SubmissionRequest(cents: cents, payment: payment).body.utf8))
    }

    private func payment(_ number: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: 64 - digits.count) + digits
    }

    @Test("writes only time, event, payment, amount and outcome in a line")
    func line() async throws {
        let storage = ScriptedStorage()
        let log = SubmissionLog(storage: storage, now: { Date(timeIntervalSince1970: 1_769_860_800.25) })
        _ = try await log.submit(submission(81))
        #expect(
            storage.lines == [
                #"{"time":"2026-01-31T12:00:00.250Z","event":"submitted","payment":"\#(SubmissionRequest.payment)","#
                    + #""amount":"10.81","currency":"USD","outcome":"insufficient_funds","number":1}"#,
                #"{"time":"2026-01-31T12:00:00.250Z","event":"answered","payment":"\#(SubmissionRequest.payment)","#
                    + #""number":1}"#,
            ])
    }

    @Test("answers no submission before the sync has returned")
    func order() async throws {
        let storage = ScriptedStorage()
        let log = SubmissionLog(storage: storage)
        storage.syncHang.begin()
        let submission = try submission()
        let first = Begun { try? await log.submit(submission) }
        try await storage.syncHang.waitUntilBlocking()
        #expect(!first.hasEnded && storage.lines.count == 2)
        storage.syncHang.end()
        #expect(try await first.value()?.number == 1)
    }

    @Test("writes all submissions that arrive during a sync with the next one")
    func groups() async throws {
        let storage = ScriptedStorage()
        let log = SubmissionLog(storage: storage)
        storage.syncHang.begin()
        let replies = Shared(0)
        for number in 0..<200 {
            log.submit(try submission(payment: payment(number))) { _ in replies.increment() }
            if number == 0 { try await storage.syncHang.waitUntilBlocking() }
        }
        storage.syncHang.end()
        try await wait(for: "all replies") { replies.current == 200 }
        #expect(storage.state.current.syncs == 2)
        #expect(storage.lines.count == 400)
    }

    @Test("numbers simultaneous submissions of one payment in the order of the log")
    func numbers() async throws {
        let storage = ScriptedStorage()
        let log = SubmissionLog(storage: storage)
        let submission = try submission()
        let numbers = await withTaskGroup(of: Int?.self) { group in
            for _ in 0..<50 { group.addTask { try? await log.submit(submission).number } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(numbers.compactMap { $0 }.sorted() == Array(1...50))
        let submitted = storage.lines.filter { $0.contains("submitted") }
        #expect(submitted.count == 50)
        for (position, line) in submitted.enumerated() { #expect(line.hasSuffix(#""number":\#(position + 1)}"#)) }
    }

    @Test("answers submissions of one payment that share a sync, each with the outcome of its amount")
    func ownAmount() async throws {
        let storage = ScriptedStorage()
        let log = SubmissionLog(storage: storage)
        let statuses = Shared<[String]>([])
        storage.syncHang.begin()
        log.submit(try submission(payment: payment(9))) { _ in }
        try await storage.syncHang.waitUntilBlocking()
        for cents in [0, 80, 81] {
            log.submit(try submission(cents)) { result in
                let said = (try? result.get()).map { "\($0.number) \($0.status)" }
                statuses.change { $0.append(said ?? "refused") }
            }
        }
        storage.syncHang.end()
        try await wait(for: "three replies") { statuses.current.count == 3 }
        #expect(statuses.current == ["1 authorized", "2 captured", "3 declined"])
    }

    @Test("knows all payments after a restart, and continues numbers and references")
    func readBack() async throws {
        let directory = try FreshDirectory()
        let path = directory.path("log")
        do {
            let log = try SubmissionLog(path: path, warn: { _ in })
            _ = try await log.submit(submission(93))
            _ = try await log.submit(submission(81, payment: payment(2)))
            for _ in 0..<2 { _ = try await log.status(of: SubmissionRequest.payment) }
            await log.flush()
        }
        let log = try SubmissionLog(path: path, warn: { Issue.record("warned: \($0)") })
        let settled = try #require(try await log.status(of: SubmissionRequest.payment))
        #expect(settled.status == .authorized && settled.reference == "sim-000001")
        #expect(try await log.status(of: payment(2))?.status == .declined)
        #expect(try await log.status(of: payment(3)) == nil)
        let again = try await log.submit(submission(0, payment: payment(2)))
        #expect(again.number == 2 && again.reference == "sim-000003" && again.status == .authorized)
    }

    @Test("removes a last line torn at any byte with a warning, and keeps the lines before it")
    func torn() async throws {
        let directory = try FreshDirectory()
        let whole = try await bytesOfALog(payments: 2)
        let lines = whole.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: true)
        let start = whole.count - (lines.last?.count ?? 0) - 1
        for cut in start..<whole.count {
            let path = try directory.write(Array(whole[..<cut]), to: "log-\(cut)")
            let warnings = Shared<[String]>([])
            let log = try SubmissionLog(path: path, warn: { warning in warnings.change { $0.append(warning) } })
            #expect(warnings.current.count == (cut == start ? 0 : 1))
            #expect(try Data(contentsOf: URL(filePath: path)).count == start)
            _ = try await log.submit(submission(payment: payment(9)))
            #expect(try LogSummary(path: path).tornBytes == 0)
        }
    }

    @Test("refuses a log that no simulator can have written, and names the first wrong line")
    func damaged() async throws {
        let directory = try FreshDirectory()
        let whole = String(decoding: try await bytesOfALog(payments: 3), as: UTF8.self)
        let lines = whole.split(separator: "\n").map(String.init)
        let texts = [
            // In each of these logs, one line is missing, repeated, changed, not JSON, or too long. The number is the
            // first line that the reader must reject.
            (1, lines[1...].joined(separator: "\n")), (2, [lines[0], lines[0]].joined(separator: "\n")),
            (1, lines[0].replacingOccurrences(of: "\"number\":1", with: "\"number\":2")),
            (1, lines[0].replacingOccurrences(of: "\"authorized\"", with: "\"captured\"")),
            (3, "\(lines[0])\n\(lines[1])\n{}"),
            (2, lines[0] + "\n" + String(repeating: "x", count: 5000)),
        ]
        for (number, (line, text)) in texts.enumerated() {
            let path = try directory.write(text + "\n", to: "log-\(number)")
            #expect(throws: LogFile.Failure.damaged(path: path, line: line)) {
                try SubmissionLog(path: path, warn: { _ in })
            }
            #expect(try String(contentsOfFile: path, encoding: .utf8) == text + "\n")
        }
    }

    @Test("permits one simulator at a time to write a log, and a summary to be read meanwhile")
    func lock() async throws {
        let path = try FreshDirectory()
        let log = try SubmissionLog(path: path.path("log"), warn: { _ in })
        _ = try await log.submit(submission())
        #expect(throws: LogFile.Failure.inUse(path: path.path("log"))) {
            try SubmissionLog(path: path.path("log"), warn: { _ in })
        }
        #expect(try LogSummary(path: path.path("log")).submittedTwice == 0)
    }

    @Test("refuses a file that is not regular")
    func notRegular() throws {
        let directory = try FreshDirectory()
        #expect(throws: LogFile.Failure.self) { try SubmissionLog(path: directory.path, warn: { _ in }) }
        #expect(throws: LogFile.Failure.notRegular(path: "/dev/full")) {
            try SubmissionLog(path: "/dev/full", warn: { _ in })
        }
    }

    @Test(
        "refuses submissions when the disk is full, leaves no partial line, and continues once there is room",
        arguments: [0, 1, 100, 250])
    func full(_ room: Int) async throws {
        let storage = ScriptedStorage()
        let warnings = Shared(0)
        let log = SubmissionLog(storage: storage, warn: { _ in warnings.increment() })
        _ = try await log.submit(submission())
        let before = storage.state.current.bytes
        storage.state.change { $0.room = room }
        let second = try submission(payment: payment(2))
        await #expect(throws: LogUnavailable.self) { try await log.submit(second) }
        #expect(storage.state.current.bytes == before && warnings.current == 1)
        #expect(try await log.status(of: payment(2)) == nil)
        storage.state.change { $0.room = nil }
        #expect(try await log.submit(second).number == 1)
    }

    @Test("refuses everything after a failed sync until a restart")
    func failedSync() async throws {
        let storage = ScriptedStorage()
        let log = SubmissionLog(storage: storage)
        storage.state.change { $0.failsSync = true }
        let submission = try submission()
        await #expect(throws: LogUnavailable.self) { try await log.submit(submission) }
        storage.state.change { $0.failsSync = false }
        await #expect(throws: LogUnavailable.self) { try await log.submit(submission) }
        #expect(storage.lines.isEmpty)
    }

    @Test("refuses everything after a partial line that cannot be removed")
    func failedTruncate() async throws {
        let storage = ScriptedStorage()
        let log = SubmissionLog(storage: storage)
        storage.state.change { ($0.room, $0.failsTruncate) = (10, true) }
        let submission = try submission()
        await #expect(throws: LogUnavailable.self) { try await log.submit(submission) }
        storage.state.change { ($0.room, $0.failsTruncate) = (nil, false) }
        await #expect(throws: LogUnavailable.self) { try await log.submit(submission) }
        #expect(storage.state.current.bytes.count == 10)
    }

    private func bytesOfALog(payments: Int) async throws -> [UInt8] {
        let storage = ScriptedStorage()
        let log = SubmissionLog(storage: storage)
        for number in 0..<payments { _ = try await log.submit(submission(payment: payment(number))) }
        return storage.state.current.bytes
    }
}

extension SubmissionLog {
    func submit(_ submission: Submission) async throws(LogUnavailable) -> Record {
        try await withCheckedContinuation { continuation in
            submit(submission) { continuation.resume(returning: $0) }
        }.get()
    }

    func status(of payment: String) async throws(LogUnavailable) -> Record? {
        try await withCheckedContinuation { continuation in
            status(of: payment) { continuation.resume(returning: $0) }
        }.get()
    }
}
