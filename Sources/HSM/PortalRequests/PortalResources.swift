import SwiftASN1

/// The types of certificates that paytokend requests, as Apple names them. Apple's `APPLE_PAY_PSP_IDENTITY` is left out
/// by design, as are the certificates of apps.
public enum CertificateType: String, Sendable, CaseIterable {
    /// A certificate of a processing key on P-256, for EC_v1.
    case applePay = "APPLE_PAY"
    /// A certificate of an RSA-2048 processing key, for RSA_v1.
    case applePayRSA = "APPLE_PAY_RSA"
    /// A certificate of an RSA-2048 identity key.
    case merchantIdentity = "APPLE_PAY_MERCHANT_IDENTITY"
}

/// A certificate to be created.
public struct NewCertificate: Sendable, Equatable {
    public let type: CertificateType
    /// The certificate request, PKCS#10 (RFC 2986) in DER.
    public let csr: [UInt8]

    /// The largest certificate request in bytes. One for an RSA-2048 key has about 700.
    public static let maximumRequestBytes = 4096

    /// Returns nil unless `csr` has 1 to ``maximumRequestBytes`` bytes.
    public init?(type: CertificateType, csr: [UInt8]) {
        guard (1...Self.maximumRequestBytes).contains(csr.count) else { return nil }
        (self.type, self.csr) = (type, csr)
    }

    /// The certificate request in PEM (RFC 7468 §7).
    var pem: String { PEMDocument(type: "CERTIFICATE REQUEST", derBytes: csr).pemString + "\n" }
}

/// The id of a certificate's resource: 1 to 64 letters and digits. Apple does not document its form. It comes from an
/// answer and becomes a segment of a request's path, so no other text is accepted.
public struct CertificateId: Sendable, Hashable {
    public let text: String

    /// Returns nil for any other text.
    public init?(_ text: String) {
        guard (1...64).contains(text.utf8.count),
            text.utf8.allSatisfy({ PortalName.permits($0) && $0 != UInt8(ascii: ".") && $0 != UInt8(ascii: "-") })
        else { return nil }
        self.text = text
    }
}

/// The id of a merchant identifier's resource, in the form that Apple documents: 10 capital letters and digits. It comes from an
/// answer and becomes a segment of the next request's path, so no other text is accepted.
public struct ResourceId: Sendable, Equatable {
    public let text: String

    /// Returns nil for any other text.
    public init?(_ text: String) {
        guard text.utf8.count == 10,
            text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) })
        else { return nil }
        self.text = text
    }
}

/// A merchant identifier that can be part of a query and of JSON as it is: 1 to 255 letters, digits, full stops and
/// hyphens, not only full stops.
public struct PortalName: Sendable, Equatable, Hashable {
    public let text: String

    /// Returns nil for any other text.
    public init?(_ text: String) {
        guard (1...255).contains(text.utf8.count), text.utf8.allSatisfy(Self.permits),
            text.utf8.contains(where: { $0 != UInt8(ascii: ".") })
        else { return nil }
        self.text = text
    }

    static func permits(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
            true
        default: false
        }
    }
}
