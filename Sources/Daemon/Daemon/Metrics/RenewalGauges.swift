import Foundation
import Ledger

/// The metrics of the ledger's open renewals. They are times and not ages, so that their values are right however seldom the
/// renewals are read.
struct RenewalGauges: Sendable {
    let instruments: Instruments

    /// Shows these renewals, and no other.
    func show(_ open: [StoredRenewal]) {
        instruments.renewalChanged.replaceAll(
            open.map { stored in
                let renewal = stored.renewal
                return (
                    [renewal.merchantIdentifier, renewal.use.name, renewal.algorithm.name],
                    stored.changedAt.timeIntervalSince1970
                )
            })
        instruments.renewalActivated.replaceAll(
            open.compactMap { stored in
                guard let key = stored.renewal.newKey, let activatedAt = stored.activatedAt else { return nil }
                return ([key.hex, stored.renewal.merchantIdentifier], activatedAt.timeIntervalSince1970)
            })
    }
}

extension StoredRenewal {
    /// The time of the start, or of the last attempt or answer.
    fileprivate var changedAt: Date {
        renewal.attempts.reduce(startedAt) { max($0, $1.intendedAt, $1.answeredAt ?? .distantPast) }
    }
}
