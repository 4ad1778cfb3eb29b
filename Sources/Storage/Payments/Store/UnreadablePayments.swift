import Locks

/// A payment's row in a list, with its position in the list.
struct ListedPayment {
    let place: PaymentFilter.Place
    /// Nil if the row has values that this version does not know.
    let payment: Payment?
}

/// The rows that lists and maintenance skip because they have values that this version does not know. Such a row
/// therefore affects no other payment.
final class UnreadablePayments: Sendable {
    /// The maximum number of rows that are counted. Further unreadable rows are skipped, but not counted.
    private static let most = 10_000

    private let keys = Mutex<Set<Payment.Key>>([])

    /// The number of rows that were found unreadable and have not been read successfully since.
    var count: Int { keys.withLock { $0.count } }

    /// Returns the payments of the readable rows, and counts the other rows.
    func readable(_ rows: [ListedPayment]) -> [Payment] {
        keys.withLock { keys in
            for row in rows where row.payment == nil && keys.count < Self.most { keys.insert(row.place.key) }
            if !keys.isEmpty { for row in rows where row.payment != nil { keys.remove(row.place.key) } }
        }
        return rows.compactMap(\.payment)
    }

    /// Returns the payments that match the filter, up to its limit. Further rows are read in place of unreadable ones.
    /// If the list is shorter than the limit, no further payment matches.
    ///
    /// - Parameter page: reads the rows that match a filter, at most as many as the filter's limit.
    func list(
        _ filter: PaymentFilter,
        _ page: (PaymentFilter) async throws(PaymentStoreError) -> [ListedPayment]
    ) async throws(PaymentStoreError) -> [Payment] {
        var (filter, found, limit) = (filter, [Payment](), filter.limit)
        while true {
            let rows = try await page(filter)
            found += readable(rows)
            guard rows.count == filter.limit, found.count < limit, let last = rows.last else { return found }
            filter.after = last.place
            filter.limit = limit - found.count
        }
    }
}
