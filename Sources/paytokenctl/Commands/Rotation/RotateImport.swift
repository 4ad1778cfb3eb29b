import ArgumentParser
import DaemonAPI
import Foundation
import KeyFiles

struct RotateImport: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Takes Apple's certificate for the new key in; from then on both keys serve.",
        discussion: """
            X.509 in PEM or DER, as Apple's developer portal gives it, or PKCS#7. Refused is every certificate but a \
            Payment Processing Certificate of this merchant for the new key. When it is in, activate it in the portal.

              paytokenctl rotate import apple_pay.cer
            """)

    @Argument(help: ArgumentHelp("Apple's Payment Processing certificate.", valueName: "file"), completion: .file())
    var file: String

    @Flag(help: "Takes a certificate that has expired.")
    var allowExpired = false

    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    func run() async throws {
        let certificate: CertificateFile
        do throws(KeyFileError) {
            certificate = try CertificateFile(path: file)
        } catch {
            throw CommandFailure(error)
        }
        if let remark = certificate.remark { Console.error(remark) }
        let (answer, bytes) = try await socket.connection.post(
            dryRun.target("/v1/rotations/certificate"),
            CertificateImportRequest(
                certificate: Data(certificate.der).base64EncodedString(), allowExpired: allowExpired),
            for: RotationImportAnswer.self)
        switch format.output {
        case .json: try Console.output(json: bytes)
        case .table where dryRun.isDryRun: try Console.output(KeyTable.one(answer.key).text)
        case .table: try Console.output(RotationText.one(answer.rotation))
        }
        dryRun.report("the certificate can be imported")
    }
}
