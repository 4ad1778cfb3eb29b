import ArgumentParser
import CommandOutput
import DaemonAPI
import Ledger
import PostgreSQLClient
import SecretMemory

/// The login of a command to the ledger's server, with the account that owns the tables.
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

    static func url(_ text: String) throws -> PostgreSQLURL {
        try PostgreSQLURL(argument: text, insteadOfPassword: "--password-file or --ask-password")
    }

    /// Calls `body` with the file that contains the password, or with nil for a login without a password or with one
    /// that libpq finds.
    func withPassword<Value>(
        for url: PostgreSQLURL, _ body: (String?) async throws -> Value
    ) async throws -> Value {
        let typed = askPassword ? try TypedPassword(asking: "Password of \(url.user ?? "the account")") : nil
        // If the file cannot be used, the command ends here, with the exit status that all programs have for secret
        // files.
        if let passwordFile { _ = try SecretBytes(contentsOfFile: passwordFile) }
        defer { withExtendedLifetime(typed) {} }
        return try await body(typed?.path ?? passwordFile)
    }

    static func warn(of settings: Set<InsecureLedgerSetting>) {
        for setting in settings.map(\.description).sorted() { Console.error("warning: \(setting)") }
    }
}
