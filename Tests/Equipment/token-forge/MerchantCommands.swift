public import ArgumentParser
import Foundation
public import TokenForge

extension ForgedCertificateKind: ExpressibleByArgument {}

/// The types of a merchant's key, by the contract's names.
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
            into DIR. NAME is the merchant identifier unless --name is given. With --csr or --private-key, the \
            command makes no key.
            """)

    @Argument(help: ArgumentHelp("The authority's directory.", valueName: "DIR"))
    var directory: String

    @Option(help: ArgumentHelp("Such as merchant.com.example.shop.", valueName: "ID"))
    var merchantIdentifier: String

    @Option(help: "The key's type: ec (P-256, for EC_v1) or rsa (2048 bits, for RSA_v1).")
    var type: MerchantKeyType = .ec

    @Option(help: "payment-processing, or merchant-identity, which operators import by mistake.")
    var kind: ForgedCertificateKind = .paymentProcessing

    @Option(help: ArgumentHelp("The name of the files.", valueName: "NAME"))
    var name: String?

    @Option(help: ArgumentHelp("Certify the key of this PKCS#10 request, PEM or DER.", valueName: "FILE"))
    var csr: String?

    @Option(help: ArgumentHelp("Certify this private key (PEM) instead of a new one.", valueName: "FILE"))
    var privateKey: String?

    @Flag(help: "Make a certificate that expired yesterday.")
    var expired = false

    @Option(help: ArgumentHelp("Make a certificate that ends in this number of days, at least 1.", valueName: "DAYS"))
    var daysLeft: Int?

    @Flag(help: "Omit the merchant identifier in the subject and in the extension.")
    var withoutMerchantIdentifier = false

    @Option(help: ArgumentHelp("The merchant identifier in the extension, if it must differ.", valueName: "ID"))
    var extensionMerchantIdentifier: String?

    func validate() throws {
        if expired, daysLeft != nil { throw ValidationError("give --expired or --days-left, not both") }
        if let daysLeft, !(1...10_000).contains(daysLeft) { throw ValidationError("--days-left takes 1 to 10000") }
        if csr != nil, privateKey != nil { throw ValidationError("give --csr or --private-key, not both") }
    }

    func run() throws {
        let url = URL(filePath: directory)
        let authority = try ForgeAuthority(directory: url)
        var profile = MerchantCertificateProfile(
            merchantIdentifier: merchantIdentifier, kind: kind, expired: expired)
        if let daysLeft { profile.notAfter = Date(timeIntervalSinceNow: TimeInterval(daysLeft) * 86_400) }
        profile.omitsUserID = withoutMerchantIdentifier
        profile.omitsExtension = withoutMerchantIdentifier
        profile.extensionMerchantIdentifier = extensionMerchantIdentifier
        let prefix = name ?? merchantIdentifier
        if let csr {
            let der = try ForgePEM.file(csr, label: "CERTIFICATE REQUEST", "PKCS#10 request")
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

struct CertifyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "certify",
        abstract: "Certifies a PKCS#10 request, as Apple's developer portal does.",
        discussion: """
            The command verifies the request's signature, and ignores the requested subject. The merchant is the one \
            that is named here, as a user chooses it in the portal. The certificate is written in DER, PEM or PKCS#7, \
            which the ending of the file's name decides.

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
            "The output: .pem for PEM, .p7b for PKCS#7 with the issuer, other names for DER.", valueName: "FILE"))
    var out: String

    @Option(help: "payment-processing, or merchant-identity, which operators import by mistake.")
    var kind: ForgedCertificateKind = .paymentProcessing

    @Flag(help: "Make a certificate that expired yesterday.")
    var expired = false

    func run() throws {
        let authority = try ForgeAuthority(directory: URL(filePath: directory))
        let request = try ForgePEM.file(csr, label: "CERTIFICATE REQUEST", "PKCS#10 request")
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
