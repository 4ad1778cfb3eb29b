import Crypto
import Foundation
import GRDB
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// People of the security team. The first two have the uids of Debian's accounts mail and news, because approvals on
/// several hosts need account names.
enum Staff: UInt32, CaseIterable {
    case alice = 8
    case bob = 9
    /// A person with read access only, whose uid has no account.
    case carol = 21003

    var identity: PeerIdentity {
        PeerIdentity(uid: rawValue, gid: rawValue, loginUID: Self.testsAreLoggedIn ? rawValue : nil)
    }

    /// True if the tests have a login uid. All staff would then inherit this login uid and count as one person.
    private static let testsAreLoggedIn =
        (try? String(contentsOfFile: "/proc/self/loginuid", encoding: .utf8)).map { $0 != "4294967295" } ?? false

    static let needsRoot: Comment = "only root can be several people, and the programs must be where others reach them"

    /// Returns true if the tests can run the programs as other users.
    static func canAct() async throws -> Bool {
        guard PeerIdentity.available else { return false }
        return try await alice.identity.run(Program.built("paytokenctl"), ["--version"]).status == 0
    }

    /// Returns true if the tests can set a process's login uid, which some containers prevent.
    static func canLogIn() async throws -> Bool {
        guard try await canAct() else { return false }
        var identity = alice.identity
        identity.loginUID = 22000
        return try await identity.run(Program.installed("true"), []).status == 0
    }

    /// Returns a configuration that requires two people, has sockets open to all, and includes a rule for root.
    static func configuration(_ rules: [String] = []) -> DaemonConfiguration {
        var configuration = DaemonConfiguration()
        configuration.listener = ["mode: \"0666\"", "admin_mode: \"0666\""]
        configuration.approvals = ["people: 2", "expire: 1h"]
        configuration.access =
            rules + [
                "{ name: alice, user: \"8\", roles: [admin, audit] }",
                "{ name: bob, user: \"9\", roles: [admin, audit] }",
                "{ name: carol, user: \"21003\", roles: [monitor] }",
                // A ledger in PostgreSQL requires a name in the rule. The configuration for SQLite has the name too,
                // so that the records of both engines are equal.
                "{ name: root, user: \"\(geteuid())\", roles: [decrypt, admin, audit] }",
            ]
        return configuration
    }
}

/// A daemon that the staff administers.
struct StaffedDaemon {
    let harness: DaemonHarness

    init(
        _ configuration: DaemonConfiguration = Staff.configuration(), merchants: [ForgedMerchant] = []
    ) async throws {
        harness = try await DaemonHarness(configuration, merchants: merchants)
        // Other users may enter the directory to reach the sockets. The daemon would refuse to start if they could
        // write.
        try FileManager.default.setAttributes([.posixPermissions: 0o711], ofItemAtPath: harness.directory.path)
    }

    /// Runs `paytokenctl` as a member of the staff, or as root if `who` is nil.
    func run(_ who: Staff?, _ arguments: String...) async throws -> ProgramResult {
        try await harness.paytokenctl(arguments, as: who?.identity)
    }

    /// Imports a new key as root, who needs no second person, and puts it into service.
    func merchant(_ name: String) async throws -> ForgedMerchant {
        let merchant = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.\(name)"))
        let imported = try await harness.importMerchant(merchant)
        try #require(imported.status == 0, "\(imported)")
        return merchant
    }

    /// Requests an operation that needs a second person's approval.
    ///
    /// - Returns: the name of the approval, which the command prints.
    func ask(_ who: Staff, _ arguments: String...) async throws -> String { try await ask(who, arguments) }

    func ask(_ who: Staff, _ arguments: [String]) async throws -> String {
        let asked = try await harness.paytokenctl(arguments, as: who.identity)
        try #require(asked.status == 75, "\(asked)")
        #expect(asked.output == "")
        #expect(asked.error.hasPrefix("pending: a second person must permit this before "), "\(asked)")
        let words = asked.error.split(whereSeparator: \.isWhitespace).map(String.init)
        let command = try #require(words.firstIndex(of: "approve"), "\(asked)")
        return try #require(words.dropFirst(command + 1).first)
    }

    func decrypt(_ merchant: ForgedMerchant) async throws -> CurlAnswer {
        try await harness.decrypt(SharedForge.paymentToken(for: merchant.merchant))
    }

    /// Returns the state that `key show` prints.
    func state(_ merchant: ForgedMerchant) async throws -> String? {
        let shown = try await harness.paytokenctl(["key", "show", merchant.hex, "--output", "json"])
        return try JSONValue(parsing: shown.outputBytes).string("state")
    }

    /// Returns the records of a key from `audit list`, oldest first.
    func records(_ merchant: ForgedMerchant) async throws -> [JSONValue] {
        let listed = try await harness.paytokenctl(["audit", "list", "--key", merchant.hex, "--output", "json"])
        try #require(listed.status == 0, "\(listed)")
        return try (JSONValue(parsing: listed.outputBytes).arrayValue ?? []).reversed()
    }

    func approval(_ name: String) async throws -> JSONValue? {
        let listed = try await harness.paytokenctl(["approval", "list", "--output", "json"])
        let items = try JSONValue(parsing: listed.outputBytes).objectValue?["items"]?.arrayValue
        return items?.first { $0.string("approval") == name }
    }

    /// Changes the ledger so that the approval is an hour older.
    func letExpire(_ approval: String) async throws {
        let name = harness.database == nil ? "lower(hex(identifier))" : "encode(identifier, 'hex')"
        try await harness.changeLedger(
            "UPDATE approval SET expires_at = expires_at - 3600000 WHERE \(name) = '\(approval)'")
    }

    func isIntact() async throws -> Bool {
        let verified = try await harness.paytokenctl(["audit", "verify"])
        return verified.status == 0 && verified.output.hasPrefix("intact")
    }
}

extension DaemonHarness {
    /// Changes the running daemon's ledger.
    func changeLedger(_ sql: String) async throws {
        if let database {
            try await database.sql(sql)
            return
        }
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        let database = try DatabaseQueue(path: directory.path("ledger.sqlite"), configuration: configuration)
        try await database.write { db in try db.execute(sql: sql) }
        try database.close()
    }
}

extension ForgedMerchant {
    /// The publicKeyHash in hexadecimal, as the command line accepts it.
    var hex: String { merchant.publicKeyHash.hexadecimal }

    /// Writes the key and the certificate to files that only `who` can read.
    func files(for who: Staff) throws -> FreshDirectory {
        let files = try FreshDirectory()
        try write(to: files.url, prefix: "m")
        for name in try FileManager.default.contentsOfDirectory(atPath: files.path) {
            try FileManager.default.setAttributes(
                [.ownerAccountID: Int(who.rawValue), .groupOwnerAccountID: Int(who.rawValue)],
                ofItemAtPath: files.path(name))
        }
        try files.open()
        return files
    }
}

/// The fingerprint of bytes: their SHA-256 in lower-case hexadecimal.
enum Fingerprint {
    static func hex(_ bytes: [UInt8]) -> String {
        SHA256.hash(data: bytes).hexadecimal
    }
}
