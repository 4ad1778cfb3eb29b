package import KeyTypes
package import Ledger
import Locks
package import WorkerProtocol
package import WorkerSupervision

/// The HSM token that seals this node's record: it has the audit key, and remembers the newest audit checkpoint.
///
/// For a new ledger it is the configuration's first HSM token. The ledger stores its name with the audit key, so neither
/// the configuration's order nor an HSM token that is unavailable changes the choice. Only ``AuditKeyChange`` does.
package final class SealingHSMToken: AuditHSMToken {
    /// All configured HSM tokens.
    package let all: [any AuditHSMToken]
    private let chosen: Mutex<any AuditHSMToken>

    /// - Parameters:
    ///   - all: all configured HSM tokens, at least one, in the configuration's order.
    ///   - keys: this node's audit keys in the ledger. The last key that was put into service names the HSM token that
    ///     seals. If no key has been in service, the last planned key names it. If no configured HSM token has that
    ///     name, the configuration's first HSM token is chosen. Its comparison with the ledger then shows if it has the
    ///     key under another name.
    package init(among all: [any AuditHSMToken], keys: [StoredAuditKey]) {
        let name = (keys.last { $0.publicKey != nil } ?? keys.last)?.hsmToken
        self.all = all
        chosen = Mutex(all.first { $0.name == name } ?? all[0])
    }

    /// The HSM token that seals now.
    var current: any AuditHSMToken { chosen.withLock { $0 } }
    package var name: String { current.name }

    package func use(_ hsmToken: any AuditHSMToken) { chosen.withLock { $0 = hsmToken } }

    package func auditKeys() async throws(WorkerFailure) -> [AuditKeyDescription] { try await current.auditKeys() }

    package func createAuditKey(identifier: [UInt8]) async throws(WorkerFailure) -> AuditKeyDescription {
        try await current.createAuditKey(identifier: identifier)
    }

    package func signCheckpoint(
        _ message: [UInt8], identifier: [UInt8], algorithm: AuditSignatureAlgorithm
    ) async throws(WorkerFailure) -> [UInt8] {
        try await current.signCheckpoint(message, identifier: identifier, algorithm: algorithm)
    }

    package func rememberedHeads() async throws(WorkerFailure) -> [[UInt8]] { try await current.rememberedHeads() }

    package func rememberHead(_ line: [UInt8], node: String) async throws(WorkerFailure) {
        try await current.rememberHead(line, node: node)
    }
}
