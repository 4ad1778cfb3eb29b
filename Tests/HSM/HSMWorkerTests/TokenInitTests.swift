import PKCS11
import StrictJSON
import TestSupport
import Testing
import WorkerProtocol

@testable import HSMWorker

@Suite struct TokenInitTests {
    @Test("initialises an HSM token that opens, and describes it in one line of JSON")
    func initialises() async throws {
        let hsmToken = try await TokenDirectory(initialized: false)
        let result = try await hsmToken.initialize()
        #expect(result.status == 0)
        #expect(result.output.hasSuffix("}\n") && result.output.filter { $0 == "\n" }.count == 1)
        guard case .object(let line) = try JSONValue(parsing: Array(result.output.utf8.dropLast())) else {
            Issue.record("no JSON object: \(result)")
            return
        }
        #expect(line["label"] == .string("paytokend"))
        let description = try await WorkerUnderTest(hsmToken).open(hsmToken)
        #expect(line["serialNumber"] == .string(description.serialNumber))
    }

    @Test("does not change an existing HSM token with the same label")
    func labelExists() async throws {
        let hsmToken = try await TokenDirectory()
        let before = try await WorkerUnderTest(hsmToken).open(hsmToken)
        let second = try await hsmToken.initialize()
        #expect(second.status == 1)
        #expect(second.error.contains("already"))
        #expect(try await WorkerUnderTest(hsmToken).open(hsmToken).serialNumber == before.serialNumber)
    }

    @Test("asks for SoftHSM's configuration only if SoftHSM cannot start")
    func configurationMissing() async throws {
        let hsmToken = try await TokenDirectory(initialized: false)
        try hsmToken.directory.write(
            "directories.tokendir = \(hsmToken.directory.path("absent"))\nobjectstore.backend = file\n",
            to: "softhsm2.conf")
        let question = "Does SOFTHSM2_CONF name a file whose tokendir exists and is writable?"
        let result = try await hsmToken.initialize()
        #expect(result.status == 69)
        #expect(result.error.contains("C_Initialize: CKR_GENERAL_ERROR. \(question)"), "\(result)")
        let opening = await #expect(throws: WorkerFailure.self) { try await WorkerUnderTest(hsmToken).open(hsmToken) }
        #expect(opening?.message.contains(question) == true, "\(String(describing: opening))")
        let failure = ModuleError.call(CallError(call: "C_Initialize", cause: .returned(.generalError)))
        #expect(failure.sentence(module: "/lib/other.so", environment: [:]) == "C_Initialize: CKR_GENERAL_ERROR.")
        #expect(failure.sentence(module: "/lib/other.so", environment: ["SOFTHSM2_CONF": "/c"]).hasSuffix(question))
        #expect(failure.sentence(module: "/lib/libsofthsm2.so", environment: [:]).hasSuffix(question))
    }

