public import AuditChain
import DatabaseKit
public import Foundation
package import PaymentToken

/// One proof of a key in one HSM token, from its audit record.
public struct KeyProof: Sendable, Equatable {
    /// The node whose HSM token was asked.
    public let node: AuditNode
    /// The HSM token's name in that node's configuration.
    public let hsmToken: String
    /// SHA-256, in DER, of the certificate for which the message was encrypted; nil if the key had none.
    public let certificate: AuditDigest?
    public let at: Date
    /// True if the HSM token opened the message, or signed it, as its public key requires.
    public let succeeded: Bool

    public init(node: AuditNode, hsmToken: String, certificate: AuditDigest?, at: Date, succeeded: Bool) {
        (self.node, self.hsmToken, self.certificate) = (node, hsmToken, certificate)
        (self.at, self.succeeded) = (at, succeeded)
    }
}

extension StoredLedger {
    public func proofs(of key: PublicKeyHash, since time: Date) async throws(LedgerFailure) -> [KeyProof] {
        try await search { queries in
            try queries.run(ProofStatements.newest, [.bytes(key.bytes), .time(time)])
                .compactMap { row in KeyProof(line: try row.bytes(0)) }
        }
    }
}

enum ProofStatements {
    /// The condition on the event must equal that of the partial index `audit_record_by_proof`; otherwise the database
    /// cannot use that index.
    static let newest = """
        SELECT line FROM audit_record
        WHERE event = 'key_proof' AND public_key_hash = $1 AND time >= $2 ORDER BY time DESC LIMIT 1000
        """
}

extension KeyProof {
    /// Returns nil if the line names no HSM token, or cannot be read.
    fileprivate init?(line: [UInt8]) {
        guard let entry = try? AuditEntry(line: line), let hsmToken = entry.hsmToken else { return nil }
        self.init(
            node: entry.node, hsmToken: hsmToken,
            certificate: entry.details["certificateSha256"]?.stringValue.flatMap { AuditDigest(hex: $0) },
            at: entry.time.date,
            succeeded: entry.outcome == AuditOutcome.ok.text)
    }
}
