import Foundation

/// An HSM token that a test makes and a worker process opens.
public protocol WorkersToken: Sendable {
    /// The environment in which a program sees only this HSM token.
    var environment: [String: String] { get }
    var libraryPath: String { get }
    /// The HSM token's RFC 7512 URI.
    var uri: String { get }
    var pinFile: String { get }
    /// The library-specific initialisation string; empty for none.
    var initializationString: String { get }
}

/// A SoftHSM that a test's programs open: configuration, PIN files and one HSM token in a fresh directory. The test
/// process does not load its library.
public final class TokenDirectory: WorkersToken {
    public static let label = "paytokend"
    public static let pin = "48151623421"
    public static let securityOfficerPIN = "31415926535"

    public let directory: FreshDirectory
    /// The environment in which a program sees only this HSM token.
    public let environment: [String: String]
    public var pinFile: String { directory.path("pin") }
    public let libraryPath = SoftHSM.libraryPath
    public let uri = "pkcs11:token=\(TokenDirectory.label)"
    public let initializationString = ""
    public var securityOfficerPINFile: String { directory.path("so-pin") }

    /// Makes a fresh directory, and an HSM token in it.
    ///
    /// - Parameter initialized: true to initialise the HSM token with `paytokend-hsm token-init`.
    public init(initialized: Bool = true) async throws {
        directory = try FreshDirectory()
        try directory.makeDirectory("tokens")
        let configuration = try directory.write(
            "directories.tokendir = \(directory.path("tokens"))\nobjectstore.backend = file\nlog.level = ERROR\n",
            to: "softhsm2.conf")
        environment = ["SOFTHSM2_CONF": configuration]
        try directory.write(Self.pin + "\n", to: "pin")
        try directory.write(Self.securityOfficerPIN + "\n", to: "so-pin")
        guard initialized else { return }
        let result = try await initialize()
        guard result.status == 0 else { throw HarnessFailure(description: "token-init: \(result)") }
    }

    /// Runs `paytokend-hsm token-init`.
    public func initialize(
        _ options: String..., label: String = TokenDirectory.label
    ) async throws -> ProgramResult {
        try await Program.run(
            Program.built("paytokend-hsm"),
            [
                "token-init", "--module", SoftHSM.libraryPath, "--label", label, "--so-pin-file",
                securityOfficerPINFile, "--pin-file", pinFile,
            ] + options, environment: environment)
    }

    /// An HSM token whose initialisation was interrupted: it has its label but no user PIN.
    public static func withoutUserPIN() async throws -> TokenDirectory {
        let hsmToken = try await TokenDirectory(initialized: false)
        try await hsmToken.runTool("--init-token", "--slot-index", "0", "--label", label)
        return hsmToken
    }

    /// Sets the user PIN of an HSM token that has none.
    public func initializeUserPIN() async throws {
        try await runTool("--login", "--login-type", "so", "--token-label", Self.label, "--init-pin", "--pin", Self.pin)
    }

    private func runTool(_ arguments: String...) async throws {
        let result = try await Program.run(
            Program.installed("pkcs11-tool"),
            ["--module", libraryPath, "--so-pin", Self.securityOfficerPIN] + arguments, environment: environment)
        guard result.status == 0 else { throw HarnessFailure(description: "pkcs11-tool: \(result)") }
    }
}

/// A real HSM token that programs open through the scripted PKCS#11 module, which adds faults. The script may change
/// while a worker uses the HSM token.
public final class ScriptedToken: WorkersToken {
    /// The real HSM token, kept because its directory must outlive this value.
    private let hsmToken: any WorkersToken
    private let directory: FreshDirectory

    public let environment: [String: String]
    public let libraryPath: String
    public var uri: String { hsmToken.uri }
    public var pinFile: String { hsmToken.pinFile }
    public var initializationString: String { hsmToken.initializationString }

    private var script: String { directory.path("script") }
    private var log: String { directory.path("log") }

    /// A call that the module received.
    public struct Call: Sendable, Equatable {
        public let function: String
        /// The return value, a CKR.
        public let value: UInt
        public let process: Int32
    }

    /// Makes an HSM token with faults from a real one.
    ///
    /// - Parameter instructions: instructions as ScriptedPKCS11.h describes them. `module` and `log` are added.
    public init(_ hsmToken: any WorkersToken, _ instructions: String...) throws {
        self.hsmToken = hsmToken
        directory = try FreshDirectory()
        libraryPath = try Program.built("libScriptedPKCS11.so")
        environment = hsmToken.environment.merging(["SCRIPTED_PKCS11": directory.path("script")]) { $1 }
        try play(instructions)
    }

    /// Replaces the script. Later calls follow the new one, and counting starts again from 1.
    public func play(_ instructions: String...) throws { try play(instructions) }

    public func play(_ instructions: [String]) throws {
        // Removing these files allows one-time faults to happen again.
        for name in try FileManager.default.contentsOfDirectory(atPath: directory.path) where name.contains(".fired-") {
            try FileManager.default.removeItem(atPath: directory.path(name))
        }
        let lines = ["module \(hsmToken.libraryPath)", "log \(log)"] + instructions
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(filePath: script), options: .atomic)
    }

    /// True if a one-time fault has begun since the script was replaced.
    public var hasFired: Bool {
        (try? FileManager.default.contentsOfDirectory(atPath: directory.path))?.contains { $0.contains(".fired-") }
            == true
    }

    /// The number of objects, stored ones and session objects, that were made and not destroyed so far.
    public var remainingObjects: Int {
        let made = [
            "C_CreateObject": 1, "C_CopyObject": 1, "C_DeriveKey": 1, "C_UnwrapKey": 1, "C_GenerateKeyPair": 2,
            "C_DestroyObject": -1,
        ]
        return calls().reduce(0) { $1.value == 0 ? $0 + (made[$1.function] ?? 0) : $0 }
    }

    /// All calls of every process so far, in the order in which they ended.
    public func calls(_ function: String? = nil) -> [Call] {
        let text = String(decoding: FileManager.default.contents(atPath: log) ?? Data(), as: UTF8.self)
        return text.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard words.count == 3, let value = UInt(words[1].dropFirst(2), radix: 16), let process = Int32(words[2])
            else { return nil }
            let call = Call(function: String(words[0]), value: value, process: process)
            return function == nil || function == call.function ? call : nil
        }
    }
}
