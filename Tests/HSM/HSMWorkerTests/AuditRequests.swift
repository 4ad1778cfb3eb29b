import Foundation
import TestSupport
import Testing
import WorkerProtocol

extension WorkerUnderTest {
    func auditKeys() async throws -> [AuditKeyDescription] {
        let answer = try await call(.listAuditKeys)
        guard case .auditKeys(let keys) = answer else { throw Unexpected(description: "\(answer)") }
        return keys
    }

    func createAuditKey(_ identifier: [UInt8]) async throws -> AuditKeyDescription {
        let answer = try await call(.createAuditKey(identifier: identifier))
        guard case .auditKey(let key) = answer else { throw Unexpected(description: "\(answer)") }
        return key
    }

    func sign(_ message: [UInt8], _ identifier: [UInt8]) async throws -> WorkerAnswer {
        try await call(
            .signCheckpoint(CheckpointSigning(identifier: identifier, message: message, algorithm: .ecdsaP256)))
    }

    func remember(_ line: String, node: String) async throws -> WorkerAnswer {
        try await call(.rememberHead(HeadToRemember(node: node, line: Array(line.utf8))))
    }

    func heads() async throws -> [String] {
        let answer = try await call(.listHeads)
        guard case .heads(let lines) = answer else { throw Unexpected(description: "\(answer)") }
        return lines.map { String(decoding: $0, as: UTF8.self) }
    }
}

extension TokenDirectory {
    /// Runs pkcs11-tool on the HSM token, like another application that uses it.
    func tool(_ arguments: [String], loggedIn: Bool = true) async throws -> ProgramResult {
        try await Program.run(
            Program.installed("pkcs11-tool"),
            ["--module", SoftHSM.libraryPath, "--token-label", TokenDirectory.label]
                + (loggedIn ? ["--login", "--pin", TokenDirectory.pin] : []) + arguments, environment: environment)
    }
}
