import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Requests under way when a key is suspended. After the answer to the suspension, the daemon must release none of
/// them.
@Suite(.everyEngine) struct SuspensionTests {
    /// Starts a daemon with a slow HSM token, so that some calls are in the HSM token and others wait for it.
    private func daemon() async throws -> DaemonHarness {
        var configuration = Staff.configuration()
        configuration.module = try Program.built("libScriptedPKCS11.so")
        configuration.hsmToken = ["sessions: 2", "call_timeout: 60s"]
        let harness = try await DaemonHarness(prepared: configuration)
        configuration.environment = ["SCRIPTED_PKCS11": harness.directory.path("script")]
        try harness.configure(configuration)
        try play(harness)
        try await harness.start()
        try FileManager.default.setAttributes([.posixPermissions: 0o711], ofItemAtPath: harness.directory.path)
        let imported = try await harness.importMerchant(SharedForge.ecMerchant)
        try #require(imported.status == 0, "\(imported)")
        try play(harness, "fault C_DeriveKey always delay=300")
        return harness
    }

    private func play(_ harness: DaemonHarness, _ lines: String...) throws {
        let text = (["module \(SoftHSM.libraryPath)"] + lines).joined(separator: "\n") + "\n"
        try Data(text.utf8).write(to: URL(filePath: harness.directory.path("script")), options: .atomic)
    }

    private struct Answer {
        let status: Int
        let body: JSONObject
        var sequence: Int { body["audit"]?.objectValue?["sequence"]?.numberValue?.int ?? 0 }
    }

    /// Sends one request on its own connection.
    private func decrypt(_ body: [UInt8], _ socket: String) async throws -> Answer {
        let connection = try await RawConnection(socket)
        try await connection.send(Array(RawConnection.head("/v1/decrypt", length: body.count).utf8) + body)
        let answer = try await connection.answer(within: 120)
        await connection.close()
        return Answer(
            status: answer.status, body: try #require(try JSONValue(parsing: Array(answer.body.utf8)).objectValue))
    }

    /// Suspends a key with `stop` while many requests are under way. `stop` returns after the daemon's answer.
    private func stopped(
        _ harness: DaemonHarness, by stop: () async throws -> Void
    ) async throws -> (answers: [Answer], late: Answer) {
        let merchant = try SharedForge.ecMerchant
        let bodies = try (0..<40).map { _ in
            try SharedForge.paymentToken(for: merchant.merchant).decryptBody()
        }
        let socket = harness.socket
        return try await withThrowingTaskGroup(of: Answer.self) { group in
            for body in bodies { group.addTask { try await decrypt(body, socket) } }
            // After the first answer, two calls are in the HSM token and the others wait for it.
            var answers = [try #require(try await group.next())]
            try await stop()
            let late = try await decrypt(
                SharedForge.paymentToken(for: merchant.merchant).decryptBody(), socket)
            for try await answer in group { answers.append(answer) }
            return (answers, late)
        }
    }

    /// Requires that no release follows the suspension in the order of the audit record.
    private func check(_ harness: DaemonHarness, _ answers: [Answer], _ late: Answer) async throws {
        let listed = try await harness.paytokenctl([
            "audit", "list", "--key", SharedForge.ecMerchant.hex, "--limit", "1000", "--output", "json",
        ])
        let records = try (JSONValue(parsing: listed.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
        func sequence(_ record: JSONObject) -> Int { record["sequence"]?.numberValue?.int ?? 0 }
        let suspension = try #require(
            records.first { $0["event"]?.stringValue == "key_state_change" && $0["to"]?.stringValue == "suspended" })
        let released = records.filter {
            $0["event"]?.stringValue == "decrypt" && ["ok", "repeat"].contains($0["outcome"]?.stringValue)
        }
        #expect(released.allSatisfy { sequence($0) < sequence(suspension) })

        #expect(answers.count == 40)
        let opened = answers.filter { $0.status == 200 }
        #expect(opened.allSatisfy { $0.sequence < sequence(suspension) })
        let refused = answers.filter { $0.status != 200 }
        #expect(refused.allSatisfy { $0.status == 422 && $0.body["code"]?.stringValue == "key_not_active" })
        #expect(refused.allSatisfy { $0.body["paymentData"] == nil })
        #expect(!opened.isEmpty && !refused.isEmpty, "\(opened.count) opened, \(refused.count) refused")
        #expect(late.status == 422 && late.body["code"]?.stringValue == "key_not_active")
    }

    @Test("releases no request that is in the HSM or queued when its key is suspended")
    func suspended() async throws {
        let harness = try await daemon()
        let (answers, late) = try await stopped(harness) {
            let suspended = try await harness.paytokenctl(
                ["key", "suspend", SharedForge.ecMerchant.hex, "--reason", "laptop stolen"])
            try #require(suspended.status == 0, "\(suspended)")
        }
        try await check(harness, answers, late)
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "stops releases when a compromise is requested, before it is approved",
        .enabled(Staff.needsRoot) { try await Staff.canAct() })
    func compromised() async throws {
        let harness = try await daemon()
        let (answers, late) = try await stopped(harness) {
            let asked = try await harness.paytokenctl(
                ["key", "compromise", SharedForge.ecMerchant.hex, "--reason", "found in a repository"],
                as: Staff.alice.identity)
            try #require(asked.status == 75, "\(asked)")
        }
        try await check(harness, answers, late)
        #expect(try await harness.stop().status == 0)
    }
}
