package import ArgumentParser

/// The role with which a program logs in to its database, and the rights that the database's owner gives it.
package struct GrantOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The program's role, which exists; it gets the least it needs.", valueName: "role"))
    package var grant: String?

    @Option(
        help: ArgumentHelp(
            "With --grant: how many connections the role may have at a time (CONNECTION LIMIT). Without it the role's limit stays.",
            valueName: "number"))
    package var connections: Int?

    package init() {}

    package func validate() throws {
        guard grant.map({ !$0.isEmpty && $0.utf8.count <= 63 }) ?? true else {
            throw ValidationError("A role's name has 1 to 63 bytes.")
        }
        guard let connections else { return }
        guard grant != nil else { throw ValidationError("--connections is for the role that --grant names.") }
        // The largest value of max_connections.
        guard (1...262_143).contains(connections) else {
            throw ValidationError("--connections must be from 1 to 262143.")
        }
    }

    /// The role's rights, for a table; nil if no role is named.
    package var description: String? {
        grant.map { role in connections.map { "\(role), with at most \($0) connections" } ?? role }
    }
}
