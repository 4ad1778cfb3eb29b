public import AuditChain
import DatabaseKit
public import Foundation
import KeyTypes
public import MerchantKeys
package import PaymentToken

// The stored renewals. The rules are those of `Renewal`: a step is taken on the renewal that the transaction reads, and
// what changed is written.

public enum IdentifiedRenewal {}
/// The identifier of a renewal, 8 random bytes.
public typealias RenewalIdentifier = RandomIdentifier<IdentifiedRenewal>

/// A renewal with what other nodes need of it.
public struct StoredRenewal: Sendable, Equatable {
    public let identifier: RenewalIdentifier
    public internal(set) var renewal: Renewal
    /// The certificate request of the new key in DER; nil until a node with the key has made it.
    public internal(set) var request: [UInt8]?
    /// Apple's certificate in DER.
    public internal(set) var certificate: [UInt8]?
    public let requesterUID: UInt32
    /// The name of the access rule that matched the requester.
    public let requesterName: String
    /// The node on which it was started; nil before it is stored.
    public internal(set) var node: String?
    public let startedAt: Date
    /// The time at which the renewal was finished or abandoned; nil while it is open.
    public internal(set) var endedAt: Date?
    public internal(set) var attempts: [RenewalAttempt] = []

    /// The time of the answer to the last activation that Apple may have made; nil if there is none.
    public var activatedAt: Date? {
        renewal.attempts.last {
            $0.change == .activate && ($0.outcome == .accepted || $0.outcome == .unknown)
        }?.answeredAt
    }

    /// - Parameter renewal: a renewal with a key and without attempts.
    public init(
        identifier: RenewalIdentifier, renewal: Renewal, requesterUID: UInt32, requesterName: String, startedAt: Date
    ) {
        self.identifier = identifier
        self.renewal = renewal
        self.requesterUID = requesterUID
        self.requesterName = requesterName
        self.startedAt = startedAt
    }
}

/// An attempt with what is recorded of it.
public struct RenewalAttempt: Sendable, Equatable {
    public let identifier: RenewalAttemptId
    public let attempt: Renewal.Attempt
    /// The id at Apple of the certificate that is activated or revoked; the merchant's resource for a new one.
    public let target: String
    public let approval: ApprovalIdentifier?
    /// Apple's status and code of a refusal.
    public let code: String?

    public init(
        identifier: RenewalAttemptId, _ attempt: Renewal.Attempt, target: String, approval: ApprovalIdentifier?,
        code: String? = nil
    ) {
        (self.identifier, self.attempt, self.target) = (identifier, attempt, target)
        (self.approval, self.code) = (approval, code)
    }
}

extension LedgerTransaction {
    /// Takes a step of a renewal.
    func take(_ step: AdministrativeChange.RenewalStep, at now: Date) throws {
        switch step {
        case .start(let new): try start(new)
        case .begin(let begun, let identifier, let previous, let repeatsEarlier):
            let attempt = begun.attempt
            if attempt.change == .create, !repeatsEarlier { try requireNoEarlierCreation(identifier) }
            try change(identifier) { stored throws(RenewalConflict) in
                try stored.renewal.begin(
                    attempt.change, number: attempt.number, certificate: begun.target, previous: previous,
                    excludedNodes: attempt.excludedNodes, at: now)
            }
            try run(
                "INSERT INTO renewal_attempt (\(RenewalRow.attemptColumns)) VALUES (\(RenewalRow.attemptPlaces))",
                RenewalRow.values(begun, of: identifier, at: now, node))
        case .answer(let attempt, let identifier, let outcome, let code, let certificate):
            try change(identifier) { stored throws(RenewalConflict) in
                guard let known = stored.attempts.first(where: { $0.identifier == attempt })?.attempt else {
                    throw .unknown
                }
                try stored.renewal.answer(
                    known.change, number: known.number, outcome, certificateId: certificate?.id, at: now)
                // A list may have shown another certificate of the key before; then that one is kept.
                if let certificate, certificate.id == stored.renewal.certificateId {
                    stored.certificate = stored.certificate ?? certificate.der
                }
            }
            try run(
                """
                UPDATE renewal_attempt SET outcome = $1, code = $2, answered_at = $3
                WHERE identifier = $4 AND outcome IN ('intended', 'unknown')
                """, [.text(outcome.rawValue), .text(code), .time(now), .bytes(attempt.bytes)])
        case .store(let request, let identifier):
            try change(identifier) { stored throws(RenewalConflict) in stored.request = stored.request ?? request }
        case .found(let id, let certificate, let identifier):
            try change(identifier) { stored throws(RenewalConflict) in
                stored.renewal.found(certificateId: id)
                stored.certificate = stored.certificate ?? certificate
            }
        case .finish(let identifier):
            try change(identifier, endedAt: now) { stored throws(RenewalConflict) in try stored.renewal.finish() }
        case .abandon(let identifier):
            try change(identifier, endedAt: now) { stored throws(RenewalConflict) in
                try stored.renewal.abandon(at: now)
            }
        }
    }

