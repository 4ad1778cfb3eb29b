import Foundation
import TestSupport

/// A kind of store, and the program that upgrades it in production.
enum StoreKind: String, CaseIterable, Sendable {
    /// The daemon upgrades its file at its start.
    case ledgerFile = "sqlite"
    /// `paytokenctl ledger create` upgrades the database.
    case ledgerDatabase = "postgresql"
    /// The gateway upgrades its file at its start.
    case paymentFile = "payments-sqlite"
    /// `paytoken-gateway store create` upgrades the database.
    case paymentDatabase = "payments-postgresql"

    var engine: StorageEngine { self == .ledgerFile || self == .paymentFile ? .sqlite : .postgresql }
    var isLedger: Bool { self == .ledgerFile || self == .ledgerDatabase }
    /// The current version. A new version needs its SQL file, so that it is upgraded here as soon as it is old.
    var current: Int {
        switch self {
        case .ledgerFile: 11
        case .ledgerDatabase: 12
        case .paymentFile, .paymentDatabase: 2
        }
    }
    var schema: String { isLedger ? "paytokend" : "paytoken_gateway" }
    var role: String { schema }
    static let owner = "upgrade_owner"

    /// The statements that create the tables of a version, from the file that programs of that version left.
    func tables(version: Int) throws -> String {
        try OlderLedgers.sqlWithoutTransaction("\(rawValue)-\(version)").split(separator: "\n")
            .filter { line in
                ![
                    "INSERT INTO \"", "INSERT INTO payment_store", "DELETE FROM \"", "INSERT INTO \(schema).",
                    "SELECT pg_catalog.setval",
                ]
                .contains { line.hasPrefix($0) }
            }.joined(separator: "\n")
    }
}

/// A PostgreSQL server for upgrades, which may end at any time.
struct UpgradeServer: Sendable {
    let server: PostgreSQLServer

    init() async throws {
        server = try await PostgreSQLServer()
        for role in [StoreKind.owner, StoreKind.ledgerDatabase.role, StoreKind.paymentDatabase.role] {
            try await server.sql("CREATE ROLE \(role) LOGIN")
        }
    }

    func database(from template: String = "template0") async throws -> String {
        let name = "u\(UInt64.random(in: .min ... .max))"
        try await server.sql("CREATE DATABASE \(name) TEMPLATE \(template) OWNER \(StoreKind.owner)")
        return name
    }
}

/// A store of an older version, and the runs of the program that upgrades it.
struct UpgradedStore: Sendable {
    let kind: StoreKind
    let place: Place
    /// The directory of the program's configuration, and of a file.
    let directory: FreshDirectory
    let interruptions: Interruptions

    /// Makes an empty place.
    init(_ kind: StoreKind, on server: UpgradeServer?, _ interruptions: Interruptions) async throws {
        (self.kind, self.interruptions) = (kind, interruptions)
        directory = try FreshDirectory()
        if let server, kind.engine == .postgresql {
            place = .database(server.server, name: try await server.database(), schema: kind.schema)
        } else {
            place = .file(path: directory.path(kind.isLedger ? "ledger.sqlite" : "payments.sqlite"))
            try configure()
        }
    }

    /// Makes a copy, as a backup of the file or database.
    init(copying other: UpgradedStore, on server: UpgradeServer?) async throws {
        (kind, interruptions) = (other.kind, other.interruptions)
        directory = try FreshDirectory()
        switch other.place {
        case .file(let path):
            let copy = directory.path(URL(filePath: path).lastPathComponent)
            try FileManager.default.copyItem(atPath: path, toPath: copy)
            place = .file(path: copy)
            try configure()
        case .database(let postgreSQL, let name, let schema):
            guard let server else { throw HarnessFailure(description: "no server") }
            place = .database(postgreSQL, name: try await server.database(from: name), schema: schema)
        }
    }

    /// Creates the tables of a version and inserts the content.
    func fill(version: Int, _ content: Content) async throws {
        switch place {
        case .file(let path):
            try directory.write([], to: URL(filePath: path).lastPathComponent)
            try await place.execute(kind.tables(version: version))
        case .database(let server, let name, _):
            try await server.sql(kind.tables(version: version), in: name, as: StoreKind.owner)
        }
        try await place.insert(content)
    }

    private func configure() throws {
        try directory.write("1234\n", to: "pin")
        try directory.write([], to: "none.so")
        // No HSM token can be opened, so the daemon upgrades the ledger and then only waits.
        try directory.write(
            """
            listener: { socket: p.sock, admin_socket: a.sock }
            tokens:
              - { name: primary, module: \(directory.path("none.so")), uri: "pkcs11:token=none", pin_file: pin, allow_extractable_secret: true }
            ledger: { url: "sqlite:ledger.sqlite" }
            approvals: { people: 1 }
            """, to: "paytokend.yaml")
        // No processor and no paytokend answers, so the gateway upgrades the store and settles nothing.
        try directory.write(
            """
            listener: { address: "unix:p.sock" }
            admin: { socket: a.sock }
            paytokend: { socket: none.sock }
            store: { url: "sqlite:payments.sqlite" }
            processors: [{ name: acquirer, kind: simulator, url: "unix:\(directory.path("none.sock"))", merchants: ["*"] }]
            clients: [{ name: shop, key_sha256: "\(String(repeating: "0", count: 64))", merchants: ["*"], operations: [pay] }]
            """, to: "paytoken-gateway.yaml")
    }

    /// The result of a run of the program.
    struct Outcome: Sendable {
        /// The exit status; 137 if the program was killed.
        let status: Int32
        /// The number of events. For a program that serves, those until it served.
        let events: Int
        let error: String
        var isKilled: Bool { status == 128 + SIGKILL }
    }

    /// Runs the program that upgrades the store, until it is interrupted or has upgraded the store.
    ///
    /// - Parameter whileStopped: what happens to the server while the program is stopped.
    func upgrade(until point: Interruptions.Point? = nil, whileStopped: () async throws -> Void = {}) async throws
        -> Outcome
    {
        switch place {
        case .file(let path):
            let program = kind.isLedger ? "paytokend" : "paytoken-gateway"
            let run = try interruptions.start(
                program, ["--config", directory.path("\(program).yaml")], counting: path, until: point)
            let socket = directory.path("a.sock")
            try? FileManager.default.removeItem(atPath: socket)
            try await wait(for: "\(program) to serve or end") {
                !run.program.isRunning || FileManager.default.fileExists(atPath: socket)
            }
            let events = run.events
            run.program.signal(SIGTERM)
            return try await outcome(of: run, events: events)
        case .database(let server, let name, _):
            let url = server.url(name, user: StoreKind.owner)
            let run = try interruptions.start(
                kind.isLedger ? "paytokenctl" : "paytoken-gateway",
                [kind.isLedger ? "ledger" : "store", "create", url, "--grant", kind.role], counting: nil, until: point)
            if point?.place == .stop, try await awaitStop(of: run.program) {
                try await whileStopped()
                run.program.signal(SIGCONT)
            }
            return try await outcome(of: run, events: nil)
        }
    }

    /// Runs `paytokenctl ledger restore` with a copy.
    func restore(_ copy: String, to path: String, until point: Interruptions.Point?) async throws -> Outcome {
        let run = try interruptions.start(
            "paytokenctl", ["ledger", "restore", copy, "--to", "sqlite:\(path)"], counting: path, until: point)
        return try await outcome(of: run, events: nil)
    }

    private func outcome(of run: Interruptions.Run, events: Int?) async throws -> Outcome {
        let result = try await run.program.result()
        return Outcome(status: result.status, events: events ?? run.events, error: result.error)
    }
}
