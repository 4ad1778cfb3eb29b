import Foundation
import ServerProgram

/// Every client of the configuration, by what it proves itself with.
struct ClientDirectory: Sendable {
    let clients: [GatewayClient]
    /// Changes with each reload: what was verified under another one's certificate authorities counts no more.
    let generation: Int

    init(_ clients: [GatewayClient], generation: Int = 0) {
        self.clients = clients
        self.generation = generation
    }

    /// Who sent a request. A bearer key alone decides where there is one: a backend that sends a wrong key learns it, whatever
    /// certificate its connection has.
    func client(for authorization: Authorization, certificate: PresentedCertificate?, at time: Date) -> GatewayClient? {
        switch authorization {
        case .bearer(let sha256): client(bearerKey: sha256)
        case .unusable: nil
        case .absent: certificate.flatMap { client(certificate: $0, at: time) }
        }
    }

    /// Compares with every client's hashes, all 32 bytes of each, so that the time taken says nothing about how much of a guess
    /// was right, or whose it was.
    private func client(bearerKey sha256: [UInt8]) -> GatewayClient? {
        var found = -1
        for (index, client) in clients.enumerated() {
            for case .bearerKey(let known) in client.credentials {
                let difference = zip(known, sha256).reduce(UInt8(known.count == sha256.count ? 0 : 1)) {
                    $0 | ($1.0 ^ $1.1)
                }
                // All ones where every byte is the same, else zero: selects without a branch.
                let isSame = (Int(difference) - 1) >> (Int.bitWidth - 1)
                found = (index & isSame) | (found & ~isSame)
            }
        }
        return found < 0 ? nil : clients[found]
    }

    private func client(certificate: PresentedCertificate, at time: Date) -> GatewayClient? {
        guard certificate.isValid(at: time) else { return nil }
        let issued = certificate.isVerified(under: generation)
        return clients.first { client in
            client.credentials.contains { credential in
                switch credential {
                case .bearerKey: false
                case .certificate(let sha256): sha256 == certificate.sha256
                case .certificateName(let name): issued && certificate.names.contains(name)
                }
            }
        }
    }

    /// Whether the server asks for a client certificate in its handshakes.
    var usesCertificates: Bool { clients.contains(where: \.usesCertificate) }
}

/// The clients in force. An open connection is checked again at its next request.
typealias CurrentClients = Current<ClientDirectory>
