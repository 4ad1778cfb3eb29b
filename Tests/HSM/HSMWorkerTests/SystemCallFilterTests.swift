import CLinux
import Foundation
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// System calls that a worker denies itself before it loads the library. The scripted module attempts the denied calls.
@Suite struct SystemCallFilterTests {
    private static let everything: [String] = {
        var names: [String] = []
        while let name = unsafe paytokend_deniable_system_call(names.count) {
            names.append(unsafe String(cString: name))
        }
        return names
    }()

    private func serving(_ hsmToken: any WorkersToken, denying names: [String]) async throws -> WorkerUnderTest {
        try await .withMerchantKeys(hsmToken) { $0.deniedSystemCalls = names }
    }

    /// Returns the worker's seccomp mode from the kernel: 0 for none, 2 for a filter (proc(5)).
    private func seccompMode(_ worker: WorkerUnderTest) throws -> String {
        let status = try String(contentsOfFile: "/proc/\(worker.processIdentifier)/status", encoding: .utf8)
        return status.split(separator: "\n").first { $0.hasPrefix("Seccomp:") }.map { String($0.dropFirst(9)) } ?? ""
    }

    @Test("prevents the library from starting programs, processes and connections, and still decrypts")
    func denied() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await serving(hsmToken, denying: ["execve", "fork", "connect"])
        #expect(try seccompMode(worker) == "2")
        try hsmToken.play(
            "fault C_DeriveKey nth=1 exec", "fault C_DeriveKey nth=2 fork", "fault C_DeriveKey nth=3 connect")
        for _ in 0..<4 {
            let payment = try EncryptedPayment.ec()
            #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        }
        for attempt in ["execve", "fork", "connect"] {
            #expect(hsmToken.calls(attempt).map(\.value) == [UInt(EPERM)], "\(attempt)")
        }
        #expect(try await worker.end() == 0)
    }

    @Test("lets the same library start programs, processes and connections if no system calls are denied")
    func allowed() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await serving(hsmToken, denying: [])
        #expect(try seccompMode(worker) == "0")
        try hsmToken.play(
            "fault C_DeriveKey nth=1 fork", "fault C_DeriveKey nth=2 connect", "fault C_DeriveKey nth=3 exec")
        for _ in 0..<2 {
            let payment = try EncryptedPayment.ec()
            #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        }
        #expect(hsmToken.calls("fork").map(\.value) == [0])
        #expect(hsmToken.calls("connect").map(\.value) == [UInt(ENOENT)])
        // The library replaces the worker with another program, which ends at once.
        worker.send(try EncryptedPayment.ec().request.encoded(identifier: 77))
        #expect(try await worker.receive() == nil)
        #expect(try await worker.end() == 0)
    }

    @Test(
        "serves with a file-based library if all deniable system calls are denied", arguments: TokenKind.installed
    )
    func everythingDenied(_ kind: TokenKind) async throws {
        #expect(Self.everything.count > 20 && Set(Self.everything).count == Self.everything.count)
        let worker = try await serving(try await kind.fresh(), denying: Self.everything)
        #expect(try seccompMode(worker) == "2")
        let (ec, rsa) = (
            try EncryptedPayment.ec(), try EncryptedPayment.rsa()
        )
        #expect(try await worker.call(ec.request) == .plaintext(ec.plaintext, tier: kind.tierECv1))
        #expect(try await worker.call(rsa.request) == .plaintext(rsa.plaintext, tier: kind.tierRSAv1))
        #expect(try await worker.keys().count == 2)
    }

    @Test("refuses to open the HSM token if the list contains a system call that cannot be denied")
    func unknownName() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        let failure = await #expect(throws: WorkerFailure.self) {
            try await worker.open(hsmToken) { $0.deniedSystemCalls = ["execve", "read"] }
        }
        #expect(failure?.kind == .hsmTokenUnavailable)
        #expect(failure?.message.contains("deny_system_calls (execve, read)") == true, "\(failure?.message ?? "")")
    }
}
