import Crypto
import Foundation
import KeyTypes
import Locks
import TestSupport
import WorkerProtocol
import WorkerSupervision

@testable import Daemon

/// An HSM token with audit keys and remembered heads in software, for tests of the daemon's record. The worker's tests
/// cover real HSM tokens.
final class SoftwareAuditToken: AuditHSMToken {
    private struct State {
        var keys: [(identifier: [UInt8], key: P256.Signing.PrivateKey)] = []
        var heads: [(node: String, line: [UInt8])] = []
        var failsAt: Step?
        var failure = WorkerFailure(.hsmTokenUnavailable, "The token does not answer.")
        var signatures = 0
        var failures = 0
        var forgets = false
        /// The public keys that the HSM token shows instead of the real ones, by the key's identifier.
        var replacedPoints: [[UInt8]: [UInt8]] = [:]
    }

    enum Step: Sendable {
        case list, create, sign, remember
    }

    let name: String
    private let state = Mutex(State())

    init(name: String = "primary") { self.name = name }

    /// Makes every later call of this step fail. If `step` is nil, all calls succeed again.
    func fail(at step: Step?, with failure: WorkerFailure? = nil) {
        state.withLock { state in
            state.failsAt = step
            if let failure { state.failure = failure }
        }
    }

    /// Makes the HSM token keep no data objects from now on, like NSS.
    func forget() { state.withLock { $0.forgets = true } }

    var heads: [[UInt8]] { state.withLock { $0.heads.map(\.line) } }
    var keyCount: Int { state.withLock { $0.keys.count } }
    var signatures: Int { state.withLock { $0.signatures } }
    var failures: Int { state.withLock { $0.failures } }

    func replaceHeads(_ heads: [(node: String, line: [UInt8])]) { state.withLock { $0.heads = heads } }

    /// Creates a key without the daemon, as anyone with the PIN could.
    func plant(_ identifier: [UInt8]) {
        state.withLock { $0.keys.append((identifier, P256.Signing.PrivateKey())) }
    }

    func removeKeys() { state.withLock { $0.keys = [] } }

    /// Replaces a key's public key object with another one.
    func replacePublicKey(of identifier: [UInt8]) {
        let point = Array(P256.Signing.PrivateKey().publicKey.x963Representation)
        state.withLock { $0.replacedPoints[identifier] = point }
    }

    /// The identifiers of the keys, oldest first.
    var identifiers: [[UInt8]] { state.withLock { $0.keys.map(\.identifier) } }

    /// Replaces a key's private key but keeps its public key object.
    func replacePrivateKey(of identifier: [UInt8]) {
        state.withLock { state in
            guard let place = state.keys.firstIndex(where: { $0.identifier == identifier }) else { return }
            state.replacedPoints[identifier] = Array(state.keys[place].key.publicKey.x963Representation)
            state.keys[place].key = P256.Signing.PrivateKey()
        }
    }

    private func begin(_ step: Step) throws(WorkerFailure) {
        let failure: WorkerFailure? = state.withLock { state in
            guard state.failsAt == step else { return nil }
            state.failures += 1
            return state.failure
        }
        if let failure { throw failure }
    }

    func auditKeys() async throws(WorkerFailure) -> [AuditKeyDescription] {
        try begin(.list)
        return state.withLock { state in state.keys.map { Self.describe($0, state) } }
    }

    func createAuditKey(identifier: [UInt8]) async throws(WorkerFailure) -> AuditKeyDescription {
        try begin(.create)
        return state.withLock { state in
            if let known = state.keys.first(where: { $0.identifier == identifier }) {
                return Self.describe(known, state)
            }
            state.keys.append((identifier, P256.Signing.PrivateKey()))
            return Self.describe(state.keys[state.keys.count - 1], state)
        }
    }

    func signCheckpoint(
        _ message: [UInt8], identifier: [UInt8], algorithm: AuditSignatureAlgorithm
    ) async throws(WorkerFailure) -> [UInt8] {
        try begin(.sign)
        let key = state.withLock { state in
            state.signatures += 1
            return state.keys.first { $0.identifier == identifier }?.key
        }
        guard let signature = try? key?.signature(for: Data(message)) else {
            throw WorkerFailure(.hsmTokenUnavailable, "No such key.")
        }
        return Array(signature.derRepresentation)
    }

    func rememberedHeads() async throws(WorkerFailure) -> [[UInt8]] {
        try begin(.list)
        return heads
    }

    func rememberHead(_ line: [UInt8], node: String) async throws(WorkerFailure) {
        try begin(.remember)
        guard !state.withLock({ $0.forgets }) else {
            throw WorkerFailure(.auditRefused, "The token keeps no data objects.")
        }
        state.withLock { state in
            state.heads.removeAll { $0.node == node }
            state.heads.append((node, line))
        }
    }

    private static func describe(
        _ entry: (identifier: [UInt8], key: P256.Signing.PrivateKey), _ state: State
    ) -> AuditKeyDescription {
        AuditKeyDescription(
            identifier: entry.identifier,
            publicKey: state.replacedPoints[entry.identifier] ?? Array(entry.key.publicKey.x963Representation),
            algorithm: .ecdsaP256)
    }
}

/// An HSM token that signs only while its latch is open.
final class HangingAuditToken: AuditHSMToken {
    private let hsmToken: SoftwareAuditToken
    let latch = Latch(isOpen: true)
    let name: String

    /// - Parameter name: another name for the HSM token; nil for its own.
    init(_ hsmToken: SoftwareAuditToken, name: String? = nil) {
        self.hsmToken = hsmToken
        self.name = name ?? hsmToken.name
    }

    func signCheckpoint(
        _ message: [UInt8], identifier: [UInt8], algorithm: AuditSignatureAlgorithm
    ) async throws(WorkerFailure) -> [UInt8] {
        await latch.pass()
        return try await hsmToken.signCheckpoint(message, identifier: identifier, algorithm: algorithm)
    }

    func auditKeys() async throws(WorkerFailure) -> [AuditKeyDescription] { try await hsmToken.auditKeys() }

    func createAuditKey(identifier: [UInt8]) async throws(WorkerFailure) -> AuditKeyDescription {
        try await hsmToken.createAuditKey(identifier: identifier)
    }

    func rememberedHeads() async throws(WorkerFailure) -> [[UInt8]] { try await hsmToken.rememberedHeads() }

    func rememberHead(_ line: [UInt8], node: String) async throws(WorkerFailure) {
        try await hsmToken.rememberHead(line, node: node)
    }
}
