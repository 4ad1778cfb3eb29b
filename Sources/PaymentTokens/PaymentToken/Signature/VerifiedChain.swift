internal import Crypto
internal import Encodings
public import Foundation
internal import SwiftASN1
public import X509

/// A chain that a `TrustPolicy` accepted for a payment token's signing time: leaf, intermediate, root.
public struct VerifiedChain: Sendable, Equatable {
    public let leaf: CertificateDescription
    public let intermediate: CertificateDescription
    public let root: CertificateDescription

    /// Leaf, intermediate, root: the order of answers.
    public var certificates: [CertificateDescription] { [leaf, intermediate, root] }
}

/// A certificate as answers and audit records show it.
public struct CertificateDescription: Sendable, Equatable {
    /// RFC 4514.
    public let subject: String
    /// RFC 4514.
    public let issuer: String
    /// Lower-case hexadecimal, two digits a byte.
    public let serialNumber: String
    public let notBefore: Date
    public let notAfter: Date
    /// SHA-256 of the DER, 32 bytes.
    public let sha256: [UInt8]

    init(
        subject: String, issuer: String, serialNumber: String, notBefore: Date, notAfter: Date, sha256: [UInt8]
    ) {
        self.subject = subject
        self.issuer = issuer
        self.serialNumber = serialNumber
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.sha256 = sha256
    }

    /// - Parameter der: the bytes that `certificate` was read from.
    public init(_ certificate: Certificate, der: [UInt8]) {
        subject = certificate.subject.description
        issuer = certificate.issuer.description
        serialNumber = Hexadecimal.encode(certificate.serialNumber.bytes)
        notBefore = certificate.notValidBefore
        notAfter = certificate.notValidAfter
        sha256 = Array(SHA256.hash(data: der))
    }
}

extension CertificateDescription {
    /// The fingerprint in lower-case hexadecimal, 64 characters.
    public var sha256Hex: String { Hexadecimal.encode(sha256) }

    /// - Throws: where the certificate cannot be written as DER.
    public init(_ certificate: Certificate) throws {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        self.init(certificate, der: serializer.serializedBytes)
    }

    /// Whether `time` lies within the validity, both ends included (RFC 5280 §4.1.2.5).
    func isValid(at time: Date) -> Bool {
        notBefore <= time && time <= notAfter
    }
}
