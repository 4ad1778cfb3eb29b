import Foundation
public import PKCS11
import SecretMemory
import Synchronization

/// The test process's only SoftHSM, in its own directory. SoftHSM takes one configuration per process, and all test
/// targets run in one process, so tests in the process get fresh HSM tokens here. Tests that start programs give each
/// program its own configuration instead.
public final class SoftHSM: Sendable {
    /// Loads the library at the first use. Fails if SoftHSM is not installed.
    public static func shared() throws -> SoftHSM { try instance.get() }

    private static let instance = Result { try SoftHSM() }

    /// The distributions' path, unless the environment names another file.
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

    /// Makes an HSM token for one test, with its user logged in while the value lives.
    /// - Parameter label: unique if nil.
    public func freshToken(label: String? = nil) throws -> SoftHSMToken {
        try initialization.withLock { count in
            count += 1
            return try SoftHSMToken(module, label: label ?? "test token \(count)")
        }
    }
}

/// One HSM token with its user logged in.
public final class SoftHSMToken: Sendable {
    public static let userPIN = Array("1234-user".utf8)
    public static let securityOfficerPIN = Array("5678-officer".utf8)

    public let slot: Slot
    public let label: String
    /// Keeps the login, which ends with the process's last session with the HSM token.
    private let anchor: Mutex<Session>

    init(_ module: Module, label: String) throws {
        // SoftHSM always has one more slot, with an HSM token to be initialised.
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

    public func openSession() throws -> Session {
        try slot.openSession(readWrite: true)
    }
}

public enum SoftHSMFailure: Error {
    case noFreeSlot
}
