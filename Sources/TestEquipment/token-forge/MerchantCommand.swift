public import ArgumentParser
import Foundation
public import TokenForge

extension ForgedCertificateKind: ExpressibleByArgument {}

/// The kinds of a merchant's key, by the contract's names.
enum MerchantKeyType: String, ExpressibleByArgument, CaseIterable {
    case ec, rsa
    var keyType: ForgeKeyType { self == .ec ? .p256 : .rsa2048 }
}

struct MerchantCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merchant",
        abstract: "Makes a merchant's key and certificate, or certifies a request.",
        discussion: """
            Writes NAME.key.pem and NAME.key.der (PKCS#8, mode 0600) and NAME.pem and NAME.der (the certificate) \
            into DIR, where NAME is the merchant identifier unless --name is given. With --csr or --private-key no \
            key is made.
            """)

    @Argument(help: ArgumentHelp("The authority's directory.", valueName: "DIR"))
    var directory: String

    @Option(help: ArgumentHelp("Such as merchant.com.example.shop.", valueName: "ID"))
    var merchantIdentifier: String

    @Option(help: "The key's type: ec (P-256, for EC_v1) or rsa (2048 bits, for RSA_v1).")
    var type: MerchantKeyType = .ec

    @Option(help: "payment-processing, or merchant-identity: the wrong one, as people import it.")
    var kind: ForgedCertificateKind = .paymentProcessing

    @Option(help: ArgumentHelp("The files' name.", valueName: "NAME"))
    var name: String?

    @Option(help: ArgumentHelp("Certify the key of this PKCS#10 request, PEM or DER.", valueName: "FILE"))
    var csr: String?

    @Option(help: ArgumentHelp("Certify this private key (PEM) instead of a new one.", valueName: "FILE"))
    var privateKey: String?

    @Flag(help: "A certificate that expired yesterday.")
    var expired = false

    @Flag(help: "A certificate without the merchant identifier, in the subject and in the extension.")
    var withoutMerchantIdentifier = false

    @Option(help: ArgumentHelp("Another merchant identifier for the extension than for the subject.", valueName: "ID"))
    var extensionMerchantIdentifier: String?

    func validate() throws {
        if csr != nil, privateKey != nil { throw ValidationError("give --csr or --private-key, not both") }
    }

    func run() throws {
        let url = URL(filePath: directory)
        let authority = try ForgeAuthority(directory: url)
        var profile = MerchantCertificateProfile(
            merchantIdentifier: merchantIdentifier, kind: kind, expired: expired)
        profile.omitsUserID = withoutMerchantIdentifier
        profile.omitsExtension = withoutMerchantIdentifier
        profile.extensionMerchantIdentifier = extensionMerchantIdentifier
        let prefix = name ?? merchantIdentifier
        if let csr {
            guard let der = ForgePEM.bytes(of: try Data(contentsOf: URL(filePath: csr)), label: "CERTIFICATE REQUEST")
            else { throw ForgeFailure.file(path: csr, reason: "holds no PKCS#10 request in PEM or DER") }
            let certificate = try authority.merchantCertificate(certificateSigningRequest: der, profile: profile)
            try Data(certificate).write(to: url.appending(path: "\(prefix).der"))
            try Data(ForgePEM.text(certificate, label: "CERTIFICATE").utf8).write(
                to: url.appending(path: "\(prefix).pem"))
        } else {
            let key = try privateKey.map { try ForgeKey(pem: String(contentsOfFile: $0, encoding: .utf8)) }
            try ForgedMerchant(authority: authority, type: type.keyType, profile: profile, key: key)
                .write(to: url, prefix: prefix)
        }
        print("made \(directory)/\(prefix).pem")
    }
}
