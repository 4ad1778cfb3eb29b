import KeyTypes
import Ledger
import TestSupport
import Testing
import WorkerProtocol
import WorkerSupervision

@testable import UsageRecording

/// An HSM token with a key that it cannot sign with, as a worker leaves it that was killed before the key's first
/// signature. If the daemon asks for the key again, the HSM token replaces it.
private final class InterruptedAuditToken: AuditHSMToken {
    private let hsmToken = SoftwareAuditToken()
    var name: String { hsmToken.name }
    var keyCount: Int { hsmToken.keyCount }

    init(planned identifier: [UInt8]) {
        hsmToken.plant(identifier)
        hsmToken.fail(at: .sign, with: WorkerFailure(.auditRefused, "C_SignInit: CKR_MECHANISM_INVALID"))
    }

    func auditKeys() async throws(WorkerFailure) -> [AuditKeyDescription] { try await hsmToken.auditKeys() }

    func createAuditKey(identifier: [UInt8]) async throws(WorkerFailure) -> AuditKeyDescription {
        hsmToken.removeKeys()
        hsmToken.fail(at: nil)
        return try await hsmToken.createAuditKey(identifier: identifier)
    }

    func signCheckpoint(
        _ message: [UInt8], identifier: [UInt8], algorithm: AuditSignatureAlgorithm
    ) async throws(WorkerFailure) -> [UInt8] {
        try await hsmToken.signCheckpoint(message, identifier: identifier, algorithm: algorithm)
    }

    func rememberedHeads() async throws(WorkerFailure) -> [[UInt8]] { try await hsmToken.rememberedHeads() }

    func rememberHead(_ line: [UInt8], node: String) async throws(WorkerFailure) {
        try await hsmToken.rememberHead(line, node: node)
    }
}

@Suite("Interrupted generation of an audit key")
struct InterruptedAuditKeyTests {
    @Test("has a planned key replaced that cannot sign, and seals with the new one")
    func replaced() async throws {
        let directory = try FreshDirectory()
        let planned = Release.randomIdentifier()
        let hsmToken = InterruptedAuditToken(planned: planned)
        let fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: hsmToken)
        try await fixture.ledger.planAuditKey(identifier: planned, in: hsmToken.name)
        await fixture.gate.compare()
        #expect(fixture.gate.position == .open && hsmToken.keyCount == 1)
        try await fixture.append()
        try await fixture.checkpoints.seal()
        #expect(try await fixture.verdict().isIntact)
        await fixture.ledger.close()
    }
}
