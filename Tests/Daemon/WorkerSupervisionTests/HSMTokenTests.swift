import Crypto
import Foundation
import Locks
import Logging
import MerchantKeys
import PaymentToken
import TestSupport
import Testing
import WorkerProtocol

@testable import WorkerSupervision

/// An HSM token that the daemon uses through a supervised worker. The worker is the real program, with SoftHSM in a
/// fresh directory.
@Suite struct HSMTokenTests {
    /// The key listings and restarts that the HSM token reported.
    private final class Reports: Sendable {
        private let listings = Mutex<[[KeyDescription]]>([])
        private let restarts = Mutex<[WorkerEvents.RestartReason]>([])

        var events: WorkerEvents {
            WorkerEvents(
                keys: { keys, _ in self.listings.withLock { $0.append(keys) } },
                restarted: { reason in self.restarts.withLock { $0.append(reason) } })
        }
        var keyListings: [[KeyDescription]] { listings.withLock { $0 } }
        var restartReasons: [WorkerEvents.RestartReason] { restarts.withLock { $0 } }
    }

    /// A log that keeps the exits of worker processes.
    private final class Exits: LogHandler {
        private let exits = Mutex<[String]>([])
        var metadata: Logger.Metadata {
            get { [:] }
            set {}
        }
        var logLevel: Logger.Level {
            get { .warning }
            set {}
        }
        subscript(metadataKey _: String) -> Logger.Metadata.Value? {
            get { nil }
            set {}
        }
        func log(event: LogEvent) {
            if let exit = event.metadata?["exit"] { exits.withLock { $0.append("\(exit)") } }
        }
        var all: [String] { exits.withLock { $0 } }
    }

    private func worker(
        _ hsmToken: TokenDirectory, _ reports: Reports = Reports(), memoryGrowth: Int = WorkerSupervisor.memoryGrowth,
        log: (any LogHandler)? = nil, _ change: (inout HSMTokenSettings) -> Void = { _ in }
    ) throws -> HSMToken {
        var settings = HSMTokenSettings.softHSM(hsmToken)
        change(&settings)
        return HSMToken(
            settings, executable: try .built(),
            logger: log.map { handler in Logger(label: "test") { _ in handler } } ?? .silent,
            events: reports.events, memoryGrowth: memoryGrowth)
    }

    /// Starts a worker, and imports the EC merchant's key.
    private func serving(
        _ hsmToken: TokenDirectory, _ reports: Reports = Reports(), memoryGrowth: Int = WorkerSupervisor.memoryGrowth,
        _ change: (inout HSMTokenSettings) -> Void = { _ in }
    ) async throws -> HSMToken {
        let worker = try worker(hsmToken, reports, memoryGrowth: memoryGrowth, change)
        await worker.start()
        try await worker.importMerchantKey()
        return worker
    }

    /// Returns true if the process exists, even as a zombie.
    private func exists(_ process: Int32) -> Bool { FileManager.default.fileExists(atPath: "/proc/\(process)") }

