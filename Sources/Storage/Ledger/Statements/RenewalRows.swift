package import AuditChain
package import DatabaseKit
package import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken

/// A renewal's row, with those of its attempts.
package enum RenewalRow {
    package static let columns = """
        identifier, merchant_identifier, key_use, algorithm, public_key_hash, state, certificate_id,
        previous_certificate_id, request, certificate, requester_uid, requester_name, started_at, node
        """
    package static let places = (1...14).map { "$\($0)" }.joined(separator: ", ")
    package static let attemptColumns = """
        identifier, renewal, change, number, target, approval, excluded_nodes, intended_at, outcome, node
        """
    package static let attemptPlaces = (1...10).map { "$\($0)" }.joined(separator: ", ")

    package static func values(_ stored: StoredRenewal, _ node: AuditNode) -> [StoredValue] {
        let renewal = stored.renewal
        return [
            .bytes(stored.identifier.bytes), .text(renewal.merchantIdentifier), .text(renewal.use.name),
            .text(renewal.algorithm.name), .bytes(renewal.newKey?.bytes), .text(renewal.state.rawValue),
            .text(renewal.certificateId), .text(renewal.previousCertificateId), .bytes(stored.request),
            .bytes(stored.certificate), .integer(Int64(stored.requesterUID)), .text(stored.requesterName),
            .time(stored.startedAt), .text(node.name),
        ]
    }

    package static func values(
        _ attempt: RenewalAttempt, of renewal: RenewalIdentifier, at now: Date, _ node: AuditNode
    ) -> [StoredValue] {
        [
            .bytes(attempt.identifier.bytes), .bytes(renewal.bytes), .text(attempt.attempt.change.rawValue),
            .integer(attempt.attempt.number), .text(attempt.target), .bytes(attempt.approval?.bytes),
            .text(attempt.attempt.excludedNodes.sorted().joined(separator: ",")), .time(now),
            .text(Renewal.Attempt.Outcome.intended.rawValue), .text(node.name),
        ]
    }

    package static func find(
        _ identifier: RenewalIdentifier, lock: String = "", _ queries: any StoredQueries
    ) throws -> StoredRenewal? {
        try all("identifier = $1", [.bytes(identifier.bytes)], lock: lock, queries).first
    }

    /// Returns the renewals for which a condition holds, the newest first. Of all of them, one statement reads the attempts.
    package static func all(
        _ condition: String, _ values: [StoredValue], lock: String = "", _ queries: any StoredQueries
    ) throws -> [StoredRenewal] {
        let rows = try queries.run(
            """
            SELECT \(columns), ended_at FROM renewal WHERE \(condition) ORDER BY started_at DESC, identifier \(lock)
            """, values)
        guard !rows.isEmpty else { return [] }
        // In the order in which they began. A node's clock may have been wrong, so their times do not give it. No creation
        // begins once a certificate is known, and no revocation before the end.
        let attempts = try queries.run(
            """
            SELECT identifier, change, number, target, approval, excluded_nodes, intended_at, outcome, code, answered_at,
                renewal
            FROM renewal_attempt WHERE renewal IN (SELECT identifier FROM renewal WHERE \(condition))
            ORDER BY CASE change WHEN 'create' THEN 1 WHEN 'activate' THEN 2 ELSE 3 END, number
            """, values
        ).map { (renewal: try $0.bytes(10), attempt: try attempt($0)) }
        let ofEach = Dictionary(grouping: attempts, by: \.renewal).mapValues { $0.map(\.attempt) }
        return try rows.map { row in try read(row, ofEach[try row.bytes(0)] ?? []) }
    }

    private static func attempt(_ row: any StoredRow) throws -> RenewalAttempt {
        guard let identifier = RenewalAttemptId(bytes: try row.bytes(0)),
            let change = Renewal.Change(rawValue: try row.text(1)),
            let outcome = Renewal.Attempt.Outcome(rawValue: try row.text(7))
        else { throw unknownValue }
        return RenewalAttempt(
            identifier: identifier,
            Renewal.Attempt(
                change: change, number: Int(try row.integer(2)), intendedAt: try row.date(6), outcome: outcome,
                answeredAt: try row.dateIfAny(9),
                excludedNodes: Set(try row.text(5).split(separator: ",").map(String.init))),
            target: try row.textIfAny(3) ?? "",
            approval: try row.bytesIfAny(4).flatMap { ApprovalIdentifier(bytes: $0) },
            code: try row.textIfAny(8))
    }

    private static func read(_ row: any StoredRow, _ attempts: [RenewalAttempt]) throws -> StoredRenewal {
        guard let identifier = RenewalIdentifier(bytes: try row.bytes(0)), let use = KeyUse(name: try row.text(2)),
            let algorithm = KeyAlgorithm(name: try row.text(3)), let state = Renewal.State(rawValue: try row.text(5))
        else { throw unknownValue }
        var renewal = StoredRenewal(
            identifier: identifier,
            renewal: Renewal(
                merchantIdentifier: try row.text(1), use: use, algorithm: algorithm,
                newKey: try row.publicKeyHash(4), state: state, certificateId: try row.textIfAny(6),
                previousCertificateId: try row.textIfAny(7), attempts: attempts.map(\.attempt)),
            requesterUID: try row.number(10), requesterName: try row.text(11), startedAt: try row.date(12))
        (renewal.request, renewal.certificate) = (try row.bytesIfAny(8), try row.bytesIfAny(9))
        (renewal.attempts, renewal.node) = (attempts, try row.text(13))
        renewal.endedAt = try row.dateIfAny(14)
        return renewal
    }

    private static var unknownValue: LedgerFailure {
        .unavailable(reason: "A renewal has a value that this version does not know.")
    }
}
