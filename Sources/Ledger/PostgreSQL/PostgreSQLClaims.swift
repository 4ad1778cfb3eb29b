import Foundation
import MerchantKeys
import PaymentToken
import PostgreSQLClient

/// What is read of claims outside a batch.
struct PostgreSQLClaims {
    let repeatFor: Duration

    func wouldRepeat(_ release: Release, _ queries: PostgreSQLReader.Queries) throws -> Repeatability {
        let row = try queries.results([Self.claims(of: [release])])[0].rows.first
        return try row.map(ClaimRow.read)?.1.repeatability(of: release, within: repeatFor) ?? .no
    }

    /// The refusals that releases meet now, by their attempts; those that would be released are left out.
    func refusals(of releases: [Release], _ queries: PostgreSQLReader.Queries) throws -> [[UInt8]: ReleaseVerdict] {
        let results = try queries.results([
            PostgreSQLStatement(
                "SELECT \(KeyStandingRow.columns) FROM merchant_key WHERE public_key_hash = ANY ($1)",
                [.byteStrings(Array(Set(releases.map(\.publicKeyHash.bytes))))]),
            Self.claims(of: releases),
            PostgreSQLStatement("SELECT forgotten_before, restore_fence FROM ledger_state"),
        ])
        let keys = try Dictionary(results[0].rows.map(KeyStandingRow.read)) { first, _ in first }
        let claims = try Dictionary(results[1].rows.map(ClaimRow.read)) { first, _ in first }
        let limits = try results[2].rows.first.map { row in
            ReleaseLimits(forgottenBefore: try row.integerIfAny(0), restoreFence: try row.integerIfAny(1))
        }
        var refusals: [[UInt8]: ReleaseVerdict] = [:]
        for release in releases {
            refusals[release.attempt] = refusal(
                of: release, keys[release.publicKeyHash], claims[release.transactionId],
                limits ?? ReleaseLimits())
        }
        return refusals
    }

    private func refusal(
        of release: Release, _ key: KeyStanding?, _ claim: Claim?, _ limits: ReleaseLimits
    ) -> ReleaseVerdict? {
        guard key?.decrypts(at: release.at) == true else { return .keyNotActive }
        guard let claim else { return release.refusalOfNew { limits } }
        let repeatability = claim.repeatability(of: release, within: repeatFor)
        return repeatability == .yes ? nil : repeatability.verdict
    }

    private static func claims(of releases: [Release]) -> PostgreSQLStatement {
        PostgreSQLStatement(
            "SELECT \(ClaimRow.columns) FROM claim WHERE transaction_id = ANY ($1)",
            [.byteStrings(Array(Set(releases.map(\.transactionId.bytes))))])
    }

    /// Claims and signatures since `time`, by key, of all nodes.
    func usage(since time: Int64, _ queries: PostgreSQLReader.Queries) throws -> [PublicKeyHash: KeyUses] {
        let rows = try queries.rows(
            """
            SELECT public_key_hash, count(*), max(claimed_at) FROM claim
            WHERE claimed_at >= $1 GROUP BY public_key_hash
            UNION ALL
            SELECT public_key_hash, count(*), max(time) FROM audit_record
            WHERE event = 'tls_signature' AND outcome = 'ok' AND time >= $1 GROUP BY public_key_hash
            """, [.integer(time)])
        return try rows.reduce(into: [:]) { usage, row in
            usage[try row.publicKeyHash(0)] = KeyUses(count: Int(try row.integer(1)), last: try row.date(2))
        }
    }

    func wasUsed(_ key: PublicKeyHash, since time: Int64, _ queries: PostgreSQLReader.Queries) throws -> Bool {
        // The newest first: a key in use is found at once.
        try !queries.rows(
            """
            SELECT transaction_id FROM claim WHERE claimed_at >= $1 AND public_key_hash = $2
            ORDER BY claimed_at DESC LIMIT 1
            """, [.integer(time), .bytes(key.bytes)]
        ).isEmpty || hasSigned(key, since: time, queries)
    }
    private func hasSigned(
        _ key: PublicKeyHash, since time: Int64, _ queries: PostgreSQLReader.Queries
    ) throws -> Bool {
        try !queries.rows(
            """
            SELECT sequence FROM audit_record
            WHERE event = 'tls_signature' AND outcome = 'ok' AND public_key_hash = $1 AND time >= $2 LIMIT 1
            """, [.bytes(key.bytes), .integer(time)]
        ).isEmpty
    }
}
