public import KeyTypes
import SwiftASN1
import X509

/// A certificate's purpose, derived from several of its properties. Importing the wrong one of Apple's two merchant
/// certificates is the most common mistake.
public enum CertificatePurpose: Sendable, Equatable {
    /// Apple Pay Payment Processing Certificate: its key decrypts payment tokens.
    case paymentProcessing
    /// Apple Pay Merchant Identity Certificate: a TLS client certificate for payment sessions on the web.
    case merchantIdentity
    /// Anything else, as a noun phrase: "a TLS server certificate".
    case other(String)

    public var noun: String {
        switch self {
        case .paymentProcessing: "an Apple Pay Payment Processing Certificate"
        case .merchantIdentity:
            "an Apple Pay Merchant Identity Certificate, which authenticates a web shop to Apple and decrypts nothing"
        case .other(let noun): noun
        }
    }

    /// The use of the certificate's key; nil for any other certificate.
    public var use: KeyUse? {
        switch self {
        case .paymentProcessing: .processing
        case .merchantIdentity: .identity
        case .other: nil
        }
    }

    init(of certificate: Certificate) {
        let signs = Signs(of: certificate)
        self =
            if signs.isAuthority {
                .other("the certificate of a certification authority")
            } else if signs.has(.paymentTokenSigner) {
                .other("a certificate with which Apple signs payment tokens")
            } else if signs.has(.pushDevelopment) || signs.has(.pushProduction) || signs.isNamed("Apple Push") {
                .other("an Apple Push Notification certificate")
            } else if signs.isNamed("Pass Type ID") {
                .other("a Pass Type ID certificate, which signs passes")
            } else if signs.isNamed("Apple Pay Merchant Identity") {
                .merchantIdentity
            } else if signs.usages.contains(.serverAuth) {
                .other("a TLS server certificate")
            } else if signs.usages.contains(.clientAuth) {
                // Both kinds of merchant certificates have Apple's merchant extension, but only a Merchant Identity
                // Certificate is for TLS clients.
                signs.has(.merchantIdentifierHash) ? .merchantIdentity : .other("a TLS client certificate")
            } else if signs.usages.contains(.codeSigning) {
                .other("a code signing certificate")
            } else if !signs.has(.merchantIdentifierHash) {
                .other("a certificate without Apple's merchant identifier extension (1.2.840.113635.100.6.32)")
            } else if !signs.permitsDecryption {
                .other("a certificate whose key usage permits neither key agreement nor key encipherment")
            } else {
                .paymentProcessing
            }
    }

    private struct Signs {
        let isAuthority: Bool
        let usages: [ExtendedKeyUsage.Usage]
        /// Payment Processing Certificates have keyEncipherment and keyAgreement. A certificate without the key usage
        /// extension does not restrict the key (RFC 5280 §4.2.1.3).
        let permitsDecryption: Bool
        private let commonNames: [String]
        private let extensions: Certificate.Extensions

        init(of certificate: Certificate) {
            let keyUsage = try? certificate.extensions.keyUsage
            if case .isCertificateAuthority = try? certificate.extensions.basicConstraints {
                isAuthority = true
            } else {
                isAuthority = keyUsage?.keyCertSign ?? false
            }
            usages = (try? certificate.extensions.extendedKeyUsage).map { Array($0) } ?? []
            permitsDecryption = keyUsage.map { $0.keyAgreement || $0.keyEncipherment } ?? true
            commonNames = certificate.subject.flatMap { Array($0) }
                .filter { $0.type == .RDNAttributeType.commonName }.compactMap { String($0.value) }
            extensions = certificate.extensions
        }

        func has(_ identifier: ASN1ObjectIdentifier) -> Bool { extensions[oid: identifier] != nil }

        func isNamed(_ prefix: String) -> Bool { commonNames.contains { $0.hasPrefix(prefix) } }
    }
}
