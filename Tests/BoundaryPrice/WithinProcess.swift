import Foundation
import HSMWorker
import Synchronization
import WorkerProtocol

/// The same work without the boundary, in two ways.
final class WithinProcess: Sendable {
    private let token: ServedToken
    private let sessions: Int
    private let answers = Answers()

    init(_ opening: TokenOpening) throws {
        token = try ServedToken(opening)
        sessions = Int(opening.sessions)
        if case .failed(let failure) = token.answer(.listKeys, in: 0) { throw failure }
        token.startThreads { [answers] in answers.put($0, $1) }
    }

    /// One thread keeps so many calls in flight, and the sessions' threads make them: as a daemon would have to do it,
    /// whose own threads must not block.
    /// - Returns: how many were answered; all of them right.
    func handedOver(_ work: Work, inFlight: Int, until end: ContinuousClock.Instant) throws -> Int {
        var (sent, answered) = (0, 0)
        while sent < inFlight {
            token.submit(work.request(sent), identifier: UInt64(sent))
            sent += 1
        }
        while answered < sent {
            let batch = answers.take()
            let goesOn = ContinuousClock.now < end
            for (identifier, answer) in batch {
                guard work.isRight(answer, Int(identifier)) else { throw WrongAnswer() }
                answered += 1
                guard goesOn else { continue }
                token.submit(work.request(sent), identifier: UInt64(sent))
                sent += 1
            }
        }
        return answered
    }

    /// Every session has a thread that makes one call after the other: nothing is handed over.
    /// - Returns: how many were answered; all of them right.
    func bare(_ work: Work, until end: ContinuousClock.Instant) throws -> Int {
        let total = Atomic<Int>(0)
        let wrong = Atomic<Bool>(false)
        DispatchQueue.concurrentPerform(iterations: sessions) { session in
            var (number, count) = (session, 0)
            while ContinuousClock.now < end {
                if !work.isRight(token.answer(work.request(number), in: session), number) {
                    wrong.store(true, ordering: .relaxed)
                    return
                }
                number += sessions
                count += 1
            }
            total.add(count, ordering: .relaxed)
        }
        if wrong.load(ordering: .relaxed) { throw WrongAnswer() }
        return total.load(ordering: .relaxed)
    }
}

struct WrongAnswer: Error, CustomStringConvertible {
    var description: String { "a wrong answer within the process" }
}

/// Answers on their way from the sessions' threads to the one that asked.
private final class Answers: @unchecked Sendable {
    // Guarded by `condition`.
    private var answers: [(UInt64, WorkerAnswer)] = []
    private let condition = NSCondition()

    func put(_ identifier: UInt64, _ answer: WorkerAnswer) {
        condition.lock()
        answers.append((identifier, answer))
        condition.signal()
        condition.unlock()
    }

    /// Blocks until there are some.
    func take() -> [(UInt64, WorkerAnswer)] {
        condition.lock()
        defer { condition.unlock() }
        while answers.isEmpty { condition.wait() }
        defer { answers = [] }
        return answers
    }
}
