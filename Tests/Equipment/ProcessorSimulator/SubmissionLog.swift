import Dispatch
package import Foundation
import HostSystem
import Synchronization

/// The judge of what reached the processor: every submission, and every answer that was begun, is a line on disk before a byte is
/// answered.
///
/// One thread writes, with one fdatasync for all lines that came while it was at the lines before them: how many submissions a
/// second there can be is not limited by the disk's syncs. Lines that could not be written are taken back, and whoever waits for
/// them is told; nothing that is answered is missing in the file.
package final class SubmissionLog: Sendable {
    package typealias Record = PaymentRecords.Record
    package typealias Reply<Value> = @Sendable (Result<Value, LogUnavailable>) -> Void

    /// What somebody waits for. Each connection waits for one thing at most, which bounds how many there are.
    private enum Entry: Sendable {
        case submission(Submission, Reply<Record>)
        case answer(Record, Reply<Void>)
        case question(payment: String, Reply<Record?>)

        func fail() {
            switch self {
            case .submission(_, let reply): reply(.failure(LogUnavailable()))
            case .answer(_, let reply): reply(.failure(LogUnavailable()))
            case .question(_, let reply): reply(.failure(LogUnavailable()))
            }
        }
    }

    private struct Waiting {
        var entries: [Entry] = []
        var isWriting = false
    }

    /// Only the writing thread has it.
    private struct Written {
        var records: PaymentRecords
        var size: Int
        /// Nothing is known of what is on disk any more.
        var isBroken = false
    }

    private let storage: any LogStorage
    private let queue = DispatchQueue(label: "submission-log")
    private let waiting = Mutex(Waiting())
    private let written: Mutex<Written>
    private let now: @Sendable () -> Date
    private let warn: @Sendable (String) -> Void

    /// - Parameters:
    ///   - records: what the storage's lines say.
    ///   - size: how many bytes they have.
    ///   - warn: told, in a sentence, when the log cannot be written.
    package init(
        storage: any LogStorage, records: PaymentRecords = PaymentRecords(), size: Int = 0,
        now: @escaping @Sendable () -> Date = { Date() }, warn: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.storage = storage
        written = Mutex(Written(records: records, size: size))
        self.now = now
        self.warn = warn
    }

    /// Opens the file, or makes it, and reads it back. What was torn off at its end is cut off, with a warning.
    package convenience init(
        path: String, warn: @escaping @Sendable (String) -> Void
    ) throws(LogFile.Failure) {
        let file = try LogFile(path: path, writable: true)
        let (records, size, tornBytes) = try file.read()
        if tornBytes > 0 {
            warn("\(path): the last line is torn, its \(tornBytes) bytes are cut off; nothing was answered for it")
            do throws(SystemError) {
                try file.truncate(to: size)
                try file.sync()
            } catch {
                throw .system(path: path, error)
            }
        }
        self.init(storage: file, records: records, size: size, warn: warn)
    }

    // MARK: What may be asked. The replies come on the writing thread.

    /// Records a submission, and the answers that are begun at once. Never found to be a repetition: that is for the reader of
    /// the log to judge.
    package func submit(_ submission: Submission, reply: @escaping Reply<Record>) {
        enter(.submission(submission, reply))
    }

    /// Records that an answer to a submission is begun later.
    package func recordAnswer(to record: Record, reply: @escaping Reply<Void>) { enter(.answer(record, reply)) }

    /// What became of a payment; nil for one that was never submitted. A pending one is settled by its second question.
    package func status(of payment: String, reply: @escaping Reply<Record?>) {
        enter(.question(payment: payment, reply))
    }

    /// Returns when everything that was entered is written and replied to.
    package func flush() async {
        await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
    }

    private func enter(_ entry: Entry) {
        let begins = waiting.withLock { waiting in
            waiting.entries.append(entry)
            defer { waiting.isWriting = true }
            return !waiting.isWriting
        }
        if begins { queue.async { self.write() } }
    }

    // MARK: The writing thread

    private func write() {
        while let entries = nextEntries() {
            let replies = written.withLock { written in write(entries, &written) }
            for reply in replies { reply() }
        }
    }

    private func nextEntries() -> [Entry]? {
        waiting.withLock { waiting in
            guard !waiting.entries.isEmpty else {
                waiting.isWriting = false
                return nil
            }
            defer { waiting.entries = [] }
            return waiting.entries
        }
    }

    /// - Returns: the replies, for when nothing is locked.
    private func write(_ entries: [Entry], _ written: inout Written) -> [@Sendable () -> Void] {
        let lines = lines(for: entries, written.records)
        let isWritten = append(lines.flatMap(\.self), &written)
        return zip(entries, lines).map { entry, lines in
            guard isWritten else { return { entry.fail() } }
            for line in lines where !written.records.apply(line) {
                preconditionFailure("a line that does not follow from those before it")
            }
            switch entry {
            case .submission(let submission, let reply):
                guard let record = written.records[submission.payment] else { return { entry.fail() } }
                return { reply(.success(record)) }
            case .answer(_, let reply): return { reply(.success(())) }
            case .question(let payment, let reply):
                written.records.countQuestion(about: payment)
                let record = written.records[payment]
                return { reply(.success(record)) }
            }
        }
    }

    /// The lines that each of the entries needs.
    private func lines(for entries: [Entry], _ records: PaymentRecords) -> [[LogLine]] {
        // What the entries before in this batch add to the records.
        var submissions: [String: Int] = [:]
        var settled: Set<String> = []
        return entries.map { entry in
            switch entry {
            case .submission(let submission, _):
                let payment = submission.payment
                let number = submissions[payment, default: records.submissions(of: payment)] + 1
                submissions[payment] = number
                let answers = Array(
                    repeating: LogLine(.answered(payment: payment), number: number),
                    count: submission.scenario.immediateAnswers)
                return [LogLine(.submitted(submission), number: number)] + answers
            case .answer(let record, _):
                return [LogLine(.answered(payment: record.payment), number: record.number)]
            case .question(let payment, _):
                guard let record = records[payment], record.isSettledByNextQuestion, settled.insert(payment).inserted
                else { return [] }
                return [LogLine(.settled(payment: payment), number: record.number)]
            }
        }
    }

    /// - Returns: whether the lines are on disk.
    private func append(_ lines: [LogLine], _ written: inout Written) -> Bool {
        guard !lines.isEmpty else { return true }
        guard !written.isBroken else { return false }
        let time = now()
        let bytes = lines.flatMap { $0.bytes(at: time) }
        do throws(SystemError) {
            try storage.append(bytes)
        } catch {
            warn("the log cannot be written: \(error); answering 503")
            takeBack(&written)
            return false
        }
        do throws(SystemError) {
            try storage.sync()
        } catch {
            // After a sync that failed the next one may succeed without these lines being on disk.
            warn("the log cannot be brought to disk: \(error); answering 503 until a restart")
            takeBack(&written)
            written.isBroken = true
            return false
        }
        written.size += bytes.count
        return true
    }

    /// Half a line must not stand before the next one.
    private func takeBack(_ written: inout Written) {
        do throws(SystemError) {
            try storage.truncate(to: written.size)
        } catch {
            warn("what was written in part cannot be cut off: \(error); answering 503 until a restart")
            written.isBroken = true
        }
    }
}

/// The log could not be written, so nothing may be answered.
package struct LogUnavailable: Error, Sendable, Equatable {
    package init() {}
}
