internal import Encodings
internal import Foundation
internal import SwiftASN1
internal import X509

/// One of a file's certificates, with its role told from the extensions in which Apple's certificates differ. That is
/// enough to choose one of several; whether the chosen one is suitable is checked by the daemon.
struct FoundCertificate {
    enum Role: Equatable {
        /// Apple's merchant extension, no authority, no TLS client.
        case paymentProcessing
        case merchantIdentity
        case authority
        case other
        /// Begins like a certificate, and is none that swift-certificates reads.
        case unreadable
    }

    let der: [UInt8]
    /// Nil when it is unreadable.
    let certificate: Certificate?
    let role: Role

    init(der: [UInt8]) {
        self.der = der
        certificate = try? Certificate(derEncoded: der)
        role = certificate.map(Self.role) ?? .unreadable
    }

    private static func role(of certificate: Certificate) -> Role {
        let extensions = certificate.extensions
        if case .isCertificateAuthority = try? extensions.basicConstraints { return .authority }
        let isForTLS = (try? extensions.extendedKeyUsage).map { $0.contains(.clientAuth) } ?? false
        if isForTLS || commonName(of: certificate).hasPrefix("Apple Pay Merchant Identity") { return .merchantIdentity }
        return extensions[oid: .merchantIdentifierHash] == nil ? .other : .paymentProcessing
    }

    private static func commonName(of certificate: Certificate) -> String {
        certificate.subject.flatMap { Array($0) }.first { $0.type == .RDNAttributeType.commonName }
            .flatMap { String($0.value) } ?? ""
    }

    /// "NAME, serial 0A1B, until 2028-01-31" with what it is: for people, so without what a terminal would obey.
    var description: String {
        guard let certificate else { return "an unreadable certificate" }
        let name = Self.commonName(of: certificate)
        let readable = String(
            String.UnicodeScalarView(
                (name.isEmpty ? "\(certificate.subject)" : name).unicodeScalars
                    .map { $0.properties.generalCategory == .control || $0.properties.isBidiControl ? "?" : $0 }
                    .prefix(100)))
        let serial = Hexadecimal.encode(certificate.serialNumber.bytes.prefix(20))
        let end = certificate.notValidAfter.formatted(.iso8601.year().month().day())
        return "\(readable) (\(noun), serial \(serial), until \(end))"
    }

    private var noun: String {
        switch role {
        case .paymentProcessing: "Payment Processing"
        case .merchantIdentity: "Merchant Identity, which decrypts nothing"
        case .authority: "a certification authority"
        case .other, .unreadable: "no merchant's"
        }
    }
}

extension ASN1ObjectIdentifier {
    /// Apple's extension with the SHA-256 of the merchant identifier.
    fileprivate static let merchantIdentifierHash: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 32]
}
