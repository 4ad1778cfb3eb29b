import ArgumentParser
import CommandOutput
import Foundation

struct TokenTestKeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove-test-keys",
        abstract: "Removes the stored key pairs of the self-tests.",
        discussion: """
            An HSM token that makes no session key pairs, such as a TPM, keeps a test pair for each purpose; \
            paytokenctl status lists them. They are labelled "paytokend test" and open nothing. A daemon that uses \
            the HSM token makes them again at its next opening, so remove them when it no longer does.

              paytokenctl token remove-test-keys --uri pkcs11:token=paytokend \\
                  --module /usr/lib/softhsm/libsofthsm2.so --pin-file /etc/paytokend/pin
            """)

    @Option(help: ArgumentHelp("The vendor's PKCS#11 library.", valueName: "path"), completion: .file())
    var module: String

    @Option(help: ArgumentHelp("The HSM token, as in the configuration.", valueName: "uri"))
    var uri: String

    @Option(help: ArgumentHelp("A file with the user PIN.", valueName: "file"), completion: .file())
    var pinFile: String

    @Option(help: ArgumentHelp("The library's own initialisation string (NSS).", valueName: "text"))
    var initArgs: String?

    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions

    func run() async throws {
        let worker = try WorkerProgram.locate()
        if dryRun.isDryRun {
            try WorkerProgram.requireReadable(module: module, pinFile: pinFile)
            dryRun.report("\(worker) would remove the test keys of \(uri)")
            return
        }
        var arguments = [
            // The worker accepts only an absolute path.
            "remove-test-keys", "--module", URL(filePath: module).path(percentEncoded: false), "--uri", uri,
            "--pin-file", pinFile,
        ]
        if let initArgs { arguments += ["--init-args", initArgs] }
        let output = try WorkerProgram.run(worker, arguments)
        try WorkerProgram.show(output, after: "\(worker) removed the test keys", format)
    }
}
