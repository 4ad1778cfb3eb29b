import Foundation
import TestSupport
import Testing
import WorkerProtocol

@testable import WorkerSupervision

/// Slow HSM tokens, which the scripted module in front of SoftHSM simulates for real workers.
@Suite struct SlowHSMTokenTests {
    private struct Setup {
        let hsmToken: ScriptedToken
        let worker: HSMToken
        let restarts = Shared<[WorkerEvents.RestartReason]>([])

        init(callTimeout: Duration, sessions: Int = 2) async throws {
            let directory = try await TokenDirectory()
            hsmToken = try ScriptedToken(directory)
            var settings = HSMTokenSettings.softHSM(directory)
            settings.module = hsmToken.libraryPath
            settings.uri = hsmToken.uri
            settings.environment = hsmToken.environment
            settings.callTimeout = callTimeout
            settings.sessions = sessions
            worker = HSMToken(
                settings, executable: try .built(), logger: .silent,
                events: WorkerEvents(restarted: { [restarts] reason in restarts.change { $0.append(reason) } }))
            await worker.start()
            try await worker.importMerchantKey()
        }

        /// Decrypts one payment through the HSM token pool, as the daemon does.
        func open(for caller: String? = nil) async throws {
            let payment = try EncryptedPayment.forMerchant()
            let opened = try await HSMTokenPool(first: worker, others: []).decrypt(
                Decryption(payment), heldBy: [], for: Requester(caller: caller))
            #expect(opened.plaintext == payment.plaintext)
        }
    }

    @Test("answers sixteen calls of a second each from a healthy HSM token, and keeps its worker")
    func slowCalls() async throws {
        // Each of the two sessions makes eight calls, the last of which is answered after 8 s. This exceeds
        // call_timeout, but each call takes only 1 s in the HSM token.
        let setup = try await Setup(callTimeout: .seconds(5))
        try setup.hsmToken.play("fault C_DeriveKey always delay=1000")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<16 { group.addTask { try await setup.open() } }
            try await group.waitForAll()
        }
        #expect(setup.restarts.current.isEmpty, "\(setup.restarts.current)")
        await setup.worker.shutdown()
    }

    @Test("lets the next worker answer the calls that waited while a worker hung")
    func hangUnderLoad() async throws {
        let callTimeout = Duration.seconds(600)
        let setup = try await Setup(callTimeout: callTimeout)
        // Forty calls are more than a worker receives at a time. The next worker needs an additional second to open the
        // HSM token.
        try setup.hsmToken.play("fault C_Login always delay=1000")
        try await stop(process: try #require(setup.worker.processIdentifier))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<40 { group.addTask { try await setup.open() } }
            try await wait(for: "the calls to wait") { setup.worker.load == 40 }
            // The test does not wait for call_timeout to pass. The calls' own deadline is twice as far.
            setup.worker.calls.expire(now: .now + callTimeout * 1.5)
            try await group.waitForAll()
        }
        try await wait(for: "the restart to be told") { setup.restarts.current == [.timeout] }
        await setup.worker.shutdown()
    }

    @Test("lists the keys again when the HSM token ends the sessions during a listing, and serves")
    func sessionsEndDuringListing() async throws {
        // The worker has only one session, because SoftHSM frees the objects of an ended session even while another
        // thread uses them, which can crash the worker. A page may take a quarter of call_timeout. The short
        // call_timeout limits each page to one key.
        let setup = try await Setup(callTimeout: .milliseconds(3), sessions: 1)
        for _ in 0..<2 {
            _ = try await setup.worker.generateKey(
                .ec, use: .processing, merchantIdentifier: "merchant.made", known: [])
        }
        let first = try #require(setup.worker.processIdentifier)
        let before = setup.hsmToken.calls("C_Initialize").count
        // The worker checks its session for the fourth time when it reads the second page.
        try setup.hsmToken.play("fault C_GetSessionInfo nth=4 close-sessions once")
        kill(first, SIGKILL)
        try await wait(for: "another worker", within: 120) {
            setup.worker.processIdentifier.map { $0 != first } ?? false
        }
        try setup.hsmToken.play()
        #expect(setup.hsmToken.calls("C_Initialize").count == before + 1, "the first new worker serves")
        #expect(setup.hsmToken.calls("C_Login").count == 3, "the HSM token has ended the sessions")
        #expect(try await setup.worker.listKeys().count == 3)
        await setup.worker.shutdown()
    }

    @Test("serves an idle caller after a few of a flood's calls, and not after all")
    func fairShares() async throws {
        let setup = try await Setup(callTimeout: .seconds(60))
        try setup.hsmToken.play("fault C_DeriveKey always delay=5")
        for _ in 0..<10 { try await setup.open(for: "shop") }
        let process = try #require(setup.worker.processIdentifier)
        // The worker is stopped, so that all calls wait before the first is served.
        try await stop(process: process)
        let (answered, before) = (Shared(0), Shared(Int.max))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<200 {
                group.addTask {
                    try await setup.open(for: "flood")
                    answered.change { $0 += 1 }
                }
            }
            try await wait(for: "the flood to wait") { setup.worker.load == 200 }
            group.addTask {
                try await setup.open(for: "shop")
                before.change { $0 = answered.current }
            }
            try await wait(for: "the other caller's call to wait") { setup.worker.load == 201 }
            kill(process, SIGCONT)
            try await group.waitForAll()
        }
        // The bound is the largest window of two sessions (16) plus one call of each of the two callers.
        #expect(before.current <= 16 + 2, "\(before.current) calls of the flood came first")
        #expect(setup.restarts.current.isEmpty)
        await setup.worker.shutdown()
    }
}
