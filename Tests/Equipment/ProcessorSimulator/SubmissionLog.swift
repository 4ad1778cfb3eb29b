import Dispatch
package import Foundation
import HostSystem
import Locks

/// The log of all requests that reached the simulated processor. Each submission, and each answer that begins, is a
/// line on disk before the first byte of the answer is sent.
///
/// One thread writes all lines. During an fdatasync, further lines gather and share the next one, so the disk's sync
/// time does not limit the rate of submissions. If lines cannot be written, the thread removes what it wrote of them,
/// and the callers receive an error.
package final class SubmissionLog: Sendable {
    package typealias Record = PaymentRecords.Record
    package typealias Reply<Value> = @Sendable (Result<Value, LogUnavailable>) -> Void

    /// An operation that waits for the writing thread. Each connection waits for at most one operation, so the queue
    /// cannot grow beyond the number of connections.
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

    /// The state of the writing thread.
    private struct Written {
        var records: PaymentRecords
        var size: Int
        /// True if the content on disk is unknown.
        var isBroken = false
    }

    private let storage: any LogStorage
    private let queue = DispatchQueue(label: "submission-log")
    private let waiting = Mutex(Waiting())
    private let written: Mutex<Written>
    private let now: @Sendable () -> Date
    private let warn: @Sendable (String) -> Void

    /// Continues a log whose lines have already been read.
    ///
    /// - Parameters:
    ///   - records: the payments that the lines already in `storage` describe.
    ///   - size: the size of these lines in bytes.
    ///   - warn: called with a message when the log cannot be written.
    package init(
        storage: any LogStorage, records: PaymentRecords = PaymentRecords(), size: Int = 0,
        now: @escaping @Sendable () -> Date = { Date() }, warn: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.storage = storage
        written = Mutex(Written(records: records, size: size))
        self.now = now
        self.warn = warn
    }

    /// Opens or creates the file, and reads it. Removes an incomplete last line, with a warning.
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

    // MARK: Requests, whose replies arrive on the writing thread

    /// Records a submission, and the start of each answer that its scenario gives immediately. A repeated submission is
    /// recorded like the first; readers of the log recognise the repetition.
    package func submit(_ submission: Submission, reply: @escaping Reply<Record>) {
        enter(.submission(submission, reply))
    }

    /// Records that an answer to a submission begins later.
    package func recordAnswer(to record: Record, reply: @escaping Reply<Void>) { enter(.answer(record, reply)) }

    /// Returns a payment's record; nil if the payment was never submitted. The second request for a pending payment
    /// settles it.
    package func status(of payment: String, reply: @escaping Reply<Record?>) {
        enter(.question(payment: payment, reply))
    }

    /// Returns when all earlier entries are written and answered.
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

    /// Writes the lines of a batch of entries, and makes their replies.
    ///
    /// - Returns: the replies, which the caller must call without holding the lock.
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
                written.records.countStatusRequest(about: payment)
                let record = written.records[payment]
                return { reply(.success(record)) }
            }
        }
    }

    /// Returns the lines of each entry, in the order of the entries.
    private func lines(for entries: [Entry], _ records: PaymentRecords) -> [[LogLine]] {
        // `records` lacks the changes by earlier entries of this batch, so they are counted here.
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

    /// Appends lines to the storage, and syncs it.
    ///
    /// - Returns: true if the lines are on disk.
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
            // After a failed sync, a later one can succeed although these lines are not on disk, so the log cannot be
            // trusted.
            warn("the log cannot be brought to disk: \(error); answering 503 until a restart")
            takeBack(&written)
            written.isBroken = true
            return false
        }
        written.size += bytes.count
        return true
    }

    /// Removes lines that failed, so that no later line follows a partial one.
    private func takeBack(_ written: inout Written) {
        do throws(SystemError) {
            try storage.truncate(to: written.size)
        } catch {
            warn("what was written in part cannot be cut off: \(error); answering 503 until a restart")
            written.isBroken = true
        }
    }
}

/// The log could not be written, so no request may be answered.
package struct LogUnavailable: Error, Sendable, Equatable {
    package init() {}
}
