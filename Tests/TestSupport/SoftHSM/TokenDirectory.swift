/// A SoftHSM of a test's own for programs: configuration, PIN files and one initialised token in a fresh directory. The
/// test process itself does not load the library.
public final class TokenDirectory: WorkersToken {
    public static let label = "paytokend"
    public static let pin = "48151623421"

    public let directory: FreshDirectory
    /// What a program needs to see this token and no other.
    public let environment: [String: String]
    public var pinFile: String { directory.path("pin") }
    public let libraryPath = SoftHSM.libraryPath
    public let uri = "pkcs11:token=\(TokenDirectory.label)"
    public let initializationString = ""
    public var securityOfficerPINFile: String { directory.path("so-pin") }

    /// - Parameter initialized: whether the token is initialised, by the program that is under test.
    public init(initialized: Bool = true) async throws {
        directory = try FreshDirectory()
        try directory.makeDirectory("tokens")
        let configuration = try directory.write(
            "directories.tokendir = \(directory.path("tokens"))\nobjectstore.backend = file\nlog.level = ERROR\n",
            to: "softhsm2.conf")
        environment = ["SOFTHSM2_CONF": configuration]
        try directory.write(Self.pin + "\n", to: "pin")
        try directory.write("31415926535\n", to: "so-pin")
        guard initialized else { return }
        let result = try await initialize()
        guard result.status == 0 else { throw HarnessFailure(description: "token-init: \(result)") }
    }

    /// Runs `paytokend-hsm token-init`.
    public func initialize(label: String = TokenDirectory.label) async throws -> ProgramResult {
        try await Program.run(
            Program.built("paytokend-hsm"),
            [
                "token-init", "--module", SoftHSM.libraryPath, "--label", label, "--so-pin-file",
                securityOfficerPINFile, "--pin-file", pinFile,
            ], environment: environment)
    }
}
