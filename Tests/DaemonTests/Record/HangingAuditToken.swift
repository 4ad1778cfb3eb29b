import Synchronization
import WorkerProtocol

@testable import Daemon

/// A token whose signatures come only when the hang has ended.
final class HangingAuditToken: AuditToken {
    private struct State {
        var hangs = false
        var calls = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let hsmToken: SoftwareAuditToken
    private let state = Mutex(State())

    init(_ hsmToken: SoftwareAuditToken) {
        self.token = token
    }

    func begin() { state.withLock { $0.hangs = true } }

    func end() {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            state.hangs = false
            return state.waiting
        }
        for call in waiting { call.resume() }
    }

    /// How many signatures were asked for.
    var calls: Int { state.withLock { $0.calls } }

    func signCheckpoint(_ message: [UInt8], identifier: [UInt8]) async throws(WorkerFailure) -> [UInt8] {
        await withCheckedContinuation { (call: CheckedContinuation<Void, Never>) in
            let passes = state.withLock { state in
                state.calls += 1
                if state.hangs { state.waiting.append(call) }
                return !state.hangs
            }
            if passes { call.resume() }
        }
        return try await token.signCheckpoint(message, identifier: identifier)
    }

    func auditKeys() async throws(WorkerFailure) -> [AuditKeyDescription] { try await token.auditKeys() }

    func createAuditKey(identifier: [UInt8]) async throws(WorkerFailure) -> AuditKeyDescription {
        try await token.createAuditKey(identifier: identifier)
    }

    func rememberedHeads() async throws(WorkerFailure) -> [[UInt8]] { try await token.rememberedHeads() }

    func rememberHead(_ line: [UInt8], node: String) async throws(WorkerFailure) {
        try await token.rememberHead(line, node: node)
    }
}
