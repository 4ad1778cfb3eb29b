package import KeyTypes
package import WorkerProtocol

/// The operations of one HSM token for the key-usage record: it signs audit checkpoints, and stores the newest of each
/// node.
///
/// Every function is idempotent, so the caller may repeat it after a failure.
///
/// The functions throw ``WorkerFailure``. `auditRefused`: the HSM token works but does not support the operation (it is
/// read-only, has no data objects, or lacks the mechanism). `keyNotFound`: the HSM token has no such audit key. All other
/// kinds mean the same as for a decryption.
package protocol AuditHSMToken: Sendable {
    /// The configured name of the HSM token.
    var name: String { get }

    /// Returns the audit keys that the HSM token shows. More than 1,024 are an error. A private key without its public key
    /// is left out.
    func auditKeys() async throws(WorkerFailure) -> [AuditKeyDescription]

    /// Generates a key pair inside the HSM token: EC on P-256, or RSA-2048 if the HSM token does not sign with EC;
    /// sensitive, non-extractable, for signatures only. If a key with this identifier exists, returns that key unchanged.
    /// - Parameter identifier: CKA_ID, 16 bytes.
    func createAuditKey(identifier: [UInt8]) async throws(WorkerFailure) -> AuditKeyDescription

    /// Signs an audit checkpoint.
    /// - Parameters:
    ///   - message: the value of the line's `checkpoint` member, at most 4096 bytes. The worker refuses a message that does
    ///     not begin with `{"node":`.
    ///   - algorithm: the algorithm that the message names.
    /// - Returns: the signature: ECDSA in DER (RFC 3279 §2.2.3), or RSA with the modulus's length. The worker has verified
    ///   it with the HSM token's public key.
    func signCheckpoint(
        _ message: [UInt8], identifier: [UInt8], algorithm: AuditSignatureAlgorithm
    ) async throws(WorkerFailure) -> [UInt8]

    /// Returns the audit checkpoint lines of all nodes that the HSM token stores, in no particular order. More than 1,024
    /// lines are an error. An interrupted ``rememberHead(_:node:)`` can leave several lines of one node. The caller must
    /// verify them, since anyone with the PIN can write them.
    func rememberedHeads() async throws(WorkerFailure) -> [[UInt8]]

    /// Stores a line as a data object, and only then destroys the node's older lines. The HSM token therefore always has at
    /// least one line of the node. Calls for one node must not overlap. If the HSM token's library hangs, the call fails
    /// with `deadlineExceeded`.
    /// - Parameters:
    ///   - line: an audit checkpoint's line without the line feed, 1 to 4096 bytes.
    ///   - node: the node's name, 1 to 64 bytes.
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

    package func signCheckpoint(
        _ message: [UInt8], identifier: [UInt8], algorithm: AuditSignatureAlgorithm
    ) async throws(WorkerFailure) -> [UInt8] {
        let signing = CheckpointSigning(identifier: identifier, message: message, algorithm: algorithm)
        return try await call(.signCheckpoint(signing)) {
            if case .signature(let signature) = $0 { signature } else { nil }
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
