import Foundation
import ServerProgram

/// All clients in the configuration, looked up by their credentials.
struct ClientDirectory: Sendable {
    let clients: [GatewayClient]
    /// The number of this list of clients, which increases with each reload. A name in a certificate identifies a
    /// client only if the authorities of the same generation verified the certificate.
    let generation: Int

    init(_ clients: [GatewayClient], generation: Int = 0) {
        self.clients = clients
        self.generation = generation
    }

    /// Returns the client that sent a request; nil if no client has its credentials. If the request has a bearer key,
    /// the connection's certificate is ignored. Otherwise the certificate would identify a backend that sends a wrong
    /// key, and the backend's operator would not notice the fault.
    func client(for authorization: Authorization, certificate: PresentedCertificate?, at time: Date) -> GatewayClient? {
        switch authorization {
        case .bearer(let sha256): client(bearerKey: sha256)
        case .unusable: nil
        case .absent: certificate.flatMap { client(certificate: $0, at: time) }
        }
    }

    /// Returns the client whose key has this hash. Always compares all 32 bytes of every client's hashes. The time
    /// taken therefore reveals neither how much of a guess was correct nor which client's hash the guess resembles.
    private func client(bearerKey sha256: [UInt8]) -> GatewayClient? {
        var found = -1
        for (index, client) in clients.enumerated() {
            for case .bearerKey(let known) in client.credentials {
                let difference = zip(known, sha256).reduce(UInt8(known.count == sha256.count ? 0 : 1)) {
                    $0 | ($1.0 ^ $1.1)
                }
                // A mask with all bits set if all bytes are equal, and otherwise zero. It selects the client without a
                // branch, whose timing would reveal the comparison's result.
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

    /// Returns true if the server requests a client certificate in its handshakes.
    var usesCertificates: Bool { clients.contains(where: \.usesCertificate) }
}

/// The current list of clients, which a reload replaces. On an open connection, the new list applies from the next
/// request on.
typealias CurrentClients = Current<ClientDirectory>
