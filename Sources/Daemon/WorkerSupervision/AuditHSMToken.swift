package import WorkerProtocol

/// The HSM token operations of the key-usage record: a key that signs audit checkpoints, and storage for the newest.
///
/// Every function is idempotent and may be called again after a failure.
///
/// They throw ``WorkerFailure``: `auditRefused` when the HSM token works but does not support the operation (read-only,
/// no data objects, no such mechanism), `keyNotFound` when there is no such audit key, and otherwise the failures of a
/// decryption.
package protocol AuditHSMToken: Sendable {
    /// Returns the audit keys that the HSM token shows, at most 1,024; more are an error. A private key without its
    /// public key is not included.
    func auditKeys() async throws(WorkerFailure) -> [AuditKeyDescription]

    /// Makes a key pair inside the HSM token: EC on P-256, sensitive, non-extractable, for signatures only. If a key
    /// already has the identifier, returns that key unchanged.
    /// - Parameter identifier: CKA_ID, 16 bytes.
    func createAuditKey(identifier: [UInt8]) async throws(WorkerFailure) -> AuditKeyDescription

    /// Signs an audit checkpoint with ECDSA over its SHA-256.
    /// - Parameters:
    ///   - message: the value of `checkpoint`, at most 4096 bytes; a message that does not begin with `{"node":` is
    ///     refused.
    /// - Returns: the signature in DER (RFC 3279 §2.2.3), 8 to 72 bytes, verified under the public key in the HSM token.
    func signCheckpoint(_ message: [UInt8], identifier: [UInt8]) async throws(WorkerFailure) -> [UInt8]

    /// Returns the lines of all nodes' audit checkpoints that the HSM token stores, in no particular order. There are
    /// at most 1,024; more are an error. After an interruption, a node may have several. They are not verified: anyone
    /// with the PIN can write them.
    func rememberedHeads() async throws(WorkerFailure) -> [[UInt8]]

    /// Stores a line as a data object, and then destroys the node's older lines, so that there is always one. Calls for
    /// one node must not overlap. If the HSM token's library hangs, the call fails with `deadlineExceeded`.
    /// - Parameters:
    ///   - line: an audit checkpoint's line without the line feed, 1 to 4096 bytes.
    ///   - node: 1 to 64 bytes.
    func rememberHead(_ line: [UInt8], node: String) async throws(WorkerFailure)
}

extension HSMToken: AuditHSMToken {
    package func auditKeys() async throws(WorkerFailure) -> [AuditKeyDescription] {
        try await call(.listAuditKeys) {
            if case .auditKeys(let keys) = $0 { keys } else { nil }
        }
    }

    package func createAuditKey(identifier: [UInt8]) async throws(WorkerFailure) -> AuditKeyDescription {
        try await call(.createAuditKey(identifier: identifier)) {
            if case .auditKey(let key) = $0, key.identifier == identifier { key } else { nil }
        }
    }

    package func signCheckpoint(_ message: [UInt8], identifier: [UInt8]) async throws(WorkerFailure) -> [UInt8] {
        try await call(.signCheckpoint(CheckpointSigning(identifier: identifier, message: message))) {
            if case .signature(let der) = $0 { der } else { nil }
        }
    }

    package func rememberedHeads() async throws(WorkerFailure) -> [[UInt8]] {
        try await call(.listHeads) {
            if case .heads(let lines) = $0 { lines } else { nil }
        }
    }

    package func rememberHead(_ line: [UInt8], node: String) async throws(WorkerFailure) {
        try await call(.rememberHead(HeadToRemember(node: node, line: line))) { $0 == .done ? () : nil }
    }
}
