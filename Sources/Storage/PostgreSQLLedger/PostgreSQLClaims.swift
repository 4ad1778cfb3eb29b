import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import PostgreSQLClient

/// Reads claims outside a batch, for releases whose batch could not be committed.
struct PostgreSQLClaims {
    let repeatFor: Duration

    /// Returns the verdicts on those releases that would be refused now. The keys are the releases'
    /// ``Release/attempt``.
    func refusals(of releases: [Release], _ queries: PostgreSQLReader.Queries) throws -> [[UInt8]: ReleaseVerdict] {
        let results = try queries.results([
            PostgreSQLStatement(
                "SELECT \(KeyEligibilityRow.columns) FROM merchant_key WHERE public_key_hash = ANY ($1)",
                [.byteStrings(Array(Set(releases.map(\.publicKeyHash.bytes))))]),
            PostgreSQLStatement(
                "SELECT \(ClaimRow.columns) FROM claim WHERE transaction_id = ANY ($1)",
                [.byteStrings(Array(Set(releases.map(\.transactionId.bytes))))]),
            PostgreSQLStatement("SELECT forgotten_before, restore_fence FROM ledger_state"),
        ])
        let keys = try KeyEligibilityRow.all(results[0].rows)
        let claims = try Dictionary(results[1].rows.map(ClaimRow.read)) { first, _ in first }
        let limits = try results[2].rows.first.map { row in
            ReleaseLimits(forgottenBefore: try row.integerIfAny(0), restoreFence: try row.integerIfAny(1))
        }
        var refusals: [[UInt8]: ReleaseVerdict] = [:]
        for release in releases {
            refusals[release.attempt] = release.refusal(
                keys[release.publicKeyHash], claims[release.transactionId], within: repeatFor,
                limits ?? ReleaseLimits())
        }
        return refusals
    }
}
