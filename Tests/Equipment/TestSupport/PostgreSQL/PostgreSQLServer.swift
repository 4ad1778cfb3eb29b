import Foundation
import Locks

/// A PostgreSQL server in a fresh directory, on a Unix socket. PostgreSQL refuses to run as root, so if the tests run
/// as root, the server runs under another account.
public final class PostgreSQLServer: Sendable {
    /// The directory of the socket and the data. The account that runs the server owns it.
    public let directory: FreshDirectory
    public let data: String
    private let account: ServerAccount
    private let settings: [String]
    private let process = Mutex<RunningProgram?>(nil)
    /// The standard error of the server's earlier runs, which contains its log.
    private let said = Mutex<[UInt8]>([])

    /// The port number, which is part of the socket's name. The server listens on the TCP port only if a setting
    /// enables it.
    public let port: Int

    /// The default port.
    public static let port = 5432

    /// The superuser that initdb created.
    public static let superuser = "postgres"

    /// Makes a server, starts it, and returns when it is ready.
    ///
    /// - Parameters:
    ///   - settings: additional settings of postgresql.conf, `name=value`.
    ///   - isDurable: true to sync the write-ahead log. Only tests about durability need it; without it a power cut
    ///     loses data.
    ///   - standbyOf: the primary, if the server is a standby. It starts from a copy of the primary's data.
    public init(
        settings: [String] = [], port: Int = PostgreSQLServer.port, isDurable: Bool = false,
        standbyOf primary: PostgreSQLServer? = nil
    )
        async throws
    {
        self.port = port
        directory = try FreshDirectory()
        try directory.open()
        account = try ServerAccount.find()
        data = directory.path("data")
        let speed = isDurable ? [] : ["fsync=off", "full_page_writes=off"]
        self.settings =
            speed + [
                "listen_addresses=", "unix_socket_directories=\(directory.path)", "port=\(port)",
                "max_connections=500", "log_min_messages=warning", "shared_buffers=32MB",
            ] + settings
        if let primary {
            try await run(
                "pg_basebackup",
                [
                    "-h", primary.directory.path, "-p", "\(primary.port)", "-U", Self.superuser, "-D", data,
                    "-R", "-c",
                    "fast", "--no-sync",
                ])
        } else {
            try await run(
                "initdb", ["-D", data, "--no-sync", "-A", "trust", "-U", Self.superuser, "-E", "UTF8", "--locale=C"])
        }
        try await start()
    }

    /// Starts the server again after ``stop(_:)`` or ``crash()``.
    public func start() async throws {
        let (path, arguments) = account.command(
            try ServerAccount.program("postgres"), ["-D", data] + settings.flatMap { ["-c", $0] })
        let program = try RunningProgram(path, arguments, workingDirectory: directory.path)
        process.withLock { $0 = program }
        ExitCleanup.add(server: program.processIdentifier)
        try await wait(for: "PostgreSQL's start") {
            try await Program.run(
                try ServerAccount.program("pg_isready"), ["-q", "-h", directory.path, "-p", "\(port)"],
                waitsForTurn: false
            ).status == 0
        }
    }

    /// The way to stop a server.
    public enum Stop: Sendable {
        /// Ends sessions, and rolls transactions back.
        case fast
        /// Stops the server without a WAL checkpoint, so that the next start recovers as after a crash.
        case immediate
    }

    public func stop(_ how: Stop = .fast) async throws {
        guard let program = process.withLock({ $0 }) else { return }
        program.signal(how == .fast ? SIGINT : SIGQUIT)
        let ended = try await program.result()
        said.withLock { $0 += ended.errorBytes }
        ExitCleanup.remove(server: program.processIdentifier)
        process.withLock { $0 = nil }
    }

    /// Sends a signal such as SIGSTOP or SIGCONT to all processes of the server.
    public func signalAll(_ number: Int32) async throws {
        guard let program = process.withLock({ $0 }) else { return }
        // The parent process receives the signal first, because it starts no further processes once it is stopped.
        kill(program.processIdentifier, number)
        let children = try String(
            contentsOfFile: "/proc/\(program.processIdentifier)/task/\(program.processIdentifier)/children",
            encoding: .utf8)
        for child in children.split(separator: " ").compactMap({ Int32($0) }) { kill(child, number) }
    }

