import Foundation
import Ledger
import Locks
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
            Self.claims(of: releases),
            PostgreSQLStatement("SELECT forgotten_before, restore_fence FROM ledger_state"),
        ])
        let keys = try KeyEligibilityRow.all(results[0].rows)
        let claims = try Self.claims(results[1])
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

    fileprivate static func claims(of releases: [Release]) -> PostgreSQLStatement {
        PostgreSQLStatement(
            "SELECT \(ClaimRow.columns) FROM claim WHERE transaction_id = ANY ($1)",
            [.byteStrings(Array(Set(releases.map(\.transactionId.bytes))))])
    }

    fileprivate static func claims(_ result: PostgreSQLResult) throws -> [TransactionIdentifier: Claim] {
        try Dictionary(result.rows.map(ClaimRow.read)) { first, _ in first }
    }
}

/// Looks up the claims of releases that may be repeats, all that wait together with one query.
///
/// A query takes a round trip, and the reader makes one query after the other. With a query for each, the releases of
/// Google Pay, each of which is looked up, would be limited to the round trips in a second, and all other reads would wait
/// for them.
final class PostgreSQLClaimLookups: Sendable {
    private struct Lookup: Sendable {
        let release: Release
        let caller: LedgerCall<Repeatability>
    }

    private let reader: PostgreSQLReader
    private let deadlines: LedgerDeadlines
    private let repeatFor: Duration
    private let waiting = Mutex<[Lookup]>([])

    init(_ reader: PostgreSQLReader, _ deadlines: LedgerDeadlines, repeatFor: Duration) {
        (self.reader, self.deadlines, self.repeatFor) = (reader, deadlines, repeatFor)
    }

    func repeatability(of release: Release) async throws(LedgerFailure) -> Repeatability {
        try await deadlines.answer { caller in
            let (isAdmitted, isFirst) = waiting.withLock { waiting in
                guard waiting.count < PostgreSQLReader.capacity else { return (false, false) }
                waiting.append(Lookup(release: release, caller: caller))
                return (true, waiting.count == 1)
            }
            guard isAdmitted else {
                caller.resume(.failure(.overloaded))
                return
            }
            if isFirst { read(LookupBatch()) }
        }
    }

    private func read(_ batch: LookupBatch) {
        reader.read { [self] queries in
            let releases = take(batch).map(\.release)
            // All of their callers may have left.
            return releases.isEmpty
                ? [:] : try PostgreSQLClaims.claims(queries.results([PostgreSQLClaims.claims(of: releases)])[0])
        } then: { [self] result in
            for lookup in take(batch) {
                lookup.caller.resume(
                    result.map { claims in
                        claims[lookup.release.transactionId]?.repeatability(of: lookup.release, within: repeatFor)
                            ?? .unclaimed
                    })
            }
        }
    }

    /// Returns the lookups that one query answers: on the first call those that wait then, and their callers with them.
    private func take(_ batch: LookupBatch) -> [Lookup] {
        batch.lookups.withLock { lookups in
            if let lookups { return lookups }
            let taken = waiting.withLock { waiting in
                defer { waiting = [] }
                return waiting
            }.filter { $0.caller.begin() }
            lookups = taken
            return taken
        }
    }

    private final class LookupBatch: Sendable {
        let lookups = Mutex<[Lookup]?>(nil)
    }
}