    @Test(
        "asks for the likely cause of each library that is known",
        arguments: [
            ("/usr/lib/libopencryptoki.so.0", "pkcsslotd"), ("/usr/lib/libtpm2_pkcs11.so.1", "TPM2_PKCS11_STORE"),
            ("/usr/lib/yubihsm_pkcs11.so", "YUBIHSM_PKCS11_CONF"),
            ("/usr/lib/p11-kit-client.so", "P11_KIT_SERVER_ADDRESS"),
            ("/usr/lib/libpkcs11-proxy.so", "PKCS11_PROXY_SOCKET"), ("/usr/lib/libsoftokn3.so", "init_args"),
            ("/usr/lib/libCryptoki2_64.so", "ChrystokiConfigurationPath"), ("/opt/libkmsp11.so", "KMS_PKCS11_CONFIG"),
        ])
    func causes(path: String, name: String) {
        let failure = ModuleError.call(CallError(call: "C_Initialize", cause: .returned(.generalError)))
        let sentence = failure.sentence(module: path, environment: ["SOFTHSM2_CONF": "/c"])
        #expect(
            sentence.contains(name) && sentence.hasSuffix("?") && !sentence.contains("SOFTHSM2_CONF"), "\(sentence)")
    }

    @Test("with --dry-run, refuses what an initialisation would refuse, and otherwise changes nothing")
    func dryRun() async throws {
        let empty = try await TokenDirectory(initialized: false)
        let fine = try await empty.initialize("--dry-run")
        #expect(fine.status == 0 && fine.output.isEmpty, "\(fine)")
        // The dry run has made no HSM token, so the label is still free.
        #expect(try await empty.initialize().status == 0)
        let taken = try await empty.initialize("--dry-run")
        #expect(taken.status == 1 && taken.error.contains("already"), "\(taken)")
        try empty.directory.write("123\n", to: "pin")
        #expect(try await empty.initialize("--dry-run", label: "another").status == 1)
        try empty.directory.write("directories.tokendir = /nonexistent\n", to: "softhsm2.conf")
        #expect(try await empty.initialize("--dry-run").status == 69)
    }

    @Test(
        "names certutil if NSS has no HSM token to initialise",
        .enabled(if: NSSTokenDirectory.isInstalled, "needs Debian's libnss3 and libnss3-tools"))
    func nss() async throws {
        let hsmToken = try await NSSTokenDirectory()
        let result = try await Program.run(
            Program.built("paytokend-hsm"),
            [
                "token-init", "--module", hsmToken.libraryPath, "--label", "x", "--so-pin-file", hsmToken.pinFile,
                "--pin-file", hsmToken.pinFile, "--init-args", hsmToken.initializationString, "--dry-run",
            ])
        #expect(result.status == 69 && result.error.contains("certutil"), "\(result)")
    }

    @Test("initialises a second HSM token in another slot")
    func secondToken() async throws {
        let hsmToken = try await TokenDirectory()
        let second = try await hsmToken.initialize(label: "another")
        #expect(second.status == 0)
        let description = try await WorkerUnderTest(hsmToken).open(hsmToken) { $0.tokenURI = "pkcs11:token=another" }
        #expect(description.label == "another")
    }

    @Test("refuses a PIN file that others can read before it touches the HSM token")
    func readablePIN() async throws {
        let hsmToken = try await TokenDirectory(initialized: false)
        try hsmToken.directory.write("48151623421\n", to: "pin", mode: 0o644)
        let result = try await hsmToken.initialize()
        // Status 77 means that the file's permissions let other users read the PIN.
        #expect(result.status == 77)
        #expect(result.error.contains("pin"))
        #expect(!result.error.contains("48151623421"))
        try hsmToken.directory.write("48151623421\n", to: "pin")
        #expect(try await hsmToken.initialize().status == 0)
    }

    @Test("refuses a PIN that the HSM token would refuse before it touches the HSM token")
    func shortPIN() async throws {
        let hsmToken = try await TokenDirectory(initialized: false)
        try hsmToken.directory.write("123\n", to: "pin")
        #expect(try await hsmToken.initialize().status == 1)
        try hsmToken.directory.write("48151623421\n", to: "pin")
        #expect(try await hsmToken.initialize().status == 0)
    }

    @Test("exits with status 66 for a file that is not a library")
    func noLibrary() async throws {
        let hsmToken = try await TokenDirectory(initialized: false)
        let result = try await Program.run(
            Program.built("paytokend-hsm"),
            [
                "token-init", "--module", "/nonexistent.so", "--label", "x", "--so-pin-file",
                hsmToken.securityOfficerPINFile, "--pin-file", hsmToken.pinFile,
            ], environment: hsmToken.environment)
        #expect(result.status == 66)
        #expect(result.error.contains("/nonexistent.so"))
    }

    @Test("refuses to run without a socket as its input")
    func noSocket() async throws {
        let result = try await Program.run(Program.built("paytokend-hsm"), [])
        #expect(result.status == 64)
        #expect(result.error.contains("socket"))
    }
}
