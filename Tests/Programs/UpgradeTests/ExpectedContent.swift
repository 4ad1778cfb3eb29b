import TestSupport

/// The rows that a store must have after its upgrade, derived from the content before, without the upgrade's code.
struct ExpectedContent: Sendable {
    let kind: StoreKind
    let before: Content
    let now: Int64

    /// The columns whose values the database or the upgrade chooses.
    private static let chosen: [String: Set<String>] = [
        "merchant_key": ["change"], "ledger_state": ["identity", "system_identifier", "timeline"],
        "payment_change": ["number"],
    ]

    /// Returns the differences between the content and the expected content.
    ///
    /// - Parameters:
    ///   - isUpgraded: false if no program has changed the store.
    ///   - mayHaveServed: true if the program that upgraded a file also served for a moment.
    func differences(_ found: ShownContent, isUpgraded: Bool, mayHaveServed: Bool) -> [String] {
        var (expected, found) = (before.shown, found)
        if isUpgraded {
            addColumns(to: &expected)
            setVersion(in: &expected)
            if mayHaveServed { settle(&expected, &found) }
        }
        var differences: [String] = []
        for table in Set(expected.keys).union(found.keys).sorted() {
            var known = Set((before[table] ?? []).flatMap(\.keys))
            if table == "audit_key" { known.insert("hsm_token") }
            let ignored = (Self.chosen[table] ?? []).subtracting(isUpgraded ? known : [])
                .union(table == "payment_change" && kind.engine == .postgresql ? ["number"] : [])
            let rows = { (content: ShownContent) in
                Self.lines((content[table] ?? []).map { $0.filter { !ignored.contains($0.key) } })
            }
            let (wanted, there) = (rows(expected), rows(found))
            guard wanted != there else { continue }
            let (missing, surplus) = (wanted.filter { !there.contains($0) }, there.filter { !wanted.contains($0) })
            differences.append(
                "\(table): \(wanted.count) rows expected, \(there.count) found; missing: \(missing.first ?? "-"); surplus: "
                    + (surplus.first ?? "-"))
        }
        return differences
    }

    private static func lines(_ rows: [[String: String]]) -> [String] {
        rows.map { row in row.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: "|") }
            .sorted()
    }

    private func addColumns(to content: inout ShownContent) {
        // Before its column existed, every key was for payments. The other new columns are NULL.
        content["merchant_key"] = content["merchant_key"]?.map {
            $0.merging(["key_use": "processing"]) { own, _ in own }
        }
    }

    private func setVersion(in content: inout ShownContent) {
        let version = "\(kind.current)"
        for table in ["ledger_state", "payment_store"] {
            content[table] = content[table]?.map { $0.merging(["schema_version": version]) { $1 } }
        }
        content["ledger_meta"] = content["ledger_meta"]?.map { row in
            guard row["name"] == "schema_version", let value = row["value"] else { return row }
            return row.merging(["value": value.hasPrefix("restored-") ? "restored-\(version)" : version]) { $1 }
        }
    }

    /// Removes from both contents what a program that serves for a moment may change.
    private func settle(_ expected: inout ShownContent, _ found: inout ShownContent) {
        // The daemon notes its last probe, and appends records of its start and end.
        for rows in [\ShownContent["ledger_meta"]] {
            expected[keyPath: rows]?.removeAll { $0["name"] == "probed" }
            found[keyPath: rows]?.removeAll { $0["name"] == "probed" }
        }
        let last = (before["audit_record"] ?? []).compactMap { $0[column: "sequence"].integer }.max() ?? 0
        if kind == .ledgerFile { found["audit_record"]?.removeAll { (Int64($0["sequence"] ?? "") ?? 0) > last } }
        guard kind == .paymentFile else { return }
        // The gateway ends abandoned attempts: a payment that may have been sent becomes pending, with a line of history.
        // It removes payments that never were released and have not changed for seven days, with their history.
        let isRemovable = { (row: StoredRow) in
            ["received", "not_sent", "refused"].contains(row[column: "state"].text)
                && row[column: "transaction_id"] == .null
                && (row[column: "changed_at"].integer ?? 0) < now - 7 * 86_400_000
        }
        let removable = Set(
            (before["payment"] ?? []).filter(isRemovable).compactMap { $0[column: "token_digest"].shown })
        let submitting = Set(
            (before["payment"] ?? []).filter { $0[column: "state"] == .text("submitting") }
                .compactMap { $0[column: "token_digest"].shown })
        let newest = (before["payment_change"] ?? []).compactMap { $0[column: "number"].integer }.max() ?? 0
        found["payment_change"]?.removeAll { row in
            (Int64(row["number"] ?? "") ?? 0) > newest && row["state"] == "pending"
                && submitting.contains(row["token_digest"] ?? "")
        }
        for table in ["payment", "payment_change"] {
            let gone = Set((expected[table] ?? []).compactMap { $0["token_digest"] })
                .subtracting((found[table] ?? []).compactMap { $0["token_digest"] }).intersection(removable)
            expected[table]?.removeAll { gone.contains($0["token_digest"] ?? "") }
        }
        func settled(_ row: [String: String]) -> [String: String] {
            var row = row
            if ["received", "submitting", "pending"].contains(row["state"]) { row["deadline"] = nil }
            guard submitting.contains(row["token_digest"] ?? "") else { return row }
            if row["state"] == "submitting" { row["state"] = "pending" }
            for name in ["changed_at", "reason", "account_digest"] where row["state"] == "pending" { row[name] = nil }
            return row
        }
        expected["payment"] = expected["payment"]?.map(settled)
        found["payment"] = found["payment"]?.map(settled)
    }
}
