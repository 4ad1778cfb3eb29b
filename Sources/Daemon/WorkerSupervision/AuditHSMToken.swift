package import WorkerProtocol

/// What the key-usage record needs of a token: a key that signs checkpoints, and a place that remembers the newest.
///
/// Every function may be called again after a failure: none does anything a second time that it has done already.
///
/// They throw ``WorkerFailure``: `auditRefused` when the token works but does not do this (read-only, no data objects,
/// no such mechanism), `keyNotFound` when there is no such audit key, else as a decryption does.
package protocol AuditHSMToken: Sendable {
    /// The audit keys that the token shows, at most 1,024; more are an error. A private key without its public key is
    /// not among them.
    func auditKeys() async throws(WorkerFailure) -> [AuditKeyDescription]

    /// Makes a key pair inside the token: EC on P-256, sensitive, non-extractable, for signatures only. The one that
    /// has the identifier already is answered as it is.
    /// - Parameter identifier: CKA_ID, 16 bytes.
    func createAuditKey(identifier: [UInt8]) async throws(WorkerFailure) -> AuditKeyDescription

    /// Signs a checkpoint with ECDSA over its SHA-256.
    /// - Parameters:
    ///   - message: the value of `checkpoint`, at most 4096 bytes; what does not begin with `{"node":` is refused.
    ///   - identifier: the audit key's CKA_ID.
    /// - Returns: the signature in DER (RFC 3279 §2.2.3), 8 to 72 bytes, verified under the public key in the token.
    func signCheckpoint(_ message: [UInt8], identifier: [UInt8]) async throws(WorkerFailure) -> [UInt8]

    /// The checkpoints' lines that the token keeps, of all nodes and in no order, at most 1,024; more are an error.
    /// After an interruption there may be several of one node. They are not evaluated: anyone with the PIN can write them.
    func rememberedHeads() async throws(WorkerFailure) -> [[UInt8]]

    /// Keeps a line as a data object and then destroys the node's others: at every moment there is one. Calls for one
    /// node must not overlap.
    /// - Parameters:
    ///   - line: a checkpoint's, without the line feed, 1 to 4096 bytes.
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
