import ArgumentParser
import DaemonAPI

struct RotateImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Takes Apple's certificate for the new key in; from then on both keys serve.",
        discussion: """
            X.509 in PEM or DER, as Apple's developer portal gives it, or PKCS#7. Refused is every certificate but a \
            Payment Processing Certificate of this merchant for the new key. When it is in, activate it in the portal.

              paytokenctl rotate import apple_pay.cer
            """)

    @OptionGroup var certificate: CertificateArgument
    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let (answer, bytes) = try await socket.connection.post(
            dryRun.target("/v1/rotations/certificate"), certificate.request(), for: RotationImportAnswer.self)
        switch format.output {
        case .json: try Console.output(json: bytes)
        case .table where dryRun.isDryRun: try Console.output(MerchantKeyTable.one(answer.key).text)
        case .table: try Console.output(RotationText.one(answer.rotation))
        }
        dryRun.report("the certificate can be imported")
    }
}
