import AuditChain
import Crypto
import Foundation
import Testing

@testable import Ledger

/// A key in software that signs audit checkpoints.
struct CheckpointSigner: Sendable {
    let key = P256.Signing.PrivateKey()

    var publicKey: CheckpointKey {
        get throws { try #require(CheckpointKey(point: Array(key.publicKey.x963Representation))) }
    }

    /// Signs and stores an audit checkpoint of all records.
    @discardableResult
    func seal(_ ledger: any Ledger, at time: Date = LedgerFixture.noon) async throws -> SignedCheckpoint {
        let signed = try await checkpoint(of: try await ledger.head(), at: time)
        try await ledger.insert(signed)
        return signed
    }

    func checkpoint(of head: ChainHead, at time: Date = LedgerFixture.noon) async throws -> SignedCheckpoint {
        let checkpoint = try #require(head.checkpoint(at: AuditTime(time), keyId: try publicKey.keyId))
        return try await checkpoint.signed { message in
            let signature = try key.signature(for: Data(message))
            return try #require(CheckpointSignature(rawRepresentation: Array(signature.rawRepresentation)))
        }
    }

    /// Exports the ledger, and returns the result of the export's verification.
    func verdict(
        of ledger: any Ledger, from first: Int = 1, through last: Int? = nil, head: SignedCheckpoint? = nil,
        beginning: ChainBeginning = .anyRecord, behind archives: [UInt8] = []
    ) async throws -> ChainVerdict {
        var verifier = ChainVerifier(
            keys: CheckpointKeys([try publicKey]), heads: head.map { [$0] } ?? [], beginning: beginning)
        verifier.consume(archives[...])
        for try await page in ledger.export(from: first, through: last) { verifier.consume(page.bytes[...]) }
        return verifier.verdict()
    }
}

extension ChainVerdict {
    /// The number of records if the verdict is a single intact chain; otherwise nil.
    var intactRecords: Int? {
        if case .intact(let ranges) = self, ranges.count == 1 { ranges[0].records } else { nil }
    }

    /// The position of the fault, such as `record 17`; nil if the chain has no fault.
    var brokenAt: String? {
        if case .broken(let fault) = self, let position = fault.position {
            "\(position.kind.rawValue) \(position.sequence)"
        } else {
            nil
        }
    }

    var fault: ChainFault? {
        if case .broken(let fault) = self { fault.fault } else { nil }
    }
}

extension Ledger {
    /// All records, read page by page.
    func everyEntry(_ filter: AuditFilter = AuditFilter(), order: AuditOrder = .oldestFirst) async throws
        -> [AuditEntry]
    {
        var entries: [AuditEntry] = []
        var cursor: Int?
        repeat {
            let page = try await records(filter, order: order, after: cursor, limit: 7)
            entries += try page.records.map { try AuditEntry(line: $0.line) }
            cursor = page.next
        } while cursor != nil
        return entries
    }
}
