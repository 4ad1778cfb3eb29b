import Foundation
import Locks
public import PKCS11

/// NSS's softoken in the test process, without a database or a PIN. All test targets run in one process, and the
/// library can be initialised only once in it.
public enum NSSSoftoken {
    public static let libraryPath = "/usr/lib/x86_64-linux-gnu/libsoftokn3.so"

    public static var isInstalled: Bool { FileManager.default.fileExists(atPath: libraryPath) }

    /// Returns the module, whose library is loaded at the first use.
    public static func module() throws -> Module { try loaded.get() }

    private static let loaded = Result {
        try Module(
            path: libraryPath,
            initialization: .libraryParameters(
                "configdir='' certPrefix='' keyPrefix='' secmod='' flags='readOnly,noCertDB,noModDB,optimizeSpace'"))
    }

    private static let lock = Mutex(())

    /// Runs `body` with a session while no other test has one. All sessions see the same objects, and tests count them.
    public static func alone(_ body: (inout Session) throws -> Void) throws {
        try lock.withLock { _ in
            guard let slot = try module().slots().first else { throw HarnessFailure(description: "NSS shows no slot") }
            var session = try slot.openSession(readWrite: true)
            try body(&session)
        }
    }
}

/// An NSS softoken that a test's programs open, with a fresh database and a PIN.
public final class NSSTokenDirectory: WorkersToken {
    public static let pin = "48151623421"

    /// True if Debian's packages libnss3 and libnss3-tools are installed.
    public static var isInstalled: Bool {
        FileManager.default.fileExists(atPath: path) && (try? Program.installed("certutil")) != nil
    }

    private static let path = "/usr/lib/x86_64-linux-gnu/libsoftokn3.so"
    private static let label = "paytokend nss"

    public let directory: FreshDirectory
    public let environment: [String: String] = [:]
    public let libraryPath = NSSTokenDirectory.path
    public let uri = "pkcs11:token=paytokend%20nss"
    public var pinFile: String { directory.path("pin") }
    public let initializationString: String

    /// Makes a database with an initialised HSM token.
    ///
    /// - Parameter flags: flags of NSS's initialisation string, such as `readOnly`.
    public init(flags: String = "") async throws {
        directory = try FreshDirectory()
        try directory.write(Self.pin + "\n", to: "pin")
        let database = "sql:" + (try directory.makeDirectory("nss"))
        initializationString =
            "configdir='\(database)' certPrefix='' keyPrefix='' secmod='secmod.db' flags='\(flags)' "
            + "dbTokenDescription='\(Self.label)'"
        let result = try await Program.run(
            Program.installed("certutil"), ["-N", "-d", database, "-f", directory.path("pin")], environment: [:])
        guard result.status == 0 else { throw HarnessFailure(description: "certutil: \(result)") }
    }
}