    /// Throws if an earlier renewal of the same key may have led to a certificate, and this one has no attempt to create one
    /// yet. A person has then decided about the earlier attempt.
    private func requireNoEarlierCreation(_ identifier: RenewalIdentifier) throws {
        guard let stored = try RenewalRow.find(identifier, self) else { throw RenewalConflict.unknown }
        guard !stored.renewal.attempts.contains(where: { $0.change == .create }) else { return }
        let others = try RenewalRow.all(
            "merchant_identifier = $1 AND public_key_hash = $2",
            [.text(stored.renewal.merchantIdentifier), .bytes(stored.renewal.newKey?.bytes)], self)
        guard !others.contains(where: { $0.identifier != identifier && $0.renewal.hasPossibleCreation }) else {
            throw RenewalConflict.earlierCreation
        }
    }

    private func start(_ new: StoredRenewal) throws {
        // The condition on the state must equal that of the index `renewal_open`, which has one open renewal of a kind.
        let stored = try run(
            """
            INSERT INTO renewal (\(RenewalRow.columns)) VALUES (\(RenewalRow.places))
            ON CONFLICT (merchant_identifier, key_use, algorithm) WHERE state = 'open' DO NOTHING RETURNING started_at
            """, RenewalRow.values(new, node))
        guard !stored.isEmpty else { throw RenewalConflict.notOpen(.open) }
    }

    /// Reads a renewal, changes it and writes what may have changed.
    private func change(
        _ identifier: RenewalIdentifier, endedAt: Date? = nil,
        _ change: (inout StoredRenewal) throws(RenewalConflict) -> Void
    ) throws {
        guard var stored = try RenewalRow.find(identifier, lock: Self.rowLock, self) else {
            throw RenewalConflict.unknown
        }
        try change(&stored)
        let renewal = stored.renewal
        try run(
            """
            UPDATE renewal SET state = $1, certificate_id = $2, previous_certificate_id = $3, request = $4,
                certificate = $5, ended_at = coalesce($6, ended_at)
            WHERE identifier = $7
            """,
            [
                .text(renewal.state.rawValue), .text(renewal.certificateId), .text(renewal.previousCertificateId),
                .bytes(stored.request), .bytes(stored.certificate), .time(endedAt), .bytes(identifier.bytes),
            ])
    }
}

extension StoredLedger {
    public func renewals(of merchant: String) async throws(LedgerFailure) -> [StoredRenewal] {
        try await read { try RenewalRow.all("merchant_identifier = $1", [.text(merchant)], $0) }
    }

    public func openRenewals() async throws(LedgerFailure) -> [StoredRenewal] {
        try await read { try RenewalRow.all("state = 'open'", [], $0) }
    }

    public func nodes(
        _ nodes: Set<String>, releasedWith key: PublicKeyHash, since time: Date
    ) async throws(LedgerFailure) -> Set<String> {
        try await search { queries in
            try nodes.filter { try queries.lastClaim(of: key, on: $0, since: time) != nil }
        }
    }
}
