import ArgumentParser
import Foundation
import TokenForge

struct CertifyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "certify",
        abstract: "Certifies a PKCS#10 request, as Apple's developer portal does.",
        discussion: """
            The request's signature is checked; the subject that it asks for is ignored: the merchant is the one that \
            is named here, as it is chosen in the portal. The certificate is written in DER, or in PEM or PKCS#7 when \
            the file's name ends so.

              token-forge certify forge --csr request.pem --merchant-identifier merchant.com.example --out merchant.cer
            """)

    @Argument(help: ArgumentHelp("The authority's directory.", valueName: "DIR"))
    var directory: String

    @Option(help: ArgumentHelp("The PKCS#10 request, PEM or DER.", valueName: "FILE"))
    var csr: String

    @Option(help: ArgumentHelp("Such as merchant.com.example.shop.", valueName: "ID"))
    var merchantIdentifier: String

    @Option(
        help: ArgumentHelp(
            "Where to: .pem for PEM, .p7b for PKCS#7 with the issuer, anything else for DER.", valueName: "FILE"))
    var out: String

    @Option(help: "payment-processing, or merchant-identity: the wrong one, as people import it.")
    var kind: ForgedCertificateKind = .paymentProcessing

    @Flag(help: "A certificate that expired yesterday.")
    var expired = false

    func run() throws {
        let authority = try ForgeAuthority(directory: URL(filePath: directory))
        guard let request = ForgePEM.bytes(of: try Data(contentsOf: URL(filePath: csr)), label: "CERTIFICATE REQUEST")
        else { throw ForgeFailure.file(path: csr, reason: "holds no PKCS#10 request in PEM or DER") }
        let profile = MerchantCertificateProfile(merchantIdentifier: merchantIdentifier, kind: kind, expired: expired)
        let certificate = try authority.merchantCertificate(certificateSigningRequest: request, profile: profile)
        let bytes =
            if out.hasSuffix(".pem") {
                Data(ForgePEM.text(certificate, label: "CERTIFICATE").utf8)
            } else if out.hasSuffix(".p7b") {
                Data(ForgedCertificateBundle.pkcs7([certificate, authority.developerRelations.certificate]))
            } else {
                Data(certificate)
            }
        try bytes.write(to: URL(filePath: out))
        print("made \(out)")
    }
}
