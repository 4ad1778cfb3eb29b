import Foundation
import TestSupport
import Testing
import WorkerProtocol

@testable import WorkerSupervision

/// Two HSM tokens with the same keys. Both are SoftHSM, each with its own directory and worker, because SoftHSM reads
/// one configuration per process.
@Suite struct HSMTokenPoolTests {
    private static let names = ["north", "south"]

    /// Two open HSM tokens with the EC merchant's key in both, or in the first one only.
    private final class Pair: Sendable {
        let directories: [TokenDirectory]
        let pool: HSMTokenPool
        private let reasons: Shared<[String: [WorkerEvents.RestartReason]]>

        init(holders: [String] = HSMTokenPoolTests.names, callTimeout: Duration = .seconds(10)) async throws {
            let refusedInputs = RefusedInputs()
            let executable = try WorkerExecutable.built()
            var directories: [TokenDirectory] = []
            var workers: [HSMToken] = []
            let reasons = Shared<[String: [WorkerEvents.RestartReason]]>([:])
            for name in HSMTokenPoolTests.names {
                let directory = try await TokenDirectory()
                directories.append(directory)
                var settings = HSMTokenSettings.softHSM(directory, name: name)
                settings.callTimeout = callTimeout
                workers.append(
                    HSMToken(
                        settings, executable: executable, logger: .silent,
                        events: WorkerEvents(restarted: { reason in
                            reasons.change { $0[name, default: []].append(reason) }
                        }), refusedInputs: refusedInputs))
            }
            self.directories = directories
            self.reasons = reasons
            pool = HSMTokenPool(first: workers[0], others: workers.dropFirst())
            await pool.start()
            for worker in workers {
                try await worker.opened()
                if holders.contains(worker.name) { try await worker.importMerchantKey() }
            }
        }

        func restarts(of name: String) -> [WorkerEvents.RestartReason] { reasons.current[name] ?? [] }
    }

