import TestSupport
import Testing
import WorkerProtocol

@testable import WorkerSupervision

/// Calls that the daemon can do without. It does not repeat such a call if the library hung during it.
@Suite struct OptionalCallTests {
    private static let head = WorkerRequest.rememberHead(HeadToRemember(node: "node-1", line: Array("{}".utf8)))

    @Test("fails an optional call that hung without a second attempt, and repeats the worker's other calls")
    func hungCallNotRepeated() async throws {
        let queue = CallQueue.forTest(window: 4)
        let worker = queue.serve(1)
        let optional = queue.start(Self.head)
        try await wait { worker.count == 1 }
        let other = queue.start(.probe)
        try await wait { worker.count == 2 }
        let probe = try worker.requests[1].identifier
        #expect(queue.received(.done, for: probe, from: 1))
        #expect(try await other.value.get() == .done)
        let innocent = queue.start(.input(1))
        try await wait { worker.count == 3 }
        // The worker has answered the probe, which arrived later, so it must have begun the optional call. The optional
        // call's time limit begins at the first `expire` after the probe's answer.
        queue.expire()
        queue.expire(now: .now + .seconds(31))
        #expect(worker.killed == .timeout)
        queue.ended(1)
        let failure = try #require(await optional.value.failure)
        #expect(failure.kind == .deadlineExceeded && failure.message.contains("remember_head"))
        let next = queue.serve(2)
        try await wait { next.count == 1 }
        #expect(try next.requests[0].request == .input(1))
        #expect(queue.received(.plaintext([], tier: .c), for: try next.requests[0].identifier, from: 2))
        #expect(try await innocent.value.get() == .plaintext([], tier: .c))
    }

    @Test("repeats an optional call whose worker ended for another reason")
    func optionalCallRepeated() async throws {
        let queue = CallQueue.forTest()
        let worker = queue.serve(1)
        let optional = queue.start(Self.head)
        try await wait { worker.count == 1 }
        queue.ended(1)
        let next = queue.serve(2)
        try await wait { next.count == 1 }
        #expect(queue.received(.done, for: try next.requests[0].identifier, from: 2))
        #expect(try await optional.value.get() == .done)
    }

    @Test("serves with the next worker after a library has refused a data object without releasing its lock")
    func libraryKeepsLock() async throws {
        let scripted = try ScriptedToken(try await TokenDirectory(), "lock-after-data")
        var settings = HSMTokenSettings.softHSM(try await TokenDirectory())
        (settings.module, settings.uri) = (scripted.libraryPath, scripted.uri)
        (settings.pinFile, settings.environment) = (scripted.pinFile, scripted.environment)
        let hsmToken = HSMToken(settings, executable: try .built(), logger: .silent)
        await hsmToken.start()
        try await hsmToken.importMerchantKey()
        let remembering = Task { () async -> WorkerFailure? in
            do throws(WorkerFailure) {
                try await hsmToken.rememberHead(Array("{}".utf8), node: "node-1")
                return nil
            } catch {
                return error
            }
        }
        try await wait(for: "the refusal") { scripted.calls("C_CreateObject").contains { $0.value == 0x13 } }
        // The time limit of `rememberHead` has passed, so the daemon ends the worker.
        hsmToken.calls.expire(now: .now + .seconds(31))
        #expect(await remembering.value?.kind == .deadlineExceeded)
        let payment = try EncryptedPayment.forMerchant()
        #expect(try await hsmToken.decrypt(payment).plaintext == payment.plaintext)
        #expect(scripted.calls("C_CreateObject").count { $0.value == 0x13 } == 1)
        await hsmToken.shutdown()
    }
}
