import Foundation
import Glibc
import TestSupport
import Testing
import TokenForge

@testable import WorkerSupervision

/// A package manager replaces the worker's program under a daemon that runs.
@Suite("A worker's program that is replaced")
struct ReplacedWorkerTests {
    @Test("the running daemon goes on with the program that it was started with, also for its next workers")
    func replaced() async throws {
        let (hsmToken, directory) = (try await TokenDirectory(), try FreshDirectory())
        let path = directory.path("paytokend-hsm")
        try FileManager.default.copyItem(atPath: Program.built("paytokend-hsm"), toPath: path)
        let worker = HSMToken(
            .softHSM(hsmToken), executable: try WorkerExecutable(path: path), logger: .silent)
        await worker.start()
        try await worker.importMerchantKey()
        // Another version's, which is another file; this one could serve nobody.
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.copyItem(atPath: "/bin/false", toPath: path)

        let first = try #require(worker.processIdentifier)
        kill(first, SIGKILL)
        try await wait(for: "another worker", within: 120) {
            worker.processIdentifier.map { $0 != first } ?? false
        }
        try await worker.opened()
        let payment = try EncryptedPayment.forMerchant()
        #expect(try await worker.decrypt(payment).plaintext == payment.plaintext)
        await worker.shutdown()
    }
}
