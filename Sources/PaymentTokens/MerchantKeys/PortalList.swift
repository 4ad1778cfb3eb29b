public import Foundation
import KeyTypes
public import PaymentToken
import PortalRequests

/// The certificates of one merchant identifier, as Apple's App Store Connect API listed them.
public struct PortalList: Sendable, Equatable {
    /// One certificate in Apple's list. It keeps what a comparison needs.
    public struct Entry: Sendable, Equatable {
        /// The id of Apple's resource.
        public let identifier: String
        /// Apple's `certificateType`, such as `APPLE_PAY`.
        public let type: String
        /// Apple's `activated`: true if wallets use the certificate; nil if Apple does not say.
        public let isActivated: Bool?
        /// The hash of the certificate's key; nil if the content is not one of Apple's merchant certificates.
        public let publicKeyHash: PublicKeyHash?
        /// SHA-256 of the certificate in DER, 32 bytes; nil like ``publicKeyHash``.
        public let sha256: [UInt8]?
        public let notAfter: Date?
        /// The certificate in DER, which is kept only for a key that is being renewed.
        public var content: [UInt8]?
        /// True if the certificate is what Apple's type says: its purpose, its key's algorithm, and its merchant.
        let isOfItsType: Bool

        /// - Parameters:
        ///   - merchant: the merchant identifier that the list is of, with or without `merchant.`.
        ///   - content: the certificate in DER.
        public init(identifier: String, type: String, isActivated: Bool?, of merchant: String, content: [UInt8]) {
            self.identifier = identifier
            self.type = type
            self.isActivated = isActivated
            let certificate = try? MerchantCertificate(der: content)
            publicKeyHash = certificate?.publicKeyHash
            sha256 = certificate?.sha256
            notAfter = certificate?.notAfter
            isOfItsType =
                certificate.map { certificate in
                    let known = CertificateType(rawValue: type)
                    return certificate.purpose.use == known?.use && certificate.algorithm == known?.algorithm
                        && (certificate.merchantIdentifier.map { MerchantIdentifier.areSame($0, merchant) }
                            ?? MerchantIdentifier.forms(of: merchant).contains(where: certificate.names))
                } ?? false
        }
    }

    /// The id of the merchant identifier's resource at Apple; nil if the team has no such merchant identifier.
    public let appleId: String?
    public let entries: [Entry]
    public let readAt: Date

    public init(appleId: String?, entries: [Entry], readAt: Date) {
        (self.appleId, self.entries, self.readAt) = (appleId, entries, readAt)
    }

    /// The memory that the list needs, in bytes, at most.
    public var byteCount: Int {
        entries.reduce(256) { $0 + 256 + $1.identifier.utf8.count + $1.type.utf8.count + ($1.content?.count ?? 0) }
    }
}

extension PortalList.Entry {
    /// The use of the certificate's key, by Apple's type; nil for a type that is not a merchant's.
    var use: KeyUse? { CertificateType(rawValue: type)?.use }
}

extension MerchantIdentifier {
    private static let prefix = "merchant."

    /// The identifier without `merchant.` at its beginning. Apple does not document in which form its API shows
    /// identifiers, so both forms are the same merchant.
    public static func short(_ identifier: String) -> Substring {
        identifier.hasPrefix(prefix) ? identifier.dropFirst(prefix.count) : identifier[...]
    }

    /// Returns true if the identifiers are the same, apart from `merchant.` at their beginning.
    public static func areSame(_ one: String, _ other: String) -> Bool { short(one) == short(other) }

    static func forms(of identifier: String) -> [String] {
        [String(short(identifier)), prefix + short(identifier)]
    }
}
