import Foundation
public import PKCS11
import Synchronization

/// NSS's softoken within this process, without a database and without a PIN. One initialisation a process, as with
/// every library, and all test targets run in one.
public enum NSSSoftoken {
    public static let libraryPath = "/usr/lib/x86_64-linux-gnu/libsoftokn3.so"

    public static var isInstalled: Bool { FileManager.default.fileExists(atPath: libraryPath) }

    /// Loads the library at the first use.
    public static func module() throws -> Module { try loaded.get() }

    private static let loaded = Result {
        try Module(
            path: libraryPath,
            initialization: .libraryParameters(
                "configdir='' certPrefix='' keyPrefix='' secmod='' flags='readOnly,noCertDB,noModDB,optimizeSpace'"))
    }

    private static let lock = Mutex(())

    /// A session for one test at a time: all sessions see each other's objects, and tests count them.
    public static func alone(_ body: (inout Session) throws -> Void) throws {
        try lock.withLock { _ in
            guard let slot = try module().slots().first else { throw HarnessFailure(description: "NSS shows no slot") }
            var session = try slot.openSession(readWrite: true)
            try body(&session)
        }
    }
}
