import Foundation
import NIOCore
import NIOSSL
import Synchronization

/// The TLS settings in force for new connections. A reload replaces them; connections that are open keep theirs.
final class TLSTermination: Sendable {
    struct Settings: Sendable {
        let context: NIOSSLContext
        /// Whether clients are asked for certificates.
        let requestsCertificates: Bool
        let authorities: ClientCertificateAuthorities
        /// In this context's handshakes.
        let verified = VerifiedClientCertificates()
        /// The clients' list that these belong to.
        let generation: Int
        /// Of the server's certificate.
        let notAfter: Date
    }

    private let settings: Mutex<Settings>

    init(_ settings: Settings) {
        self.settings = Mutex(settings)
    }

    var current: Settings { settings.withLock { $0 } }

    func replace(with new: Settings) {
        settings.withLock { $0 = new }
    }
}

extension TLSTermination.Settings {
    /// - Throws: what BoringSSL says of the files; the configuration's check has tried the same.
    init(_ files: TLSFiles, clients: ClientDirectory) throws {
        requestsCertificates = clients.usesCertificates
        context = try NIOSSLContext(
            configuration: files.serverConfiguration(requestsCertificates: clients.usesCertificates))
        authorities = ClientCertificateAuthorities(roots: files.clientAuthorities ?? [])
        generation = clients.generation
        notAfter = files.notAfter
    }

    /// One connection's handler.
    ///
    /// A certificate that nobody knows ends no handshake: the request is then answered with 401, which says what is wrong. What
    /// counts is decided there. Only a chain of unusual size ends it.
    func handler(for peer: NetworkPeer) -> NIOSSLServerHandler {
        guard requestsCertificates else { return NIOSSLServerHandler(context: context) }
        let (authorities, verified, generation) = (authorities, verified, generation)
        return NIOSSLServerHandler(
            context: context,
            customVerificationCallback: { chain, promise in
                let chain = chain.compactMap { try? $0.toDERBytes() }
                // TLS keeps a session's certificates for as long as it may be resumed, whoever issued them.
                guard ClientCertificateAuthorities.isOfUsualSize(chain) else { return promise.succeed(.failed) }
                promise.completeWithTask {
                    guard let leaf = chain.first else { return .certificateVerified }
                    do throws(ClientChainFault) {
                        verified.remember(leaf, until: try await authorities.accept(chain))
                        peer.present(PresentedCertificate(der: leaf, .success(generation)))
                    } catch {
                        peer.present(PresentedCertificate(der: leaf, .failure(error)))
                    }
                    return .certificateVerified
                }
            })
    }

    /// What a client presents in a resumed session, in which no chain is verified.
    func resumed(_ certificate: [UInt8]) -> PresentedCertificate? {
        PresentedCertificate(
            der: certificate, verified.contains(certificate) ? .success(generation) : .failure(.noPath))
    }
}
