import ArgumentParser
import DaemonAPI
import Ledger
import PostgreSQLClient
import SecretMemory

/// How a command logs in to the ledger's server with the account that owns the tables.
struct OwnerAccountOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("A file with the account's password on one line.", valueName: "file"), completion: .file())
    var passwordFile: String?

    @Flag(help: "Asks for the account's password on the terminal.")
    var askPassword = false

    func validate() throws {
        guard passwordFile == nil || !askPassword else {
            throw ValidationError("--password-file and --ask-password exclude each other.")
        }
    }

    /// The URL as an argument: its own words would show it, which may hold a password.
    static func url(_ text: String) throws -> PostgreSQLURL {
        do throws(PostgreSQLURLError) {
            return try PostgreSQLURL(text)
        } catch {
            throw ValidationError(sentence(error))
        }
    }

    private static func sentence(_ error: PostgreSQLURLError) -> String {
        switch error {
        case .secret(let parameter):
            "The URL must not contain a \(parameter), which others have seen in the list of processes by now: change it. Use "
                + "--password-file or --ask-password."
        case .fixed(let parameter): "The URL must not set \(parameter)."
        default: "The URL \(error)."
        }
    }

    /// Calls `body` with the file that holds the password, or with nil for a login without one or with what libpq finds.
    func withPassword<Value>(
        for url: PostgreSQLURL, _ body: (String?) async throws(CommandFailure) -> Value
    ) async throws(CommandFailure) -> Value {
        let typed = askPassword ? try TypedPassword(asking: "Password of \(url.user ?? "the account")") : nil
        if let passwordFile { try Self.check(passwordFile) }
        defer { withExtendedLifetime(typed) {} }
        return try await body(typed?.path ?? passwordFile)
    }

    /// So that a wrong file ends with its own status.
    private static func check(_ file: String) throws(CommandFailure) {
        do throws(SecretFileError) {
            _ = try SecretBytes(contentsOfFile: file)
        } catch {
            if case .accessibleToOthers = error.reason { throw CommandFailure(.notPermitted, error.description) }
            throw CommandFailure(.unreadable, error.description)
        }
    }

    static func warn(of settings: Set<InsecureLedgerSetting>) {
        for setting in settings.map(\.description).sorted() { Console.error("warning: \(setting)") }
    }
}

extension CommandFailure {
    /// A server or a database that does not serve for what its owner wants.
    init(owner error: LedgerOpeningError) {
        switch error {
        case .unreachable, .notNow, .inUse, .nodeInUse: self.init(.tryAgainLater, error.description)
        case .newerSchema, .nodesServe: self.init(.no, error.description)
        case .noDirectory: self.init(.unreadable, error.description)
        case .notPrivate: self.init(.notPermitted, error.description)
        default: self.init(.configuration, error.description)
        }
    }
}