    /// The URL of a database of this server, over its Unix socket.
    public func url(_ database: String, user: String) -> String {
        "postgresql://\(user)@/\(database)?host=\(directory.path)&port=\(port)"
    }

    /// Makes a server that also listens on a free TCP port of this host.
    public static func onTCP() async throws -> PostgreSQLServer {
        try await PostgreSQLServer(
            settings: ["listen_addresses=127.0.0.1"], port: 20_000 + Int.random(in: 0..<20_000))
    }

    /// The URL of a database of this server, over TCP.
    public func url(host: String, _ database: String, user: String) -> String {
        "postgresql://\(user)@\(host):\(port)/\(database)"
    }

    /// Starts a session that runs SQL as the superuser, concurrently with the test.
    public func session(_ sql: String, in database: String) throws -> RunningProgram {
        try RunningProgram(
            try ServerAccount.program("psql"),
            ["-X", "-q", "-d", url(database, user: Self.superuser), "-c", sql])
    }

    /// Runs SQL as the superuser or another role, and returns its output, one row in a line.
    @discardableResult
    public func sql(_ sql: String, in database: String = "postgres", as user: String = superuser) async throws -> String
    {
        let result = try await Program.run(
            try ServerAccount.program("psql"),
            ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url(database, user: user), "-c", sql],
            waitsForTurn: false)
        guard result.status == 0 else { throw HarnessFailure(description: "psql: \(result.error)") }
        return result.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The output of pg_dump for a database.
    public func dump(_ database: String) async throws -> [UInt8] {
        let result = try await Program.run(
            try ServerAccount.program("pg_dump"), ["-d", url(database, user: Self.superuser)], waitsForTurn: false)
        guard result.status == 0 else { throw HarnessFailure(description: "pg_dump: \(result.error)") }
        return result.outputBytes
    }

    /// The output of pg_dump for a schema's tables, indexes, functions and triggers, without owners and rights.
    public func definitions(of schema: String, in database: String) async throws -> String {
        let result = try await Program.run(
            try ServerAccount.program("pg_dump"),
            ["-s", "-n", schema, "--no-owner", "--no-privileges", "-d", url(database, user: Self.superuser)],
            waitsForTurn: false)
        guard result.status == 0 else { throw HarnessFailure(description: "pg_dump: \(result.error)") }
        // Newer versions of pg_dump begin and end with \restrict and \unrestrict, whose random argument differs each
        // time.
        return result.output.split(separator: "\n").filter { !$0.hasPrefix("\\") }.joined(separator: "\n")
    }

    /// Stops the server, and returns the files that contain one of the texts: those of the data directory by their
    /// relative paths, such as `base/5/1259`, and the server's output as `log`. Stopping writes the server's memory to
    /// disk, and no file disappears during the search.
    ///
    /// - Parameter texts: any bytes except line feeds, which separate texts for grep.
    public func stopAndSearch(for texts: [[UInt8]]) async throws -> [String] {
        precondition(!texts.isEmpty && texts.allSatisfy { !$0.isEmpty && !$0.contains(0x0a) })
        try await stop()
        // grep searches many megabytes faster than this program.
        let search = try FreshDirectory()
        try search.write(said.withLock { $0 }, to: "log")
        let patterns = try search.write(Array(texts.joined(separator: [0x0a])), to: "patterns")
        let result = try await Program.run(
            Program.installed("grep"),
            [
                "--recursive", "--text", "--fixed-strings", "--files-with-matches", "--file", patterns, data,
                search.path("log"),
            ], environment: ["LC_ALL": "C"])
        guard result.status < 2 else { throw HarnessFailure(description: "grep: \(result.error)") }
        return result.output.split(separator: "\n").map { path in
            path.hasPrefix(data + "/") ? String(path.dropFirst(data.count + 1)) : "log"
        }
    }

