import ArgumentParser
import DaemonAPI
import Encodings
import Foundation
import KeyFiles

struct CertificateImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Stores Apple's certificate beside the key that it was made for, and activates the key.",
        discussion: """
            The key is found by the certificate's public key. The file is X.509 in PEM or DER, as Apple's developer \
            portal gives it, or PKCS#7. Of several certificates in it the Payment Processing Certificate is taken, and \
            its issuer's signature is checked when the issuer is among them.

              paytokenctl certificate import merchant.cer --dry-run
              paytokenctl certificate import merchant.cer
            """)

    @OptionGroup var certificate: CertificateArgument
    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let (summary, bytes) = try await socket.connection.post(
            dryRun.target("/v1/certificates"), certificate.request(), for: KeySummary.self)
        try MerchantKeyTable.show(summary, bytes, format.output)
        dryRun.report("the certificate can be imported")
    }
}

/// The certificate that a command takes in.
struct CertificateArgument: ParsableArguments {
    @Argument(help: ArgumentHelp("Apple's Payment Processing certificate.", valueName: "file"), completion: .file())
    var file: String

    @Flag(help: "Takes a certificate that has expired.")
    var allowExpired = false

    /// Reads the file, and says what of it a person should know.
    func request() throws(CommandFailure) -> CertificateImportRequest {
        let certificate: CertificateFile
        do throws(KeyFileError) {
            certificate = try CertificateFile(path: file)
        } catch {
            throw CommandFailure(error)
        }
        if let note = certificate.note { Console.error(note) }
        return CertificateImportRequest(
            certificate: Base64.encode(certificate.der), allowExpired: allowExpired)
    }
}
