import Foundation
import Locks
public import PKCS11
import SecretMemory

/// The SoftHSM of the test process. All test targets run in one process, and SoftHSM reads only one configuration per
/// process. Tests that use SoftHSM within the process therefore make their HSM tokens here. Tests that start programs
/// give each program a separate configuration.
public final class SoftHSM: Sendable {
    /// Returns the shared SoftHSM, whose library is loaded at the first use. Throws if SoftHSM is not installed.
    public static func shared() throws -> SoftHSM { try instance.get() }

    private static let instance = Result { try SoftHSM() }

    /// The path of SoftHSM's library: the distribution's, unless an environment variable names another.
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
        // SoftHSM reads the variable once. It is removed then, because programs that tests start must not inherit it.
        unsafe setenv("SOFTHSM2_CONF", configuration, 1)
        defer { unsafe unsetenv("SOFTHSM2_CONF") }
        module = try Module(path: Self.libraryPath)
    }

    /// Makes an HSM token for one test, with its user logged in while the value lives.
    /// - Parameter label: the HSM token's label; nil for a unique one.
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
    /// A session that keeps the login. The login would end with the process's last session.
    private let anchor: Mutex<Session>

    init(_ module: Module, label: String) throws {
        // SoftHSM always offers one more slot, whose HSM token is not initialised.
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
