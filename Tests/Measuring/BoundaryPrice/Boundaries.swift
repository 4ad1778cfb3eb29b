import CLinux
import Foundation
import Glibc
import HSMWorker
import Locks
import WorkerProtocol

/// Restores keys within this process, in two ways: through a queue between threads, or directly in each session's
/// thread.
final class WithinProcess: Sendable {
    private let sessions: Int
    private let requests = Handover<(identifier: UInt64, request: WorkerRequest)>()
    private let answers = Handover<(UInt64, WorkerAnswer)>()
    /// A function that receives answers on the session's thread; nil to hand answers over to another thread.
    private let kept = Mutex<(@Sendable (UInt64, WorkerAnswer) -> Void)?>(nil)

    init(_ opening: HSMTokenOpening) throws {
        let hsmToken = try ServedToken(opening)
        sessions = Int(opening.sessions)
        hsmToken.startThreads(reading: requests.take) { [weak self, answers] identifier, answer in
            if let keep = self?.kept.withLock({ $0 }) { return keep(identifier, answer) }
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
            kept = { [requests, sessions] number, answer in
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

/// A worker process at the other end of a socket pair. One thread keeps as many calls under way as the daemon does.
final class WorkerProcess {
    let identifier: pid_t
    private let socket: Int32
    private var decoder = FrameDecoder(maximumLength: FieldBound.answerFrame)
    private var input = [UInt8](repeating: 0, count: 64 * 1024)

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// Starts a worker.
    ///
    /// - Parameter program: the path of `paytokend-hsm`, which inherits SOFTHSM2_CONF from this process.
    init(program: String) throws {
        let executable = unsafe paytokend_open_executable(program)
        guard executable >= 0 else { throw Failure(description: "\(program) cannot be opened") }
        defer { close(executable) }
        var variables: [UnsafeMutablePointer<CChar>?] = unsafe []
        if let conf = unsafe getenv("SOFTHSM2_CONF") {
            unsafe variables.append(strdup("SOFTHSM2_CONF=" + String(cString: conf)))
        }
        unsafe variables.append(nil)
        var arguments: [UnsafeMutablePointer<CChar>?] = unsafe [strdup("paytokend-hsm"), nil]
        var (process, socket): (pid_t, Int32) = (0, -1)
        guard unsafe paytokend_spawn(executable, &arguments, &variables, &process, &socket, nil) == 0 else {
            throw Failure(description: "\(program) cannot be started")
        }
        (identifier, self.socket) = (process, socket)
        _ = fcntl(socket, F_SETFL, 0)
    }

    /// Opens the HSM token, and generates a merchant's key in it.
    /// - Returns: the key's SubjectPublicKeyInfo in DER.
    func open(_ opening: HSMTokenOpening) throws -> [UInt8] {
        let opened = try call(.open(opening))
        guard case .opened = opened else { throw Failure(description: "the token was not opened: \(opened)") }
        let made = try call(.generateKey(KeyGeneration(merchantIdentifier: "merchant.test", algorithm: .ec)))
        guard case .generatedKey(let key) = made else { throw Failure(description: "no key was made: \(made)") }
        return key.subjectPublicKeyInfo
    }

    private func call(_ request: WorkerRequest) throws -> WorkerAnswer {
        try write(request.encoded(identifier: 1))
        while true {
            if let frame = try decoder.next() { return try WorkerAnswer(frame) }
            try read()
        }
    }

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
            while let frame = try decoder.next() {
                guard work.isRight(try WorkerAnswer(frame), Int(frame.identifier)) else {
                    throw Failure(description: "a wrong answer from the worker")
                }
                answered += 1
                guard goesOn else { continue }
                output += try work.request(sent).encoded(identifier: UInt64(sent))
                sent += 1
            }
        }
        return answered
    }

    private func read() throws {
        let count = unsafe Glibc.read(socket, &input, input.count)
        guard count > 0 else { throw Failure(description: "the worker ended") }
        decoder.append(input.prefix(count))
    }

    private func write(_ bytes: [UInt8]) throws {
        var written = 0
        while written < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { buffer in
                unsafe Glibc.write(socket, buffer.baseAddress.unsafelyUnwrapped + written, buffer.count - written)
            }
            guard count > 0 else { throw Failure(description: "the worker takes no more") }
            written += count
        }
    }
}
