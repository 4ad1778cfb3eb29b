import ArgumentParser
import DaemonAPI

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
