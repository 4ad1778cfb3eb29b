import AccessControl
import ConfigurationFile
import Foundation
import KeyTypes
import Payments

/// The operations that a client's entry may permit.
enum ClientOperation: String, CaseIterable, Sendable {
    case pay, status, session
    /// Returns the decrypted data of payment tokens; permitted only for clients with a certificate.
    case decrypt
}

/// A member of a payment's `expected` that a client's entry in the configuration can require.
enum RequiredExpectation: String, CaseIterable, Sendable {
    case amount, currency

    static let standard: Set<RequiredExpectation> = [.amount, .currency]
}

/// A merchant's backend, listed under `clients` in the configuration.
struct GatewayClient: Sendable, Equatable {
    let name: String
    /// The credentials, each of which identifies the client. There are several during a change of key or certificate.
    let credentials: [ClientCredential]
    let operations: Set<ClientOperation>
    /// The patterns of Apple's merchant identifiers for which the client may act; `*` matches any characters.
    let merchants: [MerchantPattern]
    /// The domains for which the client may request merchant sessions: host names in lower case. `*.` at the beginning
    /// matches one or more labels.
    let domains: [String]
    /// The members of `expected` that each payment must state.
    var requiredExpectations: Set<RequiredExpectation> = RequiredExpectation.standard
    /// The merchants at Google for which the client may pay; nil if it may not use Google Pay.
    var googlePay: GooglePayAccess?
    /// The time from which payments under ``name`` belong to this client. Earlier payments belong to a former client
    /// with the same name; nil if there was no such client.
    var since: Date?

    /// Returns true if a TLS client certificate identifies the client.
    var usesCertificate: Bool { credentials.contains(where: \.usesCertificate) }

    /// Returns true if a payment belongs to this client, and not to another one or to a former client with the same
    /// name.
    func owns(_ payment: Payment) -> Bool {
        payment.key.client == name && since.map { payment.receivedAt >= $0 } ?? true
    }

    func has(_ operation: ClientOperation) -> Bool { operations.contains(operation) }

    /// Returns true if this client may act for any merchant of the wallet.
    func mayUse(_ wallet: Wallet) -> Bool { wallet == .applePay ? !merchants.isEmpty : googlePay != nil }

    /// Returns true if this client may act for this merchant of the wallet.
    func allows(merchant identifier: String, of wallet: Wallet = .applePay) -> Bool {
        switch wallet {
        case .applePay: merchants.contains { $0.matches(identifier) }
        case .googlePay: googlePay?.allows(merchant: identifier) ?? false
        }
    }

    /// Returns true if ``domains`` contains the domain, ignoring case, or a name with `*.` that matches it.
    func allows(domain: String) -> Bool {
        let domain = domain.lowercased()
        return domains.contains { pattern in
            guard pattern.hasPrefix("*.") else { return pattern == domain }
            let suffix = pattern.dropFirst()
            return domain.utf8.count > suffix.utf8.count && domain.hasSuffix(suffix)
        }
    }
}

/// A credential that identifies a client.
enum ClientCredential: Sendable, Hashable {
    /// SHA-256 (32 bytes) of a bearer key (RFC 6750 §2.1), over all of the key's characters.
    case bearerKey(sha256: [UInt8])
    /// SHA-256 (32 bytes) of the DER of the TLS client certificate, which any issuer may have signed.
    case certificate(sha256: [UInt8])
    /// A subjectAltName of a TLS client certificate that `listener.tls.client_ca` issued.
    case certificateName(CertificateName)

    var usesCertificate: Bool {
        if case .bearerKey = self { false } else { true }
    }

    /// The kind of credential, for display; it reveals no part of a key.
    var kind: String {
        switch self {
        case .bearerKey: "bearer_key"
        case .certificate: "certificate"
        case .certificateName: "certificate_san"
        }
    }
}

/// A subjectAltName with its kind (RFC 5280 §4.2.1.6). Names of different kinds never match. Otherwise an authority
/// that may issue arbitrary URIs could write another client's host name as a URI.
enum CertificateName: Sendable, Hashable {
    /// A DNS name in lower case.
    case dns(String)
    /// A URI as written.
    case uri(String)

    /// Parses a name from the configuration. A URI has a scheme (RFC 3986 §3.1), and no DNS name has a colon.
    init(_ text: String) {
        self = text.contains(":") ? .uri(text) : .dns(text.lowercased())
    }
}
