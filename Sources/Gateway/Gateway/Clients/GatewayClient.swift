import ConfigurationFile
import Foundation
import Payments

/// What a client may be allowed to do.
enum ClientOperation: String, CaseIterable, Sendable {
    case pay, status, session
    /// Gets tokens' decrypted data; only for clients that are known by a certificate.
    case decrypt
}

/// A member of a payment's `expected` without which this client cannot pay.
enum RequiredExpectation: String, CaseIterable, Sendable {
    case amount, currency

    static let standard: Set<RequiredExpectation> = [.amount, .currency]
}

/// A merchant's backend that the configuration's `clients` names.
struct GatewayClient: Sendable, Equatable {
    let name: String
    /// By any of them; several while a key or a certificate is changed.
    let credentials: [ClientCredential]
    let operations: Set<ClientOperation>
    /// Patterns in which `*` stands for any characters.
    let merchants: [MerchantPattern]
    /// Names of hosts in lower case; `*.` at the beginning stands for one or more labels.
    let domains: [String]
    /// What `expected` must state in each payment.
    var requiredExpectations: Set<RequiredExpectation> = RequiredExpectation.standard
    /// What was submitted under this name before belongs to a former client of the name.
    var since: Date?

    /// Returns true if a TLS client certificate proves who the client is.
    var usesCertificate: Bool { credentials.contains(where: \.usesCertificate) }

    /// Returns true if a payment of this name is this client's, and no former client's of the name.
    func owns(_ payment: Payment) -> Bool {
        payment.key.client == name && since.map { payment.receivedAt >= $0 } ?? true
    }

    func has(_ operation: ClientOperation) -> Bool { operations.contains(operation) }

    /// Whether this client acts for this merchant.
    func allows(merchant identifier: String) -> Bool {
        merchants.contains { $0.matches(identifier) }
    }

    /// Whether this client shows payment pages on this domain: one of its names exactly, in either case, or any name below one
    /// that begins with `*.`.
    func allows(domain: String) -> Bool {
        let domain = domain.lowercased()
        return domains.contains { pattern in
            guard pattern.hasPrefix("*.") else { return pattern == domain }
            let suffix = pattern.dropFirst()
            return domain.utf8.count > suffix.utf8.count && domain.hasSuffix(suffix)
        }
    }
}

/// What a client proves itself by.
enum ClientCredential: Sendable, Hashable {
    /// SHA-256 (32 bytes) of a bearer key (RFC 6750 §2.1), over all of the key's characters.
    case bearerKey(sha256: [UInt8])
    /// SHA-256 (32 bytes) of the DER of the TLS client certificate, which need not be anybody's but the client's own.
    case certificate(sha256: [UInt8])
    /// A subjectAltName of a TLS client certificate that `listener.tls.client_ca` issued.
    case certificateName(CertificateName)

    var usesCertificate: Bool {
        if case .bearerKey = self { false } else { true }
    }

    /// For people; gives nothing of a key away.
    var kind: String {
        switch self {
        case .bearerKey: "bearer_key"
        case .certificate: "certificate"
        case .certificateName: "certificate_san"
        }
    }
}

/// A subjectAltName by its kind (RFC 5280 §4.2.1.6): an authority that may write any URI into a certificate cannot write a host's name with
/// it.
enum CertificateName: Sendable, Hashable {
    /// In lower case.
    case dns(String)
    /// As it is written.
    case uri(String)

    /// The name that a configuration has. A URI has a scheme (RFC 3986 §3.1), and no DNS name has a colon.
    init(_ text: String) {
        self = text.contains(":") ? .uri(text) : .dns(text.lowercased())
    }
}
