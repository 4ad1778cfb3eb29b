import Foundation
import Glibc
import HSMWorker
import Locks
import WorkerLink
import WorkerProtocol

/// Restores keys within this process, in two ways: through a queue between threads, or directly in each session's
/// thread.
final class WithinProcess: Sendable {
    private let sessions: Int
    private let requests = Handover<(identifier: UInt64, request: WorkerRequest)>()
    private let answers = Handover<(UInt64, WorkerAnswer)>()
    /// A function that receives answers on the session's thread.
    // In a structure: the compiler wraps a function that is a generic argument again at each access of the mutex, until a
    // call of it overflows the stack.
    private struct Receiver {
        let receive: @Sendable (UInt64, WorkerAnswer) -> Void
    }
    /// The receiver of answers; nil to hand answers over to another thread.
    private let kept = Mutex<Receiver?>(nil)

    init(_ opening: HSMTokenOpening) throws {
        let hsmToken = try ServedToken(opening)
        sessions = Int(opening.sessions)
        hsmToken.startThreads(reading: requests.take) { [weak self, answers] identifier, answer in
            if let keep = self?.kept.withLock({ $0 }) { return keep.receive(identifier, answer) }
            answers.put((identifier, answer))
        }
        requests.put((0, .listKeys))
        if case .failed(let failure)? = answers.take().first?.1 { throw failure }
    }

    /// Makes calls from one thread, which keeps `inFlight` calls under way while the sessions' threads execute them. A
    /// daemon that loaded the library itself would do this, because its threads must not block.
    /// - Returns: the number of answers, all of them right.
    func handedOver(_ work: Work, inFlight: Int, until end: ContinuousClock.Instant) throws -> Int {
        var (sent, answered) = (0, 0)
        while sent < inFlight {
            requests.put((UInt64(sent), work.request(sent)))
            sent += 1
        }
        while answered < sent {
            let batch = answers.take()
            let goesOn = ContinuousClock.now < end
            for (identifier, answer) in batch {
                guard work.isRight(answer, Int(identifier)) else { throw WrongAnswer() }
                answered += 1
                guard goesOn else { continue }
                requests.put((UInt64(sent), work.request(sent)))
                sent += 1
            }
        }
        return answered
    }

    /// Makes calls in every session's thread, which puts its next request into the queue itself. No other thread is
    /// involved.
    /// - Returns: the number of answers, all of them right.
    func bare(_ work: Work, until end: ContinuousClock.Instant) throws -> Int {
        let tally = Tally()
        kept.withLock { kept in
            kept = Receiver { [requests, sessions] number, answer in
                guard tally.count(isRight: work.isRight(answer, Int(number))), ContinuousClock.now < end else {
                    tally.left.signal()
                    return
                }
                let next = number + UInt64(sessions)
                requests.put((next, work.request(Int(next))))
            }
        }
        for session in 0..<sessions { requests.put((UInt64(session), work.request(session))) }
        for _ in 0..<sessions { tally.left.wait() }
        kept.withLock { $0 = nil }
        return try tally.total()
    }
}

private final class Tally: Sendable {
    /// A semaphore that each session's thread signals after its last call.
    let left = DispatchSemaphore(value: 0)
    private let state = Mutex((count: 0, isWrong: false))

    /// Counts an answer.
    ///
    /// - Returns: false if this or an earlier answer is wrong.
    func count(isRight: Bool) -> Bool {
        state.withLock { state in
            state.count += 1
            if !isRight { state.isWrong = true }
            return !state.isWrong
        }
    }

    func total() throws -> Int {
        let (count, isWrong) = state.withLock { $0 }
        if isWrong { throw WrongAnswer() }
        return count
    }
}

struct WrongAnswer: Error, CustomStringConvertible {
    var description: String { "a wrong answer within the process" }
}

/// A queue from one thread to another. Sendable because the lock of `condition` guards the elements.
private final class Handover<Element>: @unchecked Sendable {
    private var elements: [Element] = []
    private let condition = NSCondition()

    func put(_ element: Element) {
        condition.lock()
        elements.append(element)
        condition.signal()
        condition.unlock()
    }

    func take() -> [Element] {
        condition.lock()
        defer { condition.unlock() }
        while elements.isEmpty { condition.wait() }
        defer { elements = [] }
        return elements
    }
}

extension WorkerProcess {
    /// Makes calls until `end`, and keeps `inFlight` of them under way.
    ///
    /// - Returns: the number of answers, all of them right.
    func restore(_ work: Work, inFlight: Int, until end: ContinuousClock.Instant) throws -> Int {
        var (sent, answered) = (0, 0)
        var output: [UInt8] = []
        while sent < inFlight {
            output += try work.request(sent).encoded(identifier: UInt64(sent))
            sent += 1
        }
        while answered < sent {
            if !output.isEmpty { try write(output) }
            output.removeAll(keepingCapacity: true)
            try read()
            let goesOn = ContinuousClock.now < end
            while let frame = try readFrame() {
                guard work.isRight(try WorkerAnswer(frame), Int(frame.identifier)) else {
                    throw Failure("a wrong answer from the worker")
                }
                answered += 1
                guard goesOn else { continue }
                output += try work.request(sent).encoded(identifier: UInt64(sent))
                sent += 1
            }
        }
        return answered
    }
}
