import ConfigurationFile
import Foundation
import Payments

/// The operations that a client's entry may permit.
enum ClientOperation: String, CaseIterable, Sendable {
    case pay, status, session
    /// Returns the decrypted data of payment tokens; permitted only for clients with a certificate.
    case decrypt
}

/// A member of a payment's `expected` that this client must state in order to pay.
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
    /// Patterns in which `*` matches any characters.
    let merchants: [MerchantPattern]
    /// Host names in lower case; `*.` at the beginning matches one or more labels.
    let domains: [String]
    /// The members of `expected` that each payment must state.
    var requiredExpectations: Set<RequiredExpectation> = RequiredExpectation.standard
    /// The time before which payments under this name belong to a former client of the name.
    var since: Date?

    /// Returns true if a TLS client certificate identifies the client.
    var usesCertificate: Bool { credentials.contains(where: \.usesCertificate) }

    /// Returns true if a payment under this name belongs to this client, and not to a former client of the name.
    func owns(_ payment: Payment) -> Bool {
        payment.key.client == name && since.map { payment.receivedAt >= $0 } ?? true
    }

    func has(_ operation: ClientOperation) -> Bool { operations.contains(operation) }

    /// Returns true if this client acts for this merchant.
    func allows(merchant identifier: String) -> Bool {
        merchants.contains { $0.matches(identifier) }
    }

    /// Returns true if this client shows payment pages on this domain. The domain must be one of the client's names,
    /// ignoring case, or below one that begins with `*.`.
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

/// A subjectAltName with its kind (RFC 5280 §4.2.1.6). Because the kind is compared, an authority that may issue
/// arbitrary URIs cannot use them to forge a host name.
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
