import Foundation
public import PKCS11

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

    public static func openSession() throws -> Session {
        guard let slot = try module().slots().first else { throw HarnessFailure(description: "NSS shows no slot") }
        return try slot.openSession(readWrite: true)
    }
}
