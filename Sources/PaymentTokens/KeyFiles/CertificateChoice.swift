internal import Encodings
internal import Foundation
internal import SwiftASN1
internal import X509

/// The merchant's certificate, chosen among all certificates of a file, and its issuer's certificate.
struct CertificateChoice {
    let chosen: FoundCertificate
    /// All certificates of the file, each once.
    let all: [FoundCertificate]
    /// The issuer's certificate from the same file, with which the signature was checked.
    let issuer: FoundCertificate?

    /// - Parameters:
    ///   - certificates: DER, at least one.
    ///   - fits: Returns true for a certificate of the private key in the same file, and for every certificate if the
    ///     file has no key.
    init(
        among certificates: [[UInt8]], of path: String, where fits: ([UInt8]) -> Bool = { _ in true }
    ) throws(KeyFileError) {
        var all: [FoundCertificate] = []
        for der in certificates where !all.contains(where: { $0.der == der }) { all.append(FoundCertificate(der: der)) }
        self.all = all
        chosen = try Self.choose(among: all, candidates: all.filter { fits($0.der) }, path)
        issuer = try Self.issuer(of: chosen, among: all, path)
    }

    private static func choose(
        among all: [FoundCertificate], candidates: [FoundCertificate], _ path: String
    ) throws(KeyFileError) -> FoundCertificate {
        // A single candidate is chosen without a check of its role. If it is the wrong certificate, the daemon refuses
        // it with a more precise message.
        if let only = candidates.first, candidates.count == 1 {
            guard only.certificate != nil else {
                throw KeyFileError(
                    .unsuitable, path: path,
                    "begins like a certificate, but is not a whole and well-formed one. Download it again.")
            }
            return only
        }
        // If the file has certificates of both kinds, the one for payments is chosen. A file for an identity key
        // contains its certificate alone, or with its issuers.
        let processing = candidates.filter { $0.role == .paymentProcessing }
        let suitable = processing.isEmpty ? candidates.filter { $0.role == .merchantIdentity } : processing
        if let only = suitable.first, suitable.count == 1 { return only }
        let found = list(suitable.isEmpty ? all : suitable)
        throw suitable.isEmpty
            ? KeyFileError(
                .unsuitable, path: path,
                "holds \(all.count) certificates, but no merchant's certificate of Apple Pay among them: \(found)."
            )
            : KeyFileError(
                .unsuitable, path: path,
                "holds \(suitable.count) Apple Pay \(suitable[0].noun) Certificates: \(found). Import them one by one, "
                    + "each from its own file.")
    }

    /// The certificate that has the issuer's name and whose key verifies the signature. Checking the signature detects
    /// a chain that was assembled from two downloads, or was altered in transit.
    private static func issuer(
        of chosen: FoundCertificate, among all: [FoundCertificate], _ path: String
    ) throws(KeyFileError) -> FoundCertificate? {
        guard let certificate = chosen.certificate else { return nil }
        let named = all.filter { $0.der != chosen.der && $0.certificate?.subject == certificate.issuer }
        guard !named.isEmpty else { return nil }
        for candidate in named where candidate.role == .authority {
            if let issuer = candidate.certificate,
                issuer.publicKey.isValidSignature(certificate.signature, for: certificate)
            {
                return candidate
            }
        }
        throw KeyFileError(
            .unsuitable, path: path,
            "holds \(chosen.description) and its issuer, who did not sign it: \(list(named)). The certificate was "
                + "changed, or does not come from there. Download it again from Apple's developer portal.")
    }

    private static func list(_ certificates: [FoundCertificate]) -> String {
        let shown = certificates.prefix(5).map(\.description).joined(separator: "; ")
        return certificates.count > 5 ? "\(shown); and \(certificates.count - 5) more" : shown
    }

    /// A sentence that names the certificate taken from several; nil if there was no choice.
    var note: String? {
        guard all.count > 1 else { return nil }
        let word = issuer.map { ", signed by \($0.description)" } ?? "; its issuer is not in the file"
        return "took one of \(all.count) certificates: \(chosen.description)\(word)."
    }
}

/// One certificate of a file, with its role. The role is derived from the extensions in which Apple's certificates
/// differ. It is sufficient to choose one of several certificates; the daemon checks that the chosen one is suitable.
struct FoundCertificate {
    enum Role: Equatable {
        /// The certificate has Apple's merchant extension, and is neither an authority's nor a TLS client's.
        case paymentProcessing
        case merchantIdentity
        case authority
        case other
        /// The bytes begin like a certificate, but swift-certificates cannot parse them.
        case unreadable
    }

    let der: [UInt8]
    /// The parsed certificate; nil if it is unreadable.
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

    /// A description for messages, such as "NAME, serial 0A1B, until 2028-01-31", with the certificate's kind.
    /// Terminals show it, so control characters are replaced by "?".
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

    fileprivate var noun: String {
        switch role {
        case .paymentProcessing: "Payment Processing"
        case .merchantIdentity: "Merchant Identity"
        case .authority: "a certification authority"
        case .other, .unreadable: "not a merchant's"
        }
    }
}

extension ASN1ObjectIdentifier {
    /// Apple's extension with the SHA-256 of the merchant identifier.
    fileprivate static let merchantIdentifierHash: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 32]
}
