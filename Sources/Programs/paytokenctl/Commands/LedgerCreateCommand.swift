import ArgumentParser
import CommandOutput
import DaemonAPI
import Ledger
import PostgreSQLClient
import PostgreSQLLedger

struct LedgerCreateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Makes or upgrades the ledger's tables in PostgreSQL, with the account that owns them.",
        discussion: """
            For a ledger in PostgreSQL, which several hosts can share (ledger.url: postgresql://…). The daemon is not \
            needed. Its own role cannot do this; --grant gives that role only the rights that it needs: it adds \
            records, checkpoints and claims, and cannot change or delete them. So make two roles, and a database that \
            the first owns:

              sudo -u postgres createuser --pwprompt ledger_owner
              sudo -u postgres createuser --pwprompt paytokend
              sudo -u postgres createdb --owner ledger_owner paytokend
              paytokenctl ledger create --ask-password --grant paytokend \\
                  "postgresql://ledger_owner@db1,db2/paytokend?sslmode=verify-full"

            sslrootcert=FILE in the URL names the root certificate of the server's certificate.

            The command does everything in one transaction, or nothing. Run again, it changes only the role's rights.

            --connections also limits the role's connections, so that it cannot use all of the server's: six for each \
            host, and six in reserve. The account must be allowed to change roles; otherwise nothing is done, and a \
            superuser sets the limit instead.

            After an upgrade of paytokend it brings the tables up to date, which is refused while a daemon serves with the older \
            ones: stop the daemons first, or start the newer ones, which wait for it.

            The URL is libpq's, without a password, since others can see the arguments of a program. A password comes \
            from --password-file, from a prompt (--ask-password), or from libpq's own places: PGPASSFILE, ~/.pgpass, a \
            service file. None is needed if PostgreSQL authenticates the account (peer).

            Exit status: 0 done; 1 the schema is newer, of another program, or older and in use; 66 or 77 the password's file; 75 no \
            server takes writes now, try again; 78 the login, TLS, the database, or a right that the account lacks.
            """)

    @Argument(
        help: ArgumentHelp("The database, with the account that owns it: postgresql://…", valueName: "url"))
    var url: String

    @OptionGroup var role: GrantOptions
    @OptionGroup var account: OwnerAccountOptions
    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions

    func validate() throws {
        _ = try OwnerAccountOptions.url(url)
    }

    func run() async throws {
        let url = try OwnerAccountOptions.url(url)
        let outcome = try await account.withPassword(for: url) { file in
            try await PostgreSQLSchema.create(
                url, passwordFile: file, grantTo: role.grant, connections: role.connections, dryRun: dryRun.isDryRun)
        }
        if outcome.isUnverified { OwnerAccountOptions.warn(of: [.databaseTLS]) }
        try role.show(outcome, isDryRun: dryRun.isDryRun, format)
        dryRun.report(
            outcome.found == outcome.version ? "the schema is up to date" : "the schema can be made or upgraded")
    }
}