    /// Decrypts payments, `width` at a time, until `isOver` returns true. Each decryption must return the right
    /// plaintext.
    /// - Returns: the number of payments that each HSM token decrypted.
    private func decryptUntil(
        _ pool: HSMTokenPool, width: Int = 8, until isOver: @escaping @Sendable () async throws -> Bool
    ) async throws -> [String: Int] {
        let counts = Shared<[String: Int]>([:])
        let over = Shared(false)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<width {
                group.addTask {
                    while !over.current {
                        let payment = try EncryptedPayment.forMerchant()
                        let opened = try await pool.decrypt(Decryption(payment), heldBy: Self.names)
                        #expect(opened.plaintext == payment.plaintext)
                        counts.change { $0[opened.hsmToken, default: 0] += 1 }
                    }
                }
            }
            group.addTask {
                defer { over.change { $0 = true } }
                while try await !isOver() { try await Task.sleep(for: .milliseconds(20)) }
            }
            try await group.waitForAll()
        }
        return counts.current
    }

    @Test("alternates sequential requests between idle HSM tokens")
    func alternatesBetweenHSMTokens() async throws {
        let pair = try await Pair()
        var opened: [String: Int] = [:]
        for _ in 0..<8 {
            let payment = try EncryptedPayment.forMerchant()
            opened[try await pair.pool.decrypt(Decryption(payment), heldBy: Self.names).hsmToken, default: 0] += 1
        }
        for name in Self.names { #expect(opened[name, default: 0] >= 3, "\(opened)") }
        await pair.pool.shutdown()
    }

    @Test("uses both HSM tokens, and sends a call to an HSM token that has its key")
    func usesBothHSMTokens() async throws {
        let pair = try await Pair()
        var counts: [String: Int] = [:]
        try await wait(for: "both to have worked") {
            let began = ContinuousClock.now
            let more = try await decryptUntil(pair.pool) { ContinuousClock.now - began > .milliseconds(200) }
            counts.merge(more, uniquingKeysWith: +)
            return Self.names.allSatisfy { counts[$0, default: 0] > 10 }
        }
        for name in Self.names {
            let opened = try await pair.pool.decrypt(Decryption(.forMerchant()), heldBy: [name])
            #expect(opened.hsmToken == name)
            #expect(opened.tier == .c)
        }
        await pair.pool.shutdown()
    }

    @Test("decrypts at the HSM token that has the key if the other HSM token lacks it")
    func missingKey() async throws {
        let pair = try await Pair(holders: ["south"])
        for _ in 0..<4 {
            #expect(try await pair.pool.decrypt(Decryption(.forMerchant()), heldBy: Self.names).hsmToken == "south")
        }
        let failure = await #expect(throws: WorkerFailure.self) {
            try await pair.pool.decrypt(Decryption(.forMerchant()), heldBy: ["north"])
        }
        #expect(failure?.kind == .keyNotFound)
        await pair.pool.shutdown()
    }

    @Test("refuses an untrusted caller's malformed bytes at the first HSM token, without ending a worker")
    func badInput() async throws {
        let pair = try await Pair()
        for _ in 0..<4 {
            var input = Decryption(try .forMerchant())
            input.ciphertext[0] ^= 1
            let failure = await #expect(throws: WorkerFailure.self) {
                try await pair.pool.decrypt(input, heldBy: Self.names)
            }
            #expect(failure?.kind == .decryptionFailed)
        }
        for name in Self.names { #expect(pair.restarts(of: name).isEmpty) }
        await pair.pool.shutdown()
    }

    @Test("loses no call when a worker is killed repeatedly under load: the other HSM token takes over its calls")
    func workerKilledRepeatedly() async throws {
        let pair = try await Pair()
        let kills = Shared(0)
        let victim = pair.pool.all[0]
        _ = try await decryptUntil(pair.pool) {
            if let process = victim.processIdentifier, victim.isServing, kill(process, SIGKILL) == 0 {
                kills.change { $0 += 1 }
            }
            try await Task.sleep(for: .milliseconds(400))
            return kills.current >= 4
        }
        try await wait(for: "the restart to be reported", within: 60) { pair.restarts(of: "north").count >= 4 }
        #expect(Set(pair.restarts(of: "north")) == [.died])
        #expect(pair.restarts(of: "south").isEmpty)
        // The HSM token whose workers were killed serves again.
        try await wait(for: "the HSM token to be open", within: 60) { victim.isServing }
        #expect(try await decryptUntil(pair.pool) { true }.values.reduce(0, +) > 0)
        await pair.pool.shutdown()
    }

    @Test("stops using an HSM token when its directory is moved away, and uses it again once the directory is back")
    func directoryAway() async throws {
        let pair = try await Pair()
        let directory = pair.directories[0].directory
        let north = pair.pool.all[0]
        let began = ContinuousClock.now
        _ = try await decryptUntil(pair.pool) { ContinuousClock.now - began > .milliseconds(300) }
        // The directory is moved away for about 300 ms, and then moved back. All calls succeed throughout, even if the
        // worker ends.
        for (from, to) in [("tokens", "away"), ("away", "tokens")] {
            try FileManager.default.moveItem(atPath: directory.path(from), toPath: directory.path(to))
            let moved = ContinuousClock.now
            _ = try await decryptUntil(pair.pool) { ContinuousClock.now - moved > .milliseconds(300) }
        }
        try await wait(for: "the HSM token to be open", within: 60) { north.isServing }
        try FileManager.default.moveItem(atPath: directory.path("tokens"), toPath: directory.path("away"))
        // A library that has already read its keys may not notice the missing directory, but the next worker does.
        kill(try #require(north.processIdentifier), SIGKILL)
        let left = ContinuousClock.now
        _ = try await decryptUntil(pair.pool) {
            if case .unavailable = north.condition { true } else { false }
        }
        let without = try await decryptUntil(pair.pool) { ContinuousClock.now - left > .seconds(2) }
        #expect(without["north"] == nil, "\(without)")
        try FileManager.default.moveItem(atPath: directory.path("away"), toPath: directory.path("tokens"))
        _ = try await decryptUntil(pair.pool) { north.isServing }
        let later = ContinuousClock.now
        let with = try await decryptUntil(pair.pool) { ContinuousClock.now - later > .milliseconds(500) }
        #expect(with["north", default: 0] > 0, "\(with)")
        #expect(pair.restarts(of: "south").isEmpty)
        await pair.pool.shutdown()
    }

    @Test("sends the calls of a hanging HSM token to the other HSM token after call_timeout")
    func hangingHSMToken() async throws {
        let pair = try await Pair(callTimeout: .seconds(1))
        let process = try #require(pair.pool.all[0].processIdentifier)
        try await stop(process: process)
        let slowest = Shared(Duration.zero)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    let payment = try EncryptedPayment.forMerchant()
                    let began = ContinuousClock.now
                    let opened = try await pair.pool.decrypt(Decryption(payment), heldBy: Self.names)
                    let took = ContinuousClock.now - began
                    slowest.change { $0 = max($0, took) }
                    #expect(opened.plaintext == payment.plaintext && opened.hsmToken == "south")
                }
            }
            try await group.waitForAll()
        }
        #expect(slowest.current > .milliseconds(900))
        #expect(slowest.current < HSMTokenPool.deadline(callTimeout: .seconds(1)))
        try await wait(for: "the restart to be reported", within: 60) { pair.restarts(of: "north") == [.timeout] }
        await pair.pool.shutdown()
    }

    @Test("refuses at both HSM tokens only the input that the worker of each had when it ended")
    func inputThatEndsBothWorkers() async throws {
        let pair = try await Pair(callTimeout: .seconds(1))
        for hsmToken in pair.pool.all { try await stop(process: try #require(hsmToken.processIdentifier)) }
        let input = Decryption(try .forMerchant())
        let failure = await #expect(throws: WorkerFailure.self) {
            try await pair.pool.decrypt(input, heldBy: Self.names)
        }
        #expect(failure?.kind == .hsmTokenUnavailable)
        for hsmToken in pair.pool.all {
            try await wait(for: "the HSM token to be open again", within: 60) { hsmToken.isServing }
            let again = await #expect(throws: WorkerFailure.self) {
                try await pair.pool.decrypt(input, heldBy: [hsmToken.name])
            }
            #expect(again?.kind == .inputRefused)
            #expect((1...600).contains(again?.retryAfter ?? 0))
            let other = try EncryptedPayment.forMerchant()
            #expect(
                try await pair.pool.decrypt(Decryption(other), heldBy: [hsmToken.name]).plaintext == other.plaintext)
        }
        await pair.pool.shutdown()
    }

    @Test("refuses a call while no HSM token is available, and serves calls once one is back")
    func noHSMTokenLeft() async throws {
        let pair = try await Pair()
        for hsmToken in pair.directories {
            try FileManager.default.moveItem(
                atPath: hsmToken.directory.path("tokens"), toPath: hsmToken.directory.path("away"))
        }
        for hsmToken in pair.pool.all { kill(try #require(hsmToken.processIdentifier), SIGKILL) }
        for hsmToken in pair.pool.all {
            try await wait(for: "the HSM token to be unavailable", within: 60) {
                if case .unavailable = hsmToken.condition { true } else { false }
            }
        }
        let failure = await #expect(throws: WorkerFailure.self) {
            try await pair.pool.decrypt(Decryption(.forMerchant()), heldBy: Self.names)
        }
        #expect(failure?.kind == .hsmTokenUnavailable)
        let south = pair.directories[1].directory
        try FileManager.default.moveItem(atPath: south.path("away"), toPath: south.path("tokens"))
        try await wait(for: "the HSM token to be open", within: 60) { pair.pool.all[1].isServing }
        // As soon as `isServing` is true, the condition must be `ready`, so that the pool accepts calls.
        guard case .ready = pair.pool.all[1].condition else {
            Issue.record("\(pair.pool.all[1].condition)")
            return
        }
        #expect(try await pair.pool.decrypt(Decryption(.forMerchant()), heldBy: Self.names).hsmToken == "south")
        await pair.pool.shutdown()
    }
}
