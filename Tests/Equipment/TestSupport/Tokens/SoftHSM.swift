import Foundation
public import PKCS11
import SecretMemory
import Synchronization

/// The test process's one SoftHSM, in a directory of its own. SoftHSM takes one configuration a process, and all test
/// targets run in one process: whoever needs a token in the process gets a fresh one here. Tests that start programs
/// give each program a configuration of its own instead.
public final class SoftHSM: Sendable {
    /// Loads the library at the first use. Fails where SoftHSM is not installed.
    public static func shared() throws -> SoftHSM { try instance.get() }

    private static let instance = Result { try SoftHSM() }

    /// Where the distributions put it, unless the environment names another file.
    public static let libraryPath: String =
        ProcessInfo.processInfo.environment["PAYTOKEND_TEST_SOFTHSM"] ?? [
            "/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
            "/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
        ].first(where: FileManager.default.fileExists(atPath:)) ?? "/usr/lib/softhsm/libsofthsm2.so"

    public let module: Module
    private let directory: FreshDirectory
    private let initialization = Mutex(0)

    private init() throws {
        directory = try FreshDirectory()
        let configuration = try directory.write(
            """
            directories.tokendir = \(directory.makeDirectory("tokens"))
            objectstore.backend = file
            log.level = ERROR
            slots.removable = false

            """, to: "softhsm2.conf")
        // SoftHSM reads it once; the programs that other tests start must not inherit it.
        unsafe setenv("SOFTHSM2_CONF", configuration, 1)
        defer { unsafe unsetenv("SOFTHSM2_CONF") }
        module = try Module(path: Self.libraryPath)
    }

    /// A token that no other test has, with its user logged in for as long as the value lives.
    /// - Parameter label: unlike every other test's where nil.
    public func freshToken(label: String? = nil) throws -> SoftHSMToken {
        try initialization.withLock { count in
            count += 1
            return try SoftHSMToken(module, label: label ?? "test token \(count)")
        }
    }
}

/// One token with its user logged in.
public final class SoftHSMToken: Sendable {
    public static let userPIN = Array("1234-user".utf8)
    public static let securityOfficerPIN = Array("5678-officer".utf8)

    public let slot: Slot
    public let label: String
    /// Keeps the login: it ends with the process's last session with the token.
    private let anchor: Mutex<Session>

    init(_ module: Module, label: String) throws {
        // SoftHSM always has one slot more, with a token to be initialised.
        let free = try module.slots().first { try !$0.tokenInfo().flags.contains(.tokenInitialized) }
        guard let slot = free else { throw SoftHSMFailure.noFreeSlot }
        let officer = SecretBytes(copying: Self.securityOfficerPIN)
        let user = SecretBytes(copying: Self.userPIN)
        try slot.initializeToken(label: label, securityOfficerPIN: officer)
        var session = try slot.openSession(readWrite: true)
        try session.logIn(.securityOfficer, pin: officer)
        try session.initializePIN(user)
        try session.logOut()
        try session.logIn(.user, pin: user)
        self.slot = slot
        self.label = label
        anchor = Mutex(session)
    }

    /// A read-write session.
    public func openSession() throws -> Session {
        try slot.openSession(readWrite: true)
    }
}

public enum SoftHSMFailure: Error {
    case noFreeSlot
}
