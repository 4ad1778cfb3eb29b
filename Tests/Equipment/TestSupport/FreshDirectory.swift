public import Foundation
import Locks

/// A directory for one test. Its path is short, because socket paths have at most 107 bytes. It is removed with its
/// content when the last reference to it is released.
public final class FreshDirectory: Sendable {
    public let url: URL

    /// The path without a trailing slash.
    public var path: String { url.path }

    /// Makes a new empty directory, mode 0700, under the system's temporary directory.
    public init() throws {
        let letters = Array("abcdefghijklmnopqrstuvwxyz0123456789")
        let name = String((0..<10).map { _ in letters.randomElement() ?? "x" })
        url = FileManager.default.temporaryDirectory.appending(path: "ptk-\(name)", directoryHint: .notDirectory)
        try FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        ExitCleanup.add(directory: url.path)
    }

    deinit {
        ExitCleanup.remove(directory: url.path)
        try? FileManager.default.removeItem(at: url)
    }

    public func path(_ name: String) -> String { url.appending(path: name, directoryHint: .notDirectory).path }

    /// Writes a file inside, and returns its path.
    @discardableResult
    public func write(_ bytes: [UInt8], to name: String, mode: Int = 0o600) throws -> String {
        let path = path(name)
        try Data(bytes).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    /// Writes a text file inside, and returns its path.
    @discardableResult
    public func write(_ text: String, to name: String, mode: Int = 0o600) throws -> String {
        try write(Array(text.utf8), to: name, mode: mode)
    }

    /// Gives every account access, for tests that run programs under several accounts.
    public func open() throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: path)
    }

    /// Makes a directory inside, and returns its path.
    @discardableResult
    public func makeDirectory(_ name: String) throws -> String {
        try FileManager.default.createDirectory(
            atPath: path(name), withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        return path(name)
    }
}

extension FreshDirectory {
    /// Runs openssl in the directory. Files that it creates are readable by their owner only.
    ///
    /// - Parameter command: the arguments, separated by blanks. An argument cannot contain a blank.
    @discardableResult
    public func openssl(_ command: String) async throws -> ProgramResult {
        let before = Set(try FileManager.default.contentsOfDirectory(atPath: path))
        let result = try await RunningProgram(
            Program.installed("openssl"), command.split(separator: " ").map(String.init), workingDirectory: path
        ).result()
        guard result.status == 0 else { throw HarnessFailure(description: "openssl \(command): \(result.error)") }
        for name in try FileManager.default.contentsOfDirectory(atPath: path) where !before.contains(name) {
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: self.path(name))
        }
        return result
    }
}

extension FreshDirectory {
    /// Makes a root, `root.crt`, and a TLS server's certificate under it, `server.crt` with `server.key`. All are PEM files.
    public func writeServerCertificate(for host: String) async throws {
        try write("subjectAltName=DNS:\(host)\n", to: "ext")
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        for command in [
            "req -x509 \(key) -days 30 -subj /CN=root -keyout root.key -out root.crt",
            "req \(key) -subj /CN=server -keyout server.key -out server.csr",
            "x509 -req -in server.csr -CA root.crt -CAkey root.key -CAcreateserial -extfile ext -days 30 -out server.crt",
        ] { try await openssl(command) }
    }
}

/// Ends programs and removes directories when the test process exits. Swift never deinitialises static values, so the
/// programs and directories that they own would otherwise remain.
enum ExitCleanup {
    private struct Remains {
        /// Database servers. They are stopped rather than killed, because a killed server leaves its shared memory in
        /// the system.
        var servers: Set<Int32> = []
        var programs: Set<Int32> = []
        var directories: Set<String> = []
    }

    private static let remains = Mutex(Remains())
    private static let registered: Void = {
        atexit {
            ExitCleanup.remains.withLock { remains in
                for server in remains.servers { kill(server, SIGQUIT) }
                for server in remains.servers { ProcessState.waitForEnd(of: server) }
                for program in remains.programs { kill(program, SIGKILL) }
                for directory in remains.directories { try? FileManager.default.removeItem(atPath: directory) }
            }
        }
    }()

    static func add(program: Int32) {
        _ = registered
        remains.withLock { _ = $0.programs.insert(program) }
    }

    static func add(server: Int32) {
        remains.withLock { _ = $0.servers.insert(server) }
    }

    static func remove(server: Int32) {
        remains.withLock { _ = $0.servers.remove(server) }
    }

    static func remove(program: Int32) { remains.withLock { _ = $0.programs.remove(program) } }

    static func add(directory: String) {
        _ = registered
        remains.withLock { _ = $0.directories.insert(directory) }
    }

    static func remove(directory: String) { remains.withLock { _ = $0.directories.remove(directory) } }
}

/// The state of a process in /proc.
enum ProcessState {
    /// Returns true if the process has ended, reaped or not.
    static func hasEnded(_ process: Int32) -> Bool {
        guard let status = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else { return true }
        // The state follows the last parenthesis, because the name in parentheses may contain any character.
        return status.split(separator: ")").last?.hasPrefix(" Z") ?? true
    }

    /// Blocks until the process has ended or a time limit has passed.
    static func waitForEnd(of process: Int32) {
        for _ in 0..<500 where !hasEnded(process) { usleep(10_000) }
    }
}
