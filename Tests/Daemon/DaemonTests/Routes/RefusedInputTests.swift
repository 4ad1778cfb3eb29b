import Foundation
import Refusals
import ServerProgram
import TestSupport
import Testing
import WorkerProtocol

@testable import HTTPListener
@testable import UsageRecording
@testable import WorkerSupervision

/// The answer to a request that the daemon refuses because two workers ended while they processed the same input.
@Suite struct RefusedInputTests {
    @Test("states the rest of the ten minutes in header and message alike", arguments: [0, 13, 599])
    func headerAndMessageAgree(_ passed: Int) throws {
        let inputs = RefusedInputs()
        let (now, frame) = (ContinuousClock.now, [UInt8](repeating: 7, count: 40))
        inputs.insert(frame, now: now)
        let left = try #require(inputs.secondsLeft(of: frame, now: now + .seconds(passed)))
        #expect(left == 600 - passed)
        let refusal = WorkerFailure(.inputRefused, "", retryAfter: left).refusal
        #expect(refusal.code == .hsmUnavailable)
        #expect(refusal.message.contains("refused for \(left) s"), "\(refusal.message)")
        let answer = HTTPAnswer(refusal: refusal)
        #expect(answer.status == 503)
        #expect(answer.headers.filter { $0.name == "Retry-After" }.map(\.value) == [String(left)])
    }

    @Test("rounds the last fraction of a second up to one second, and then no longer refuses the input")
    func endOfRefusal() {
        let inputs = RefusedInputs()
        let (now, frame) = (ContinuousClock.now, [UInt8](repeating: 7, count: 40))
        inputs.insert(frame, now: now)
        #expect(inputs.secondsLeft(of: frame, now: now + .seconds(600) - .milliseconds(1)) == 1)
        #expect(inputs.secondsLeft(of: frame, now: now + .seconds(600)) == nil)
        #expect(inputs.secondsLeft(of: [1], now: now) == nil)
    }

    @Test("keeps the error table's Retry-After for other failures")
    func otherFailures() {
        let answer = HTTPAnswer(refusal: WorkerFailure(.hsmTokenUnavailable, "gone").refusal)
        #expect(answer.headers.filter { $0.name == "Retry-After" }.map(\.value) == ["2"])
    }

    @Test("carries the remaining time in the queue's failure")
    func secondsInQueueFailure() async throws {
        let refusedInputs = RefusedInputs()
        let request = WorkerRequest.describeKey(publicKeyHash: [1, 2, 3])
        refusedInputs.insert(try request.encoded(identifier: 77), now: .now)
        let queue = CallQueue(
            limits: CallQueue.Limits(window: 2, waiting: 10, callTimeout: .seconds(5), recycleAfter: 10),
            events: WorkerEvents(), refusedInputs: refusedInputs, recycleDue: { _ in })
        guard case .failure(let failure) = await queue.submit(request) else {
            Issue.record("it was answered")
            return
        }
        #expect(failure.kind == .inputRefused)
        #expect((1...600).contains(failure.failure.retryAfter ?? 0))
    }
}
