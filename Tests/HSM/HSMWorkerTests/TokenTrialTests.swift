import Foundation
import KeyTypes
import TestSupport
import Testing
import WorkerProtocol

/// `paytokend-hsm token-try` on SoftHSM and through the scripted module.
@Suite struct TokenTrialTests {
    private static let steps = [
        "open", "imports EC", "imports RSA", "imports identity", "generates EC", "generates RSA", "generates identity",
        "4 sessions", "audit key", "remembers the head",
    ]

    private struct Line: Decodable {
        struct Tests: Decodable { let tierECv1, tierRSAv1: String? }
        let began, step, reason: String?
        let works, keyRemoved: Bool?
        let details: [String]?
        let sessions: Int?
        let tests: Tests?
    }

    private func run(_ hsmToken: any WorkersToken, _ options: String...) async throws -> (ProgramResult, [Line]) {
        let result = try await Program.run(
            Program.built("paytokend-hsm"),
            [
                "token-try", "--module", hsmToken.libraryPath, "--uri", hsmToken.uri, "--pin-file", hsmToken.pinFile,
                "--init-args", hsmToken.initializationString,
            ] + options, environment: hsmToken.environment)
        let lines = try result.output.split(separator: "\n").map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }
        return (result, lines)
    }

    private func ended(_ lines: [Line]) -> [String] {
        lines.compactMap { line in line.works == true ? line.step : nil }
    }

    /// All objects with their attributes, as files of SoftHSM.
    private func objects(_ hsmToken: TokenDirectory) throws -> [String: Data] {
        let folder = URL(filePath: hsmToken.directory.path("tokens"))
        let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.allObjects as? [URL]
        return try Dictionary(
            uniqueKeysWithValues: (files ?? []).filter {
                $0.pathExtension == "object" && $0.lastPathComponent != "token.object"
            }.map { ($0.lastPathComponent, try Data(contentsOf: $0)) })
    }

    @Test("tries every step, uses no production key, and leaves every object as it was")
    func productionKeys() async throws {
        let hsmToken = try await TokenDirectory()
        let uses = hsmToken.directory.path("uses")
        let scripted = try ScriptedToken(hsmToken, "uses \(uses)")
        let hashes = try await productionKeys(hsmToken)
        let before = try objects(hsmToken)
        #expect(before.count == 8, "private and public keys of three merchants, two certificates")
        let (result, lines) = try await run(scripted)
        #expect(result.status == 0 && result.error.isEmpty, "\(result)")
        #expect(ended(lines) == Self.steps)
        #expect(lines.compactMap(\.keyRemoved) == Array(repeating: true, count: 6))
        #expect(lines.compactMap(\.tests).first?.tierECv1 == "C")
        #expect(lines.compactMap(\.sessions) == [4])
        let signatures = ["TLS 1.3 rsa_pss_rsae_sha256", "TLS 1.2 rsa_pss_rsae_sha256", "TLS 1.2 rsa_pkcs1_sha256"]
        #expect(lines.compactMap(\.details) == [signatures, signatures])
        #expect(try objects(hsmToken) == before)
        let used = String(decoding: FileManager.default.contents(atPath: uses) ?? Data(), as: UTF8.self)
        #expect(used.split(separator: "\n").count > 64, "the module logs the uses of the trial's keys")
        for hash in hashes {
            #expect(!used.contains(Data(hash).base64EncodedString()) && !used.contains(hash.hexadecimal))
        }
    }

    /// Makes an imported EC key, an imported RSA key and a generated EC key.
    private func productionKeys(_ hsmToken: TokenDirectory) async throws -> [[UInt8]] {
        let worker = try await WorkerUnderTest.withMerchantKeys(hsmToken)
        let generation = KeyGeneration(merchantIdentifier: "merchant.generated", algorithm: .ec)
        _ = try await worker.call(.generateKey(generation))
        return try await worker.keys().map(\.identifier)
    }

    @Test("ends with status 75 when a call hangs, and the next process names and removes what is left")
    func hang() async throws {
        let directory = try await TokenDirectory()
        let hsmToken = try ScriptedToken(directory, "fault C_Sign from=4 hang")
        let (hung, lines) = try await run(hsmToken, "--timeout", "5")
        #expect(hung.status == 75, "\(hung)")
        let late = try #require(lines.last)
        #expect(late.works == false && late.reason?.contains("no answer within 5") == true, "\(hung)")
        #expect(try objects(directory).isEmpty == false, "the key that hung is still there")
        try hsmToken.play()
        let skips = Self.steps.dropFirst().flatMap { ["--skip", $0] }
        let again = try await Program.run(
            Program.built("paytokend-hsm"),
            [
                "token-try", "--module", hsmToken.libraryPath, "--uri", hsmToken.uri, "--pin-file", hsmToken.pinFile,
            ] + skips, environment: hsmToken.environment)
        #expect(again.status == 0, "\(again)")
        #expect(again.error.contains("Removes what an earlier trial left: private key \"paytokend trial\""), "\(again)")
        #expect(try objects(directory).isEmpty)
    }

    @Test("removes what a killed trial left, and no production key with a similar label")
    func killed() async throws {
        let directory = try await TokenDirectory()
        let hashes = try await productionKeys(directory)
        let before = try objects(directory)
        let hsmToken = try ScriptedToken(directory, "fault C_Sign from=4 crash once")
        let (killed, _) = try await run(hsmToken)
        #expect(killed.status != 0 && killed.status != 75, "\(killed)")
        #expect(try objects(directory).count > before.count)
        let (result, lines) = try await run(hsmToken)
        #expect(result.status == 0 && ended(lines) == Self.steps, "\(result)")
        #expect(result.error.contains("Removes what an earlier trial left"), "\(result)")
        for hash in hashes { #expect(!result.error.contains(hash.hexadecimal)) }
        #expect(try objects(directory) == before)
    }

    @Test("leaves out the remaining steps and removes its objects at SIGTERM")
    func interruption() async throws {
        let directory = try await TokenDirectory()
        let hsmToken = try ScriptedToken(directory)
        let running = try RunningProgram(
            Program.built("paytokend-hsm"),
            [
                "token-try", "--module", hsmToken.libraryPath, "--uri", hsmToken.uri, "--pin-file", hsmToken.pinFile,
            ], environment: hsmToken.environment)
        try await wait(for: "a key") { String(decoding: running.outputBytes, as: UTF8.self).contains("imports EC") }
        running.signal(SIGTERM)
        let result = try await running.result()
        #expect(result.status == 0 && result.output.contains("\"step\":\"imports EC\""), "\(result)")
        #expect(!result.output.contains("4 sessions"), "\(result)")
        #expect(try objects(directory).isEmpty)
    }

    @Test("makes stored test pairs of its own, removes them, and leaves the worker's")
    func storedPairs() async throws {
        let directory = try await TokenDirectory()
        let hsmToken = try ScriptedToken(directory, "stored-keys-only")
        try await WorkerUnderTest(hsmToken).open(hsmToken)
        let before = try objects(directory)
        #expect(before.count == 6)
        let (result, lines) = try await run(hsmToken)
        #expect(result.status == 0, "\(result)")
        #expect(ended(lines) == Self.steps.filter { !$0.hasPrefix("imports") })
        #expect(try objects(directory) == before)
    }

    @Test("tests no production key after the HSM token ended the login, and still removes its own")
    func logout() async throws {
        let directory = try await TokenDirectory()
        let hashes = try await productionKeys(directory)
        let before = try objects(directory)
        let uses = directory.directory.path("uses")
        let hsmToken = try ScriptedToken(directory, "uses \(uses)", "fault C_GenerateKeyPair nth=1 logout")
        let (result, lines) = try await run(hsmToken)
        #expect(result.status == 0, "\(result)")
        #expect(lines.contains { $0.reason?.contains("ended the login") == true }, "\(result)")
        #expect(try objects(directory) == before)
        let used = String(decoding: FileManager.default.contents(atPath: uses) ?? Data(), as: UTF8.self)
        for hash in hashes { #expect(!used.contains(hash.hexadecimal)) }
    }

    @Test("reports a refused PIN once, and tries nothing else")
    func wrongPIN() async throws {
        let hsmToken = try await TokenDirectory()
        try hsmToken.directory.write("99999999\n", to: "pin")
        let (result, lines) = try await run(hsmToken)
        #expect(result.status == 1 && result.error.contains("CKR_PIN_INCORRECT"), "\(result)")
        #expect(ended(lines).isEmpty)
    }
}
