package import ConfigurationFile
import Foundation
package import PostgreSQLClient

/// A PostgreSQL database that a section of the configuration names with `url` and `password_file`.
package struct ServerDatabase: Sendable, Equatable {
    package let url: PostgreSQLURL
    /// The absolute path of the file with the password of the database role. Nil for peer authentication, a client
    /// certificate, or a password that libpq itself reads from a service file or ~/.pgpass.
    package let passwordFile: String?

    package init(url: PostgreSQLURL, passwordFile: String?) {
        self.url = url
        self.passwordFile = passwordFile
    }

    /// Reads the settings of a section and checks them as far as possible without a connection to the server. If it
    /// finds problems, it reports them to `section` and returns nil.
    ///
    /// - Parameters:
    ///   - text: the value of `url`.
    ///   - use: the harm that other users can do if they can read the password file, such as "change the outcome of
    ///     payments". It completes the sentence "With the secret they …".
    package init?(_ text: String, _ section: ConfigurationSection, use: String) {
        let isSecretNamed = section.node("password_file") != nil
        let passwordFile = section.secretFile("password_file", use: use)
        let url: PostgreSQLURL
        do throws(PostgreSQLURLError) {
            url = try PostgreSQLURL(text)
        } catch {
            section.problem("url", error.description)
            return nil
        }
        // A relative path is refused, because libpq would resolve it against the program's working directory.
        let unreadable = url.files.filter {
            !$0.path.hasPrefix("/") || !FileManager.default.isReadableFile(atPath: $0.path)
        }
        for file in unreadable {
            section.problem(
                "url",
                "the file of its \(file.parameter), \(ConfigurationText.shown(file.path)), cannot be read; give an absolute "
                    + "path, and check its permissions")
        }
        if let service = url.service, !ServiceFiles(section.reader.environment).haveSection(for: service) {
            section.problem(
                "url",
                "names the service \(ConfigurationText.shown(service)), which no service file defines: \(ServiceFiles.names)"
            )
            return nil
        }
        guard unreadable.isEmpty, isSecretNamed == (passwordFile != nil) else { return nil }
        self.init(url: url, passwordFile: passwordFile)
    }

    /// Returns true if the URL has the scheme of a PostgreSQL URL, even if the rest is invalid.
    package static func isNamed(by url: String) -> Bool {
        url.hasPrefix("postgres:") || url.hasPrefix("postgresql:")
    }
}

/// The files in which libpq searches for the service that a URL names (PostgreSQL documentation, *The Connection
/// Service File*).
private struct ServiceFiles {
    static let names = "~/.pg_service.conf, or PGSERVICEFILE, or pg_service.conf where the system keeps it"

    /// The directories in which Debian and other distributions install pg_service.conf. libpq reads only the directory
    /// that was set when libpq was built. A program cannot query that directory, so all of these are searched.
    private static let systemDirectories = ["/etc/postgresql-common", "/etc", "/etc/sysconfig/pgsql", "/usr/local/etc"]

    private let paths: [String]

    init(_ environment: [String: String]) {
        let home = environment["HOME"] ?? FileManager.default.homeDirectoryForCurrentUser.path
        let directories = environment["PGSYSCONFDIR"].map { [$0] } ?? Self.systemDirectories
        paths =
            [environment["PGSERVICEFILE"] ?? home + "/.pg_service.conf"] + directories.map { $0 + "/pg_service.conf" }
    }

    func haveSection(for service: String) -> Bool {
        paths.contains { path in
            let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
            return text.split(whereSeparator: \.isNewline).contains { line in
                line.trimmingCharacters(in: .whitespaces).hasPrefix("[\(service)]")
            }
        }
    }
}
