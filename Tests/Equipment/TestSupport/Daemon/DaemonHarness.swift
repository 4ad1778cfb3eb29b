import Foundation
import Locks
public import TokenForge

/// Runs paytokend with its worker, a fresh SoftHSM token and a ledger in one directory. Tests use the real programs
/// through their real sockets.
public final class DaemonHarness: Sendable {
    public let directory: FreshDirectory
    public let socket: String
    public let adminSocket: String
    public let configurationFile: String
    /// The ledger's database; nil for a file.
    public let database: DaemonDatabase?
    private let running: Mutex<RunningProgram?> = Mutex(nil)

    public static let pin = TokenDirectory.pin
    public static let securityOfficerPIN = TokenDirectory.securityOfficerPIN

    /// Writes the configuration and initialises the HSM token. The daemon is not started.
    public init(
        prepared configuration: DaemonConfiguration, initializesToken: Bool = true
    ) async throws {
        directory = try FreshDirectory()
        socket = directory.path("p.sock")
        adminSocket = directory.path("a.sock")
        configurationFile = directory.path("paytokend.yaml")
        database =
            if let database = configuration.database { database } else { try await StorageEngine.current.database() }
        for hsmToken in configuration.ownHSMTokens {
            let store = Self.store(of: hsmToken)
            try directory.makeDirectory(store)
            try directory.write(
                "directories.tokendir = \(directory.path(store))\nobjectstore.backend = file\nlog.level = ERROR\n",
                to: Self.softHSMConfiguration(of: hsmToken))
        }
        try directory.write(Self.pin + "\n", to: "pin")
        try directory.write(Self.securityOfficerPIN + "\n", to: "so-pin")
        try directory.write(SharedForge.authority.root.certificatePEM, to: "root.pem", mode: 0o644)
        try configure(configuration)
        guard initializesToken else { return }
        for hsmToken in configuration.ownHSMTokens { try await initializeHSMToken(hsmToken) }
    }

    /// The directory of an HSM token's objects, relative to the harness's directory.
    public static func store(of hsmToken: String) -> String { hsmToken == "primary" ? "tokens" : "tokens-\(hsmToken)" }

    private static func softHSMConfiguration(of hsmToken: String) -> String {
        hsmToken == "primary" ? "softhsm2.conf" : "softhsm2-\(hsmToken).conf"
    }

    /// Runs `paytokenctl token init`.
    public func initializeHSMToken(_ hsmToken: String = "primary") async throws {
        let made = try await Program.run(
            Program.built("paytokenctl"),
            [
                "token", "init", "--module", SoftHSM.libraryPath, "--label", "paytokend", "--so-pin-file",
                directory.path("so-pin"), "--pin-file", directory.path("pin"),
            ], environment: ["SOFTHSM2_CONF": directory.path(Self.softHSMConfiguration(of: hsmToken))])
        guard made.status == 0 else { throw HarnessFailure(description: "token init: \(made)") }
    }

    /// Starts a daemon, waits until it is ready, and imports `merchants`.
    public convenience init(
        _ configuration: DaemonConfiguration = DaemonConfiguration(), merchants: [ForgedMerchant] = []
    ) async throws {
        try await self.init(prepared: configuration)
        try await start()
        for merchant in merchants {
            let names = configuration.hsmTokenNames.count > 1 ? configuration.hsmTokenNames : []
            let result = try await importMerchant(merchant, names.flatMap { ["--token", $0] })
            guard result.status == 0 else { throw HarnessFailure(description: "key import: \(result)") }
        }
    }

    /// Writes a configuration that takes effect at the next start or SIGHUP.
    public func configure(_ configuration: DaemonConfiguration) throws {
        var configuration = configuration
        configuration.database = database
        try directory.write(
            configuration.yaml(
                module: configuration.module ?? SoftHSM.libraryPath,
                softHSMConfiguration: { directory.path(Self.softHSMConfiguration(of: $0)) },
                root: "root.pem"),
            to: "paytokend.yaml")
    }

    public var daemon: RunningProgram {
        get throws {
            guard let program = running.withLock({ $0 }) else {
                throw HarnessFailure(description: "the daemon was not started")
            }
            return program
        }
    }

    /// Starts the daemon, and waits until it is ready, or only until it answers requests.
    ///
    /// - Parameter starter: a program with arguments that executes the daemon, such as prlimit.
    public func start(
        _ arguments: [String] = [], environment: [String: String] = [:], as identity: PeerIdentity? = nil,
        through starter: [String] = [], untilReady: Bool = true
    ) async throws {
        let command = starter + [try Program.built("paytokend"), "--config", configurationFile] + arguments
        // The daemon needs a directory for the host's state if the ledger is on a server.
        let environment = environment.merging(["STATE_DIRECTORY": directory.path]) { chosen, _ in chosen }
        let program =
            if let identity {
                try RunningProgram(
                    Program.installed("setpriv"), identity.arguments + command, environment: environment)
            } else {
                try RunningProgram(command[0], Array(command.dropFirst()), environment: environment)
            }
        running.withLock { $0 = program }
        try await waitUntil(untilReady ? "/readyz" : "/healthz")
    }

    /// Changes the owner of the directory and its content. The daemon then runs under that account.
    public func give(to identity: PeerIdentity) async throws {
        let given = try await Program.run(
            Program.installed("chown"), ["-R", "\(identity.uid):\(identity.gid)", directory.path], environment: [:])
        guard given.status == 0 else { throw HarnessFailure(description: "chown: \(given)") }
    }

