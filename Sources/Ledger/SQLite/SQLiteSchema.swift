import AuditChain
import GRDB

/// The schema's version in a file, and the way from an older one to the present one.
struct SQLiteSchema {
    let path: String
    /// As configured.
    let node: String?

    /// Makes the tables in an empty database, brings older ones up to date, or checks that those there are ours and
    /// for this node. An older ledger is copied beside itself first, as `….schema-1` after its version.
    ///
    /// - Parameter beforeUpgrade: called before an older ledger is copied and changed, which takes as long as it is large.
    /// - Returns: this node's name.
    func prepare(_ db: Database, beforeUpgrade: () -> Void = {}) throws -> AuditNode {
        if let older = try db.durably({ try standing(db) }), older.version < SQLiteTables.version {
            beforeUpgrade()
            try copy(db, version: older.version, node: older.node)
        }
        return try db.durably {
            guard let standing = try standing(db) else { return try create(db) }
            if standing.version < SQLiteTables.version { try migrate(db, from: standing.version) }
            return standing.node
        }
    }

    /// What the database is; nil when there is nothing in it.
    private func standing(_ db: Database) throws -> (version: Int, node: AuditNode)? {
        let tables = try Set(String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'table'"))
        if tables.isEmpty { return nil }
        guard tables.contains("ledger_meta"),
            let version = try value(db, "schema_version").flatMap({ Int($0) }), version > 0,
            let recorded = try value(db, "node").flatMap(AuditNode.init)
        else { throw LedgerOpeningError.notALedger(path: path) }
        guard version <= SQLiteTables.version else {
            throw LedgerOpeningError.newerSchema(path: path, found: version, known: SQLiteTables.version)
        }
        guard node == nil || node == recorded.name else {
            throw LedgerOpeningError.anotherNode(path: path, recorded: recorded.name, configured: node ?? "")
        }
        return (version, recorded)
    }

    private func value(_ db: Database, _ name: String) throws -> String? {
        try String.fetchOne(db, sql: "SELECT value FROM ledger_meta WHERE name = ?", arguments: [name])
    }

    private func create(_ db: Database) throws -> AuditNode {
        let name = node ?? HostName.current
        guard let node = AuditNode(name) else { throw LedgerOpeningError.nodeName(name) }
        for statement in SQLiteTables.steps.joined() { try db.execute(sql: statement) }
        for (name, value) in [("schema_version", String(SQLiteTables.version)), ("node", node.name), ("probed", "0")] {
            try db.execute(sql: "INSERT INTO ledger_meta (name, value) VALUES (?, ?)", arguments: [name, value])
        }
        return node
    }

    private func migrate(_ db: Database, from version: Int) throws {
        for statement in SQLiteTables.steps[version...].joined() { try db.execute(sql: statement) }
        try db.execute(
            sql: "UPDATE ledger_meta SET value = ? WHERE name = 'schema_version'",
            arguments: [String(SQLiteTables.version)])
    }

    /// A start that was cut off between the copy and the migration has left a copy, which is as good as the one made
    /// now but may be older than what was written since; so it stays, and this one gets a number.
    private func copy(_ db: Database, version: Int, node: AuditNode) throws {
        for number in 1...100 {
            let name = "\(path).schema-\(version)" + (number == 1 ? "" : "-\(number)")
            do throws(LedgerBackupError) {
                _ = try SQLiteBackup.copy(db, node: node.name, to: name)
                return
            } catch .exists {
                continue
            } catch {
                let reason = "it has the older schema \(version), and its copy failed. \(error)"
                throw if case .cannotWrite = error {
                    LedgerOpeningError.notNow(path: path, reason: reason)
                } else {
                    LedgerOpeningError.cannotOpen(path: path, reason: reason)
                }
            }
        }
        throw LedgerOpeningError.cannotOpen(
            path: path, reason: "it has the older schema \(version), and there are 100 copies of it beside it already.")
    }
}
