package import ArgumentParser
package import PostgreSQLClient
import StrictJSON

/// The role with which a program logs in to its database, and the rights that the database's owner grants it.
package struct GrantOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The program's existing role, which gets only the rights that it needs.", valueName: "role"))
    package var grant: String?

    @Option(
        help: ArgumentHelp(
            "With --grant: the maximum number of the role's connections (CONNECTION LIMIT). Without it the role's limit stays.",
            valueName: "number"))
    package var connections: Int?

    package init() {}

    package func validate() throws {
        guard grant.map({ !$0.isEmpty && $0.utf8.count <= 63 }) ?? true else {
            throw ValidationError("A role's name has 1 to 63 bytes.")
        }
        guard let connections else { return }
        guard grant != nil else { throw ValidationError("--connections needs --grant.") }
        // 262,143 is the largest value of PostgreSQL's max_connections.
        guard (1...262_143).contains(connections) else {
            throw ValidationError("--connections must be from 1 to 262143.")
        }
    }

    /// The role and its connection limit, as text for a table; nil without `--grant`.
    package var description: String? {
        grant.map { role in connections.map { "\(role), with at most \($0) connections" } ?? role }
    }

    /// Shows the outcome of creating or upgrading a store's schema. A dry run shows the current state and the state that
    /// would result.
    package func show(_ outcome: SchemaOutcome, isDryRun isDry: Bool = false, _ format: OutputOptions) throws {
        let isUpToDate = outcome.found == outcome.version
        let status =
            if isUpToDate { "unchanged" } else if isDry { "possible" } else {
                outcome.found == nil ? "created" : "upgraded"
            }
        var json = JSONWriter()
        json.beginObject()
        json.member("status", status)
        json.member("server", outcome.server)
        json.member("owner", outcome.owner)
        json.member("found", outcome.found)
        json.member("version", isDry ? outcome.found : outcome.version)
        json.member("granted", isDry ? nil : outcome.granted)
        json.member("connectionLimit", isDry ? nil : connections)
        if isDry {
            json.member("wouldBecome", outcome.version)
            json.member("wouldGrant", outcome.granted)
            json.member("wouldLimit", connections)
        }
        json.endObject()
        func shown(_ now: String?, _ none: String, wouldBe next: String?) -> String {
            guard isDry, let next, next != now else { return (isDry ? now : next) ?? none }
            return "\(now ?? none), would be \(next)"
        }
        let found = outcome.found.map(String.init)
        try format.show(
            json.bytes,
            Table(pairs: [
                ("Status", status), ("Server", outcome.server), ("Owner", outcome.owner),
                ("Schema found", found ?? "none"),
                ("Schema", shown(found, "none", wouldBe: String(outcome.version))),
                ("Granted to", shown(nil, "no role", wouldBe: description)),
            ]).text)
    }
}
