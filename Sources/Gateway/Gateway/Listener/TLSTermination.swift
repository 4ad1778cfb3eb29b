import Foundation
import Locks
import NIOCore
import NIOSSL

/// The current TLS settings for new connections. A reload replaces them; open connections keep theirs.
final class TLSTermination: Sendable {
    struct Settings: Sendable {
        fileprivate(set) var context: NIOSSLContext
        fileprivate let configuration: TLSConfiguration
        /// True if clients are asked for certificates.
        let requestsCertificates: Bool
        let authorities: ClientCertificateAuthorities
        /// The certificates that were verified in this context's handshakes.
        fileprivate(set) var verified = VerifiedClientCertificates()
        /// The generation of the client list to which these settings belong.
        let generation: Int
        /// The expiry of the server's certificate.
        let notAfter: Date
    }

    private struct State {
        var settings: Settings
        var endedSessions: ContinuousClock.Instant?
    }

    /// The minimum time between two changes of the ticket keys. An unknown client can cause such a change, after which
    /// every client must make a full handshake.
    static let sessionEndInterval = Duration.seconds(60)

    private let state: Mutex<State>

    init(_ settings: Settings) {
        state = Mutex(State(settings: settings))
    }

    var current: Settings { state.withLock { $0.settings } }

    func replace(with new: Settings) {
        state.withLock { $0.settings = new }
    }

    /// Ends all resumable sessions by changing the ticket keys. Does nothing if they were changed within
    /// ``sessionEndInterval``, or if `settings` are no longer current.
    ///
    /// - Parameter settings: the settings with which an unknown client resumed its session.
    func endSessions(of settings: Settings, now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            guard state.settings.context === settings.context,
                state.endedSessions.map({ now - $0 >= Self.sessionEndInterval }) ?? true,
                let context = try? NIOSSLContext(configuration: settings.configuration)
            else { return }
            state.settings.context = context
            state.settings.verified = VerifiedClientCertificates()
            state.endedSessions = now
        }
    }
}

extension TLSTermination.Settings {
    /// - Throws: BoringSSL's error for the files. It is unlikely, because the configuration check has already created
    ///   the same context.
    init(_ files: TLSFiles, clients: ClientDirectory) throws {
        requestsCertificates = clients.usesCertificates
        configuration = files.serverConfiguration(requestsCertificates: clients.usesCertificates)
        context = try NIOSSLContext(configuration: configuration)
        authorities = ClientCertificateAuthorities(roots: files.clientAuthorities ?? [])
        generation = clients.generation
        notAfter = files.notAfter
    }

    /// Returns the TLS handler of one connection.
    ///
    /// An unknown certificate does not end the handshake. Instead, the client's request is refused with a 401 response,
    /// which explains the fault. Only a chain of unusual size ends the handshake.
    func handler(for peer: NetworkPeer) -> NIOSSLServerHandler {
        guard requestsCertificates else { return NIOSSLServerHandler(context: context) }
        let (authorities, verified, generation) = (authorities, verified, generation)
        return NIOSSLServerHandler(
            context: context,
            customVerificationCallback: { chain, promise in
                let chain = chain.compactMap { try? $0.toDERBytes() }
                // TLS keeps the chain's certificates, from any issuer, for as long as the session can be resumed. Their
                // size therefore has a limit.
                guard ClientCertificateAuthorities.isWithinSizeLimits(chain) else { return promise.succeed(.failed) }
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

    /// Returns the certificate of a resumed session, in which no chain is verified.
    func resumed(_ certificate: [UInt8]) -> PresentedCertificate? {
        PresentedCertificate(
            der: certificate, verified.contains(certificate) ? .success(generation) : .failure(.resumed))
    }
}