    /// Waits until /readyz answers 200, and throws at once if the daemon exits.
    public func waitUntilReady(within seconds: Double = 180) async throws {
        try await waitUntil("/readyz", within: seconds)
    }

    private func waitUntil(_ path: String, within seconds: Double = 180) async throws {
        let program = try daemon
        try await wait(for: "200 from \(path)", within: seconds) {
            guard program.isRunning else {
                throw HarnessFailure(description: "the daemon ended at start: \(program.error)")
            }
            guard FileManager.default.fileExists(atPath: socket) else { return false }
            return (try? await Curl.request(path, socket: socket, waitsForTurn: false))?.status == 200
        }
    }

    public func workers() throws -> [Int32] { try children().filter { $0.state != "Z" }.map(\.pid).sorted() }

    /// The process identifier of the worker, which is the daemon's child. During a handover it is the younger one.
    public func worker() throws -> Int32 {
        guard let worker = try children().filter({ $0.state != "Z" }).map(\.pid).max() else {
            throw HarnessFailure(description: "the daemon has no worker process")
        }
        return worker
    }

    /// The number of the daemon's children that have exited and were not reaped.
    public func zombies() throws -> Int { try children().filter { $0.state == "Z" }.count }

    private func children() throws -> [(pid: Int32, state: Substring)] {
        let parent = try daemon.processIdentifier
        return try FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { entry in
            guard let pid = Int32(entry), let stat = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8),
                let name = stat.lastIndex(of: ")")
            else { return nil }
            // The fields after the name in parentheses begin with state and parent.
            let fields = stat[stat.index(after: name)...].dropFirst().split(separator: " ")
            return fields.count > 1 && fields[1] == String(parent) ? (pid, fields[0]) : nil
        }
    }

    /// Sends SIGTERM, waits for the exit, and returns the result.
    public func stop(within seconds: Double = 40) async throws -> ProgramResult {
        let program = try daemon
        program.signal(SIGTERM)
        return try await program.result(within: seconds)
    }

    // MARK: Requests

    public func decrypt(_ body: [UInt8]) async throws -> CurlAnswer {
        try await Curl.request("/v1/decrypt", socket: socket, body: body)
    }

    public func decrypt(
        _ paymentToken: MintedToken, expected: String? = nil, reference: String? = nil, attempt: String? = nil,
        after: [String]? = nil
    ) async throws -> CurlAnswer {
        try await decrypt(
            paymentToken.decryptBody(expected: expected, reference: reference, attempt: attempt, after: after))
    }

    public func verify(_ paymentToken: MintedToken, at time: String? = nil) async throws -> CurlAnswer {
        try await Curl.request("/v1/verify", socket: socket, body: paymentToken.verifyBody(at: time))
    }

    public func admin(_ path: String, body: [UInt8]? = nil) async throws -> CurlAnswer {
        try await Curl.request(path, socket: adminSocket, body: body)
    }

    /// The values of a metric: one for each of its lines that has all these labels.
    public func metric(_ name: String, _ labels: String...) async throws -> [Double] {
        try await admin("/metrics").metric(name, labels)
    }

    /// Runs `paytokenctl` against this daemon.
    ///
    /// - Parameter identity: the identity under which it runs; a change requires root.
    public func paytokenctl(
        _ arguments: [String], input: [UInt8] = [], as identity: PeerIdentity? = nil
    ) async throws -> ProgramResult {
        let environment = ["PAYTOKEND_SOCKET": socket, "PAYTOKEND_ADMIN_SOCKET": adminSocket]
        let path = try Program.built("paytokenctl")
        if let identity {
            return try await identity.run(path, arguments, environment: environment, input: input)
        }
        return try await Program.run(path, arguments, environment: environment, input: input)
    }

    /// Runs `paytokenctl key import` for a merchant's key and certificate.
    public func importMerchant(_ merchant: ForgedMerchant, _ arguments: [String] = []) async throws -> ProgramResult {
        let files = try FreshDirectory()
        try merchant.write(to: files.url, prefix: "m")
        return try await paytokenctl(
            ["key", "import", "--private-key", files.path("m.key.pem"), "--certificate", files.path("m.pem")]
                + arguments)
    }

    /// The content of every regular file in the directory, such as ledger, log and HSM token store, with its path.
    public func files() throws -> [(path: String, bytes: [UInt8])] {
        guard
            let walk = FileManager.default.enumerator(
                at: directory.url, includingPropertiesForKeys: [.isRegularFileKey])
        else { return [] }
        return walk.compactMap { $0 as? URL }.compactMap { url in
            guard (try? url.resourceValues(forKeys: [.isRegularFileKey]))?.isRegularFile == true,
                let bytes = try? Data(contentsOf: url)
            else { return nil }
            return (url.path, Array(bytes))
        }
    }
}

/// A failure of the test equipment, not of the tested program.
public struct HarnessFailure: Error, CustomStringConvertible {
    public let description: String

    public init(description: String) { self.description = description }
}

/// A running daemon with an EC and an RSA merchant, shared by tests that only send requests, because each start takes
/// time.
public enum SharedDaemon {
    private static let started = OncePerLedger {
        var configuration = DaemonConfiguration()
        configuration.listener = ["max_connections: 512", "max_connections_per_uid: 512"]
        return try await DaemonHarness(
            configuration, merchants: [SharedForge.ecMerchant, SharedForge.rsaMerchant])
    }

    /// The shared daemon with the current storage engine.
    public static var harness: DaemonHarness {
        get async throws { try await started.value }
    }
}
