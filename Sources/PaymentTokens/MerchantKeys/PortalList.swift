public import Foundation
import KeyTypes

/// The certificates of one merchant identifier, as Apple's App Store Connect API listed them.
public struct PortalList: Sendable, Equatable {
    /// One certificate in Apple's list.
    public struct Entry: Sendable, Equatable {
        /// The id of Apple's resource.
        public let identifier: String
        /// Apple's `certificateType`, such as `APPLE_PAY`.
        public let type: String
        /// Apple's `activated`: true if wallets use the certificate.
        public let isActivated: Bool
        /// The certificate; nil if it cannot be read as one of Apple's merchant certificates.
        public let certificate: MerchantCertificate?

        /// - Parameter content: the certificate in DER.
        public init(identifier: String, type: String, isActivated: Bool, content: [UInt8]) {
            self.identifier = identifier
            self.type = type
            self.isActivated = isActivated
            certificate = try? MerchantCertificate(der: content)
        }
    }

    /// The id of the merchant identifier's resource at Apple; nil if the team has no such merchant identifier.
    public let appleId: String?
    public let entries: [Entry]
    public let readAt: Date

    public init(appleId: String?, entries: [Entry], readAt: Date) {
        (self.appleId, self.entries, self.readAt) = (appleId, entries, readAt)
    }
}

extension PortalList.Entry {
    /// The use of the certificate's key, by Apple's type; nil for a type that is not a merchant's.
    var use: KeyUse? {
        switch type {
        case "APPLE_PAY", "APPLE_PAY_RSA": .processing
        case "APPLE_PAY_MERCHANT_IDENTITY": .identity
        default: nil
        }
    }

    /// The algorithm of the certificate's key, by Apple's type; nil for a type that is not a merchant's.
    var algorithm: KeyAlgorithm? {
        switch type {
        case "APPLE_PAY": .ec
        case "APPLE_PAY_RSA", "APPLE_PAY_MERCHANT_IDENTITY": .rsa
        default: nil
        }
    }

    /// True if the certificate is what Apple's type says: its purpose, its key's algorithm, and its merchant.
    func fits(_ merchant: String) -> Bool {
        guard let certificate, let use, let algorithm else { return false }
        return certificate.purpose.use == use && certificate.algorithm == algorithm && certificate.names(merchant)
    }
}
