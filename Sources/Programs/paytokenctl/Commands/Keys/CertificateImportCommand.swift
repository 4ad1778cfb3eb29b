import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import KeyFiles

struct CertificateImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Stores Apple's certificate with the key that it was issued for, and activates the key.",
        discussion: """
            The key is found by the certificate's public key. The file is X.509 in PEM or DER, as Apple's developer \
            portal gives it, or PKCS#7. Of several certificates in it the Payment Processing Certificate is used, or \
            the Merchant Identity Certificate if there is none; its issuer's signature is checked if the issuer is \
            among them.

              paytokenctl certificate import merchant.cer --dry-run
              paytokenctl certificate import merchant.cer
            """)

    @OptionGroup var certificate: CertificateArgument
    @OptionGroup var change: ChangeOptions

    func run() async throws {
        try await change.post(
            "/v1/certificates", certificate.request(), for: KeySummary.self,
            dryRunSays: "the certificate can be imported"
        ) { MerchantKeyTable.one($0).text }
    }
}

/// The certificate argument of a command.
struct CertificateArgument: ParsableArguments {
    @Argument(help: ArgumentHelp("Apple's certificate for the key.", valueName: "file"), completion: .file())
    var file: String

    @Flag(help: "Accepts a certificate that has expired.")
    var allowExpired = false

    /// Reads the file, and shows a person the relevant facts about it.
    func request() throws -> CertificateImportRequest {
        let certificate = try CertificateFile(path: file)
        if let note = certificate.note { Console.error(note) }
        return CertificateImportRequest(
            certificate: Base64.encode(certificate.der), allowExpired: allowExpired)
    }
}
