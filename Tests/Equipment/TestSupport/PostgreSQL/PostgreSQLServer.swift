import Foundation
import Synchronization

/// A PostgreSQL server of the tests' own, in a fresh directory on a Unix socket, as another user where the tests run as root, since
/// it refuses to run as root.
public final class PostgreSQLServer: Sendable {
    /// Holds the socket and the data; whoever runs the server owns it.
    public let directory: FreshDirectory
    public let data: String
    private let account: ServerAccount
    private let settings: [String]
    private let process = Mutex<RunningProgram?>(nil)
    /// What it wrote to standard error, its log, before it was stopped.
    private let said = Mutex<[UInt8]>([])

    /// The port that names the socket, and of TCP, which is off unless a setting turns it on.
    public let port: Int

    /// The port where nothing else is asked for.
    public static let port = 5432

    /// The role that initdb made.
    public static let superuser = "postgres"

    /// Makes a server and starts it; it is ready when this returns.
    ///
    /// - Parameters:
    ///   - settings: of postgresql.conf, `name=value`, beside those for speed.
    ///   - isDurable: whether it syncs its log: with this off, as ever but where a test is about that, a power cut loses data.
    ///   - standbyOf: the server whose standby it is, made from a copy of its data.
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

    /// Starts it again after ``stop(_:)`` or ``crash()``.
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

    /// How a server is stopped.
    public enum Stop: Sendable {
        /// Sessions are ended, and transactions rolled back.
        case fast
        /// Without a checkpoint, as after a crash of its own.
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

    /// All its processes stand still, or go on.
    public func signalAll(_ number: Int32) async throws {
        guard let program = process.withLock({ $0 }) else { return }
        // Those that stand still start no others: the parent first.
        kill(program.processIdentifier, number)
        let children = try String(
            contentsOfFile: "/proc/\(program.processIdentifier)/task/\(program.processIdentifier)/children",
            encoding: .utf8)
        for child in children.split(separator: " ").compactMap({ Int32($0) }) { kill(child, number) }
    }

    /// Where a program finds a database of it.
    public func url(_ database: String, user: String) -> String {
        "postgresql://\(user)@/\(database)?host=\(directory.path)&port=\(port)"
    }

    /// A server on a free port of this host's, too.
    public static func onTCP() async throws -> PostgreSQLServer {
        try await PostgreSQLServer(
            settings: ["listen_addresses=127.0.0.1"], port: 20_000 + Int.random(in: 0..<20_000))
    }

    /// Where a program finds a database of it by TCP.
    public func url(host: String, _ database: String, user: String) -> String {
        "postgresql://\(user)@\(host):\(port)/\(database)"
    }

    /// Runs SQL as its superuser beside what else is done, in a session of its own.
    public func session(_ sql: String, in database: String) throws -> RunningProgram {
        try RunningProgram(
            try ServerAccount.program("psql"),
            ["-X", "-q", "-d", url(database, user: Self.superuser), "-c", sql])
    }

    /// Runs SQL as its superuser, or as another role, and gives what it writes, a row a line.
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

    /// What pg_dump writes of a database.
    public func dump(_ database: String) async throws -> [UInt8] {
        let result = try await Program.run(
            try ServerAccount.program("pg_dump"), ["-d", url(database, user: Self.superuser)], waitsForTurn: false)
        guard result.status == 0 else { throw HarnessFailure(description: "pg_dump: \(result.error)") }
        return result.outputBytes
    }

    /// What pg_dump writes of a schema's tables, indexes, functions and triggers, without their owners and rights.
    public func definitions(of schema: String, in database: String) async throws -> String {
        let result = try await Program.run(
            try ServerAccount.program("pg_dump"),
            ["-s", "-n", schema, "--no-owner", "--no-privileges", "-d", url(database, user: Self.superuser)],
            waitsForTurn: false)
        guard result.status == 0 else { throw HarnessFailure(description: "pg_dump: \(result.error)") }
        // Newer ones begin and end with a word that is another each time.
        return result.output.split(separator: "\n").filter { !$0.hasPrefix("\\") }.joined(separator: "\n")
    }

    /// The files in its data directory, and its log, that contain one of the texts: `base/5/1259`, `log`. It is stopped first, which
    /// writes what only its memory had, and no file goes while it is searched.
    ///
    /// - Parameter texts: bytes of any kind but line feeds, which grep takes for the end of a text.
    public func stopAndSearch(for texts: [[UInt8]]) async throws -> [String] {
        precondition(!texts.isEmpty && texts.allSatisfy { !$0.isEmpty && !$0.contains(0x0a) })
        try await stop()
        // Many megabytes: grep is fast.
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

    /// From now on a line of pg_hba.conf before all others decides.
    public func require(_ line: String) async throws {
        let path = data + "/pg_hba.conf"
        let before = try String(contentsOfFile: path, encoding: .utf8)
        let file = try FileHandle(forWritingTo: URL(filePath: path))
        defer { try? file.close() }
        try file.write(contentsOf: Data((line + "\n" + before).utf8))
        try await stop()
        try await start()
    }

    /// From its next start on, which is now, it has TLS with this certificate.
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

    /// Makes it take writes, as the new primary.
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
        // Immediately: nothing of it is needed any more. Its shared memory goes with it, and then its directory can go.
        program.signal(SIGQUIT)
        ProcessState.waitForEnd(of: program.processIdentifier)
        ExitCleanup.remove(server: program.processIdentifier)
    }
}

/// The account under which PostgreSQL's programs run: another one than root's.
private struct ServerAccount: Sendable {
    /// Nil: this process's own.
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

    /// The newest of those that are installed: Debian keeps them out of PATH.
    static func program(_ name: String) throws -> String {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        let paths = versions.sorted { (Int($0) ?? 0) > (Int($1) ?? 0) }.map { "\(root)/\($0)/bin/\(name)" }
        if let found = paths.first(where: FileManager.default.isExecutableFile(atPath:)) { return found }
        return try Program.installed(name)
    }
}
