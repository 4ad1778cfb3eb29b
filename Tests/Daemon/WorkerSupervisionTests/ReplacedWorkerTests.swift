import Foundation
import Glibc
import TestSupport
import Testing
import TokenForge

@testable import WorkerSupervision

/// The replacement of the worker's program by a package manager while the daemon runs.
@Suite("Replacement of the worker's program")
struct ReplacedWorkerTests {
    @Test("starts all workers from the program file that was present when the daemon started")
    func startsOriginalProgram() async throws {
        let (hsmToken, directory) = (try await TokenDirectory(), try FreshDirectory())
        let path = directory.path("paytokend-hsm")
        try FileManager.default.copyItem(atPath: Program.built("paytokend-hsm"), toPath: path)
        let worker = HSMToken(
            .softHSM(hsmToken), executable: try WorkerExecutable(path: path), logger: .silent)
        await worker.start()
        try await worker.importMerchantKey()
        // An upgrade replaces the program's file. The test uses /bin/false as the new file, so a worker started from it
        // would serve no call.
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
