import ArgumentParser
import CommandOutput
import DaemonAPI
import Payments
import PostgreSQLClient
import SecretMemory

/// The group of the commands for a payment store in PostgreSQL; at present only `store create`.
struct StoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "Makes the tables in which several gateways keep payments.",
        subcommands: [StoreCreateCommand.self])
}

struct StoreCreateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Makes the tables of payments in PostgreSQL, with the account that owns them.",
        discussion: """
            For a store in PostgreSQL, which several gateways share (store.url: postgresql://…). No gateway is needed. \
            A gateway's own role cannot do this; --grant gives that role only the rights that it needs: it adds \
            payments and history and changes a payment's state, and cannot delete, nor rewrite history. So make two \
            roles, and a database that the first owns:

              sudo -u postgres createuser --pwprompt payments_owner
              sudo -u postgres createuser --pwprompt paytoken_gateway
              sudo -u postgres createdb --owner payments_owner payments
              paytoken-gateway store create --password-file owner.password \\
                --grant paytoken_gateway \\
                "postgresql://payments_owner@db1,db2/payments?sslmode=verify-full"

            sslrootcert=FILE in the URL names the root certificate of the server's certificate.

            The command does everything in one transaction, or nothing. Run again, it upgrades an older schema, and \
            otherwise changes only the role's rights.

            --connections also limits the role's connections, so that it cannot use all of the server's: 17 for each \
            gateway, and 17 in reserve. The account must be allowed to change roles; otherwise nothing is done, and a \
            superuser sets the limit instead.

            The URL is libpq's, without a password, since others can see the arguments of a program. A password comes \
            from --password-file, or from libpq's own places: PGPASSFILE, ~/.pgpass, a service file. None is needed if \
            PostgreSQL authenticates the account (peer).

            EXIT STATUS
              0   done
              1   the schema is newer, or of another program
              64  wrong usage
              66  the password's file cannot be read; 77: others can read it
              75  no server takes writes now; try again
              78  the login, TLS, the database, or a right that the account lacks
            """)

    @Argument(
        help: ArgumentHelp("The database, with the account that owns it: postgresql://…", valueName: "url"))
    var url: String

    @OptionGroup var role: GrantOptions

    @Option(
        help: ArgumentHelp("A file with the account's password on one line.", valueName: "file"), completion: .file())
    var passwordFile: String?

    @OptionGroup var format: OutputOptions

    func validate() throws {
        _ = try Self.url(url)
    }

    private static func url(_ text: String) throws -> PostgreSQLURL {
        try PostgreSQLURL(argument: text, insteadOfPassword: "--password-file")
    }

    func run() async throws {
        let url = try Self.url(url)
        // If the file cannot be used, the command ends here, with the exit status that all programs have for secret
        // files.
        if let passwordFile { _ = try SecretBytes(contentsOfFile: passwordFile) }
        let outcome: SchemaOutcome
        do throws(PaymentStoreOpeningError) {
            outcome = try await PostgreSQLPaymentSchema.create(
                url, passwordFile: passwordFile, grantTo: role.grant, connections: role.connections)
        } catch {
            throw CommandFailure(Self.status(of: error), "\(error)")
        }
        if outcome.isUnverified {
            Console.error("warning: the server is reached over TCP with less than sslmode=verify-full.")
        }
        try role.show(outcome, format)
    }

    private static func status(of error: PaymentStoreOpeningError) -> ExitStatus {
        switch error {
        case .inUse, .notNow: .tryAgainLater
        case .notAStore, .newerSchema: .no
        case .noDirectory, .notPrivate, .notDurable, .cannotOpen: .configuration
        }
    }
}