    /// Inserts a line at the top of pg_hba.conf, where it takes precedence, and restarts the server.
    public func require(_ line: String) async throws {
        let path = data + "/pg_hba.conf"
        let before = try String(contentsOfFile: path, encoding: .utf8)
        let file = try FileHandle(forWritingTo: URL(filePath: path))
        defer { try? file.close() }
        try file.write(contentsOf: Data((line + "\n" + before).utf8))
        try await stop()
        try await start()
    }

    /// Enables TLS with this certificate, and restarts the server.
    public func use(_ certificate: ServerCertificate, of certificates: ServerCertificates) async throws {
        for (source, name) in [
            (certificates.certificate(certificate), "server.crt"), (certificates.key(certificate), "server.key"),
        ] {
            let path = data + "/" + name
            try? FileManager.default.removeItem(atPath: path)
            try FileManager.default.copyItem(atPath: source, toPath: path)
            try account.own(path)
        }
        try await sql("ALTER SYSTEM SET ssl = on")
        try await stop()
        try await start()
    }

    /// Promotes the standby to a primary, which accepts writes.
    public func promote() async throws {
        try await sql("SELECT pg_promote(true, 60)")
    }

    private func run(_ name: String, _ arguments: [String]) async throws {
        let (path, arguments) = account.command(try ServerAccount.program(name), arguments)
        let result = try await RunningProgram(path, arguments, workingDirectory: directory.path).result()
        guard result.status == 0 else { throw HarnessFailure(description: "\(name): \(result.error)") }
    }

    deinit {
        guard let program = process.withLock({ $0 }) else { return }
        // SIGQUIT stops the server at once and removes its shared memory. Its directory can be removed afterwards.
        program.signal(SIGQUIT)
        ProcessState.waitForEnd(of: program.processIdentifier)
        ExitCleanup.remove(server: program.processIdentifier)
    }
}

/// The account under which PostgreSQL's programs run. It must not be root.
private struct ServerAccount: Sendable {
    /// The account's uid and gid; nil to keep those of this process.
    let identifiers: (user: UInt32, group: UInt32)?

    static func find() throws -> ServerAccount {
        guard geteuid() == 0 else { return ServerAccount(identifiers: nil) }
        for name in ["postgres", "nobody"] {
            if let found = account(name) { return ServerAccount(identifiers: found) }
        }
        throw HarnessFailure(description: "there is no account postgres or nobody for a database server")
    }

    private static func account(_ name: String) -> (user: UInt32, group: UInt32)? {
        guard let accounts = try? String(contentsOfFile: "/etc/passwd", encoding: .utf8) else { return nil }
        for line in accounts.split(separator: "\n") {
            let fields = line.split(separator: ":", omittingEmptySubsequences: false)
            if fields.count > 3, fields[0] == name, let user = UInt32(fields[2]), let group = UInt32(fields[3]) {
                return (user, group)
            }
        }
        return nil
    }

    func command(_ path: String, _ arguments: [String]) -> (String, [String]) {
        guard let identifiers else { return (path, arguments) }
        return (
            "/usr/bin/setpriv",
            ["--reuid=\(identifiers.user)", "--regid=\(identifiers.group)", "--clear-groups", path] + arguments
        )
    }

    func own(_ path: String) throws {
        guard let identifiers else { return }
        try FileManager.default.setAttributes(
            [
                .ownerAccountID: NSNumber(value: identifiers.user),
                .groupOwnerAccountID: NSNumber(value: identifiers.group),
            ],
            ofItemAtPath: path)
    }

    /// Returns the path of the newest installed program of this name, which Debian installs outside PATH.
    static func program(_ name: String) throws -> String {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        let paths = versions.sorted { (Int($0) ?? 0) > (Int($1) ?? 0) }.map { "\(root)/\($0)/bin/\(name)" }
        if let found = paths.first(where: FileManager.default.isExecutableFile(atPath:)) { return found }
        return try Program.installed(name)
    }
}
