package import Ledger
package import PostgreSQLClient

/// The schema of a PostgreSQL ledger. `paytokenctl ledger create` creates and upgrades it with the owner's account; the
/// daemon's role cannot do this.
package enum PostgreSQLSchema: StoreSchema {
    package typealias OpeningError = LedgerOpeningError
    package typealias Failure = LedgerFailure

    package static let name = PostgreSQLTables.schema
    package static let versionTable = "ledger_state"
    package static let steps = PostgreSQLTables.steps
    package static let finishing = [PostgreSQLTables.firstServer]
    package static let creator = "paytokenctl"
    /// The maximum duration of a creation or an upgrade. Upgrading large tables may take long.
    package static let creationLimit = Duration.seconds(600)
    package static let users = "the daemons"

    /// Refuses the upgrade while a daemon holds a lease. Such a daemon uses the older schema, and would release nothing
    /// after the upgrade. A daemon that needs the newer schema does not serve before the upgrade.
    package static func prepareUpgrade(server: String, _ run: (String) throws -> [PostgreSQLRow]) throws {
        let nodes = try run(
            """
            SELECT name FROM \(name).node WHERE lease_until >= clock_timestamp()
            ORDER BY name COLLATE "C" LIMIT 100
            """
        ).map { try $0.text(0) }
        guard nodes.isEmpty else { throw LedgerOpeningError.nodesServe(server: server, nodes: nodes) }
    }
}
