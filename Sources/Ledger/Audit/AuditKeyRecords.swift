public import AuditChain

/// A key that signs this node's checkpoints, as the ledger knows it.
public struct StoredAuditKey: Sendable, Equatable {
    /// The token's CKA_ID, 16 bytes.
    public let identifier: [UInt8]
    /// The uncompressed point (SEC 1 §2.3.3, 65 bytes); nil while the key is only planned.
    public let publicKey: [UInt8]?

    public init(identifier: [UInt8], publicKey: [UInt8]?) {
        self.identifier = identifier
        self.publicKey = publicKey
    }
}

/// Which keys sign this node's checkpoints.
///
/// A key is planned here first, then made in the token under the planned identifier, then confirmed here: whatever
/// breaks off between, the next start finds what to go on with, and no key of the token is without its place here.
public protocol AuditKeyRecords: Sendable {
    /// In the order in which they were planned; the last confirmed one signs.
    func auditKeys() async throws(LedgerFailure) -> [StoredAuditKey]

    /// Durable when it answers. Planning the same key again changes nothing.
    ///
    /// - Parameter identifier: 16 bytes.
    /// - Throws: `auditKeyConflict` for another size.
    func planAuditKey(identifier: [UInt8]) async throws(LedgerFailure)

    /// Records the public key of a planned key.
    ///
    /// - Parameters:
    ///   - publicKey: the uncompressed point on P-256, 65 bytes.
    ///   - record: written in the same transaction. Nil records nothing.
    /// - Returns: the record's sequence; nil as well when the key was confirmed with this public key before, and then
    ///   nothing is written.
    /// - Throws: `auditKeyConflict` when the key was not planned or has another public key.
    @discardableResult
    func confirmAuditKey(
        identifier: [UInt8], publicKey: [UInt8], recording record: AuditRecord?
    ) async throws(LedgerFailure) -> Int?
}