    @Test("imports, lists and uses a key, and ends the worker at the shutdown")
    func importsAndUsesKey() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try await serving(hsmToken)
        let process = try #require(worker.processIdentifier)
        let payment = try EncryptedPayment.forMerchant()
        let (plaintext, tier) = try await worker.decrypt(payment)
        #expect(plaintext == payment.plaintext)
        #expect(tier == .c)
        #expect(try await worker.listKeys().map(\.identifier) == [payment.publicKeyHash])
        try await worker.probe()
        await worker.shutdown()
        #expect(!exists(process))
        await #expect(throws: WorkerFailure.self) { try await worker.probe() }
    }

    @Test("starts the worker without the daemon's environment and descriptors")
    func cleanEnvironment() async throws {
        let hsmToken = try await TokenDirectory()
        unsafe setenv("PAYTOKEND_TEST_SECRET", "x", 1)
        let worker = try await serving(hsmToken)
        let process = try #require(worker.processIdentifier)
        // The worker is not dumpable, so only root may read its environment.
        if let environment = FileManager.default.contents(atPath: "/proc/\(process)/environ"), !environment.isEmpty {
            let names = environment.split(separator: 0).map { String(decoding: $0, as: UTF8.self).prefix { $0 != "=" } }
            #expect(names.sorted() == ["GLIBC_TUNABLES", "LANG", "PATH", "SOFTHSM2_CONF"])
        }
        let status = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        #expect(status.contains("Name:\tpaytokend-hsm\n"))
        #expect(status.contains("NoNewPrivs:\t1\n"))
        let limits = try String(contentsOfFile: "/proc/\(process)/limits", encoding: .utf8)
        let core = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
        #expect(core.split(separator: " ").filter { $0 == "0" }.count == 2)
        // The worker has its own limit of open files, although the daemon has raised its limit.
        let files = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max open files") })
        #expect(files.split(separator: " ").filter { $0 == "1024" }.count == 2, "\(files)")
        await worker.shutdown()
    }

    @Test("answers calls under way when the worker is killed")
    func killedUnderLoad() async throws {
        let (hsmToken, reports) = (try await TokenDirectory(), Reports())
        let worker = try await serving(hsmToken, reports)
        let payments = try (0..<200).map { _ in try EncryptedPayment.forMerchant() }
        let answered = Shared(0)
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for payment in payments {
                group.addTask {
                    let plaintext = try await worker.decrypt(payment).plaintext
                    answered.change { $0 += 1 }
                    return plaintext == payment.plaintext
                }
            }
            group.addTask {
                try await wait(for: "some answers", within: 120) { answered.current > 20 }
                kill(try #require(worker.processIdentifier), SIGKILL)
                return true
            }
            for try await right in group { #expect(right) }
        }
        try await wait(for: "the restart to be reported", within: 120) { reports.restartReasons == [.died] }
        try await wait(for: "the key to be reported again", within: 120) { reports.keyListings.last?.count == 1 }
        await worker.shutdown()
    }

    @Test("signs and remembers audit checkpoints across the deaths of workers")
    func recordSurvivesDeaths() async throws {
        let (hsmToken, reports) = (try await TokenDirectory(), Reports())
        let worker = try worker(hsmToken, reports)
        await worker.start()
        try await worker.opened()
        let record: any AuditHSMToken = worker
        let identifier = Array(0..<16 as Range<UInt8>)
        let key = try await record.createAuditKey(identifier: identifier)
        let publicKey = try P256.Signing.PublicKey(x963Representation: key.publicKey)
        for number in 1...2 {
            let message = Array("{\"node\":\"backend-1\",\"sequence\":\(number)}".utf8)
            kill(try #require(worker.processIdentifier), SIGKILL)
            let der = try await record.signCheckpoint(message, identifier: identifier, algorithm: key.algorithm)
            let signature = try P256.Signing.ECDSASignature(derRepresentation: der)
            #expect(publicKey.isValidSignature(signature, for: message))
            try await record.rememberHead(message, node: "backend-1")
            #expect(try await record.rememberedHeads() == [message])
            #expect(try await record.auditKeys() == [key])
            #expect(try await record.createAuditKey(identifier: identifier) == key)
        }
        #expect(reports.keyListings.allSatisfy { $0.isEmpty })
        await worker.shutdown()
    }

    @Test("makes one key or none when the worker dies during a generation, and no key that the daemon does not know")
    func generationSurvivesDeaths() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try worker(hsmToken)
        await worker.start()
        try await worker.opened()
        var made: Set<[UInt8]> = []
        for delay in [0, 5, 10, 20, 40, 80, 160, 320] {
            // The generation of an RSA key takes long enough for the kills to hit different steps.
            let known = made
            let generation = Task { () -> Result<KeyDescription, WorkerFailure> in
                do throws(WorkerFailure) {
                    return .success(
                        try await worker.generateKey(
                            .rsa, use: .processing, merchantIdentifier: "merchant.test", known: known))
                } catch {
                    return .failure(error)
                }
            }
            try await Task.sleep(for: .milliseconds(delay))
            if let process = worker.processIdentifier { kill(process, SIGKILL) }
            switch await generation.value {
            case .success(let key):
                #expect(key.identifier.count == 32)
                #expect(made.insert(key.identifier).inserted)
            case .failure(let failure):
                #expect(failure.kind == .hsmTokenUnavailable)
            }
            let listed = try await worker.listKeys()
            // SoftHSM rewrites an object's file in place. A kill during the write leaves an incomplete key pair, which
            // the worker lists as inconsistent and never uses.
            #expect(Set(listed.filter { $0.inconsistency == nil }.map(\.identifier)) == made)
        }
        let key = try await worker.generateKey(.ec, use: .processing, merchantIdentifier: "merchant.test", known: made)
        kill(try #require(worker.processIdentifier), SIGKILL)
        // The daemon may repeat a signature, so the caller does not notice the worker's death.
        let request = try await CertificateRequest(
            subjectPublicKeyInfo: key.subjectPublicKeyInfo, merchantIdentifier: "merchant.test"
        ) { information throws(WorkerFailure) in
            try await worker.signRequest(information, publicKeyHash: key.identifier)
        }
        #expect(request.pem.hasPrefix("-----BEGIN CERTIFICATE REQUEST-----"))
        await worker.shutdown()
    }

    @Test("replaces a worker after the configured number of calls, and loses no call")
    func recycledAfterCallCount() async throws {
        let (hsmToken, reports) = (try await TokenDirectory(), Reports())
        let worker = try await serving(hsmToken, reports) { $0.recycleAfter = 50 }
        let first = worker.processIdentifier
        for _ in 0..<6 {
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<30 {
                    let payment = try EncryptedPayment.forMerchant()
                    group.addTask {
                        try await worker.decrypt(payment).plaintext == payment.plaintext
                    }
                }
                for try await right in group { #expect(right) }
            }
        }
        try await wait(for: "a successor", within: 120) { reports.restartReasons.contains(.recycled) }
        #expect(!reports.restartReasons.contains(.died))
        try await wait(for: "another process", within: 120) { worker.processIdentifier != first }
        try await wait(for: "the old one to end", within: 120) { !exists(first ?? 0) }
        try await worker.probe()
        await worker.shutdown()
    }

    @Test("replaces a worker that uses too much memory, and loses no call")
    func replacedForMemoryUse() async throws {
        let (hsmToken, reports) = (try await TokenDirectory(), Reports())
        // This limit is smaller than the memory that SoftHSM leaks in a thousand derivations, so the worker soon
        // exceeds it.
        let worker = try await serving(hsmToken, reports, memoryGrowth: 256 * 1024)
        let first = worker.processIdentifier
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    while !reports.restartReasons.contains(.memory) {
                        let payment = try EncryptedPayment.forMerchant()
                        let plaintext = try await worker.decrypt(payment).plaintext
                        #expect(plaintext == payment.plaintext)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(Set(reports.restartReasons) == [.memory])
        try await wait(for: "the old one to end", within: 120) { !exists(first ?? 0) }
        try await worker.probe()
        await worker.shutdown()
    }

    @Test("does not retry a successor whose PIN is refused, and keeps the old worker until the PIN file is read again")
    func recycledWithRefusedPIN() async throws {
        let (hsmToken, reports) = (try await TokenDirectory(), Reports())
        let worker = try await serving(hsmToken, reports) { $0.recycleAfter = 5 }
        let first = worker.processIdentifier
        try hsmToken.directory.write("31415926\n", to: "pin")
        for _ in 0..<10 { try await worker.probe() }
        // The pause is long enough for the successor to start and for its login to be refused.
        try await Task.sleep(for: .seconds(3))
        try await worker.probe()
        #expect(worker.processIdentifier == first)
        #expect(reports.restartReasons.isEmpty)
        try hsmToken.directory.write(TokenDirectory.pin + "\n", to: "pin")
        worker.retry()
        // After a failure for another reason, the supervisor would wait 30 s before it starts another successor.
        try await wait(for: "a successor", within: 25) { reports.restartReasons == [.recycled] }
        await worker.shutdown()
    }

    @Test("kills a stopped worker after call_timeout, and answers the call from the next worker")
    func hangingWorker() async throws {
        let (hsmToken, reports) = (try await TokenDirectory(), Reports())
        let worker = try await serving(hsmToken, reports) { $0.callTimeout = .milliseconds(1500) }
        let process = try #require(worker.processIdentifier)
        try await stop(process: process)
        let payment = try EncryptedPayment.forMerchant()
        #expect(try await worker.decrypt(payment).plaintext == payment.plaintext)
        try await wait(for: "the restart to be reported", within: 120) { reports.restartReasons == [.timeout] }
        #expect(!exists(process))
        await worker.shutdown()
    }

    @Test("does not kill a worker whose HSM token fails, because that could interrupt a login under way")
    func failingToken() async throws {
        let (real, reports, exits) = (try await TokenDirectory(), Reports(), Exits())
        let hsmToken = try ScriptedToken(real)
        let worker = try worker(real, reports, log: exits) {
            $0.module = hsmToken.libraryPath
            $0.environment = hsmToken.environment
        }
        await worker.start()
        try await worker.opened()
        // The call by which the worker checks its session fails with CKR_DEVICE_REMOVED (0x32).
        try hsmToken.play("fault C_GetSessionInfo from=1 return=0x32")
        await #expect(throws: WorkerFailure.self) { try await worker.probe() }
        try hsmToken.play()
        try await wait(for: "the exit", within: 120) { !exits.all.isEmpty }
        #expect(reports.restartReasons.first == .hsmToken)
        #expect(exits.all.first == "it ended with status 0")
        await worker.shutdown()
    }

    @Test("reports in the next answer that an HSM token shows a key in service as extractable")
    func extractableKeyReported() async throws {
        let real = try await TokenDirectory()
        let hsmToken = try ScriptedToken(real)
        let worker = try await serving(real) {
            ($0.module, $0.uri, $0.environment) = (hsmToken.libraryPath, hsmToken.uri, hsmToken.environment)
        }
        let hash = try #require(PublicKeyHash(bytes: SharedForge.ecMerchant.merchant.publicKeyHash))
        #expect(try await worker.attributes(of: hash).map(\.extractable) == [false])
        // The attribute 0x162 is CKA_EXTRACTABLE.
        try hsmToken.play("template C_GetAttributeValue 0x162 1")
        #expect(try await worker.attributes(of: hash).map(\.extractable) == [true])
        await worker.shutdown()
        await #expect(throws: WorkerFailure.self) { try await worker.attributes(of: hash) }
    }

    @Test("retries an absent HSM token until it is present")
    func absentToken() async throws {
        let hsmToken = try await TokenDirectory(initialized: false)
        let worker = try worker(hsmToken)
        await worker.start()
        try await wait(for: "the HSM token to be unavailable", within: 120) {
            if case .unavailable(let failure) = worker.condition { failure.kind == .hsmTokenUnavailable } else { false }
        }
        let failure = await #expect(throws: WorkerFailure.self) { try await worker.probe() }
        #expect(failure?.kind == .hsmTokenUnavailable)
        #expect(try await hsmToken.initialize().status == 0)
        try await worker.opened()
        try await worker.probe()
        await worker.shutdown()
    }

    @Test("retries an HSM token that has its label but no user PIN yet, until it has one")
    func interruptedInitialization() async throws {
        let hsmToken = try await TokenDirectory.withoutUserPIN()
        let worker = try worker(hsmToken)
        await worker.start()
        try await wait(for: "the missing user PIN", within: 120) {
            guard case .unavailable(let failure) = worker.condition else { return false }
            return failure.message.contains("no user PIN")
        }
        try await hsmToken.initializeUserPIN()
        try await worker.opened()
        try await worker.probe()
        await worker.shutdown()
    }

    @Test("does not retry a refused PIN before its file changes")
    func refusedPIN() async throws {
        let hsmToken = try await TokenDirectory()
        try hsmToken.directory.write("00000000\n", to: "pin")
        let (worker, reports) = (try worker(hsmToken), Reports())
        await worker.start()
        try await wait(for: "the refusal", within: 120) {
            if case .unavailable(let failure) = worker.condition { failure.kind == .loginRefused } else { false }
        }
        try await Task.sleep(for: .seconds(3))
        #expect(reports.keyListings.isEmpty)
        guard case .unavailable = worker.condition else {
            Issue.record("\(worker.condition)")
            return
        }
        try hsmToken.directory.write(TokenDirectory.pin + "\n", to: "pin")
        worker.retry()
        try await worker.opened()
        await worker.shutdown()
    }

    @Test("makes the HSM token, not the daemon, unavailable when the program is not a worker")
    func noWorker() async throws {
        let hsmToken = try await TokenDirectory()
        var settings = HSMTokenSettings.softHSM(hsmToken)
        settings.callTimeout = .seconds(1)
        let worker = HSMToken(settings, executable: try WorkerExecutable(path: "/bin/true"), logger: .silent)
        await worker.start()
        try await wait(for: "the HSM token to be unavailable", within: 120) {
            if case .unavailable = worker.condition { true } else { false }
        }
        await worker.shutdown()
    }

    @Test("refuses a path that is not a program, and names it")
    func noExecutable() {
        let error = #expect(throws: WorkerExecutableError.self) { try WorkerExecutable(path: "/nonexistent/worker") }
        #expect(error?.message.contains("/nonexistent/worker") == true)
    }
}
