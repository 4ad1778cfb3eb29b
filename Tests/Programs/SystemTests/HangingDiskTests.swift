import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The daemon on a disk whose syncs hang. A library that is preloaded into the daemon makes fsync wait while a
/// certain file exists.
@Suite struct HangingDiskTests {
    private static let shim = """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <fcntl.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>

        static int held(const char *name, int descriptor) {
            const char *hang = getenv("HANG_WHILE");
            while (hang && access(hang, F_OK) == 0) {
                char path[4096];
                snprintf(path, sizeof path, "%s.reached", hang);
                int reached = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
                if (reached >= 0) close(reached);
                usleep(5000);
            }
            int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
            return real(descriptor);
        }

        int fsync(int descriptor) { return held("fsync", descriptor); }
        int fdatasync(int descriptor) { return held("fdatasync", descriptor); }
        """

    /// The simulated disk. Its syncs hang while the file at the path `file` exists.
    private struct Disk {
        let file: String

        func hang() throws {
            try? FileManager.default.removeItem(atPath: file + ".reached")
            try Data().write(to: URL(filePath: file))
        }

        /// Waits until the daemon's process hangs in a sync.
        func waitUntilHanging() async throws {
            try await wait(for: "a sync that hangs") { FileManager.default.fileExists(atPath: file + ".reached") }
        }

        func stopHanging() { try? FileManager.default.removeItem(atPath: file) }
    }

    @Test(
        "answers callers, keeps the codes of refusals, reports that it is not ready, and stops while the disk hangs")
    func answersWhileDiskHangs() async throws {
        var configuration = DaemonConfiguration()
        configuration.ledger = ["timeout: 5s"]
        let harness = try await DaemonHarness(prepared: configuration)
        let library = harness.directory.path("hang.so")
        let source = try harness.directory.write(Self.shim, to: "hang.c")
        let built = try await Program.run(
            Program.installed("clang"), ["-shared", "-fPIC", "-o", library, source, "-ldl"])
        try #require(built.status == 0, "\(built)")
        let disk = Disk(file: harness.directory.path("hang"))
        try await harness.start(environment: ["LD_PRELOAD": library, "HANG_WHILE": disk.file])
        let imported = try await harness.importMerchant(SharedForge.ecMerchant)
        try #require(imported.status == 0, "\(imported)")
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)

        try disk.hang()
        defer { disk.stopHanging() }
        let paymentToken = try SharedForge.paymentToken()
        let first = try await harness.decrypt(paymentToken, reference: "r")
        #expect(first.status == 503 && first.code == "ledger_unavailable", "\(first)")
        #expect(first.member("paymentData") == nil)
        try await disk.waitUntilHanging()
        for _ in 0..<5 { #expect(try await Curl.request("/readyz", socket: harness.socket).status == 503) }
        #expect(try await Curl.request("/healthz", socket: harness.socket).status == 200)
        let refused = try await harness.decrypt(SharedForge.paymentToken(), expected: #"{"currencyCode":"999"}"#)
        #expect(refused.status == 422 && refused.code == "currency_mismatch", "\(refused)")
        let second = try await harness.decrypt(SharedForge.paymentToken(), reference: "s")
        #expect(second.status == 503 && second.code == "ledger_unavailable", "\(second)")

        disk.stopHanging()
        try await harness.waitUntilReady()
        let again = try await harness.decrypt(paymentToken, reference: "r")
        #expect(again.status == 200, "\(again)")
        let replay = try await harness.decrypt(paymentToken)
        #expect(replay.status == 409 && replay.code == "transaction_replayed", "\(replay)")
        let verified = try await harness.paytokenctl(["audit", "verify"])
        #expect(verified.status == 0, "\(verified)")

        try disk.hang()
        let last = try SharedForge.paymentToken()
        async let unanswered = harness.decrypt(last)
        try await disk.waitUntilHanging()
        #expect(try await harness.stop().status == 0)
        #expect(FileManager.default.fileExists(atPath: disk.file), "it stopped while syncs hung")
        _ = try? await unanswered
    }
}
