package import ArgumentParser

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
        // The largest value of PostgreSQL's max_connections.
        guard (1...262_143).contains(connections) else {
            throw ValidationError("--connections must be from 1 to 262143.")
        }
    }

    /// The role's rights, for a table; nil if no role is named.
    package var description: String? {
        grant.map { role in connections.map { "\(role), with at most \($0) connections" } ?? role }
    }
}
