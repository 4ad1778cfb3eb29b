// Requests for merchant sessions. The gateway gets the merchant's identity from paytokend. It uses an open TLS
// connection to Apple or makes one, whose handshake paytokend's HSM token signs. It returns Apple's response to the
// caller byte for byte.
//
// In the order of a request:
//     MerchantSessionRequest.swift   the request that a caller may send
//     MerchantSessions.swift         this file: identity, connection, one attempt, the evaluation of the response
//     MerchantIdentities.swift       paytokend's certificates and signatures
//     IdentityKey.swift              the private key that swift-nio-ssl receives
//     AppleEndpoint.swift            the host: never a name from a request
//     AppleConnection.swift, ConnectionPool.swift
//     SessionFailure.swift           the only table of failures and their responses
//     SessionCheck.swift             a session for a check, with its steps reported to a person
//
// Guarantees: each request of a caller causes at most one request to Apple and takes at most ten seconds; no redirect
// is followed; neither sessions nor bodies are logged or stored.

import Foundation
import Locks
import NIOCore
import OutgoingConnections
import ServerProgram
import StrictJSON

/// Apple's response, unchanged.
struct MerchantSession: Sendable, Equatable {
    /// Apple's body of at most 64 KiB. A session is opaque, and valid for five minutes and for one payment.
    let body: [UInt8]
    let contentType: String
}

/// The merchant and the key that were presented on a connection to Apple's host.
struct ConnectionOwner: Hashable {
    let merchantIdentifier: String
    let publicKeyHash: String
}

/// Requests merchant sessions from Apple.
final class MerchantSessions: Sendable {
    private let endpoint: AppleEndpoint
    private let source: any MerchantIdentitySource
    private let cache: IdentityCache
    private let pool: ConnectionPool<AppleConnection, ConnectionOwner>
    private let deadline: Duration
    private let observer: any SessionObserver
    private let now: @Sendable () -> Date
    /// The TLS settings of each identity, cached because creating one reads all trusted roots.
    private let contexts = Mutex<[MerchantIdentity: IdentityTLS]>([:])
    private static let maximumContexts = 256

    /// - Parameters:
    ///   - deadline: the time limit of one session, which includes the requests to paytokend and to Apple.
    ///   - now: the clock for checking the validity of certificates.
    init(
        endpoint: AppleEndpoint, identities: any MerchantIdentitySource, observer: any SessionObserver,
        deadline: Duration = .seconds(10), limits: ConnectionPoolLimits = .init(),
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.endpoint = endpoint
        source = identities
        cache = IdentityCache(identities)
        pool = ConnectionPool(limits)
        self.deadline = deadline
        self.observer = observer
        self.now = now
    }

    /// Returns a session for a validated request. The caller of this method must have checked that the client may use
    /// the merchant and the domain.
    ///
    /// - Parameters:
    ///   - client: the name of the gateway's client, since paytokend serves these clients in turn; nil for the gateway
    ///     itself.
    ///   - traceparent: the trace of the client's request, which the requests to paytokend continue.
    func session(
        _ request: MerchantSessionRequest, for client: String? = nil, traceparent: String? = nil
    ) async throws(SessionFailure) -> MerchantSession {
        try await session(request, begin(for: client, traceparent: traceparent), reuses: true)
    }

    /// Begins a session, whose time limit starts now.
    func begin(for client: String? = nil, traceparent: String? = nil) -> SessionProgress {
        SessionProgress(
            SessionOrigin(
                client: client, traceparent: traceparent, deadline: .now() + .nanoseconds(deadline.nanoseconds)))
    }

    /// Requests a session, and reports its end to the observer.
    ///
    /// - Parameter reuses: false to make a new connection, so that every step is performed.
    func session(
        _ request: MerchantSessionRequest, _ progress: SessionProgress, reuses: Bool
    ) async throws(SessionFailure) -> MerchantSession {
        let began = ContinuousClock.now
        do {
            let session = try await attempt(request, progress, reuses: reuses)
            observer.sessionEnded(outcome: "ok", after: .now - began)
            return session
        } catch {
            observer.sessionEnded(outcome: error.outcome, after: .now - began)
            throw error
        }
    }

    private func attempt(
        _ request: MerchantSessionRequest, _ progress: SessionProgress, reuses: Bool
    ) async throws(SessionFailure) -> MerchantSession {
        let body = request.appleBody
        var refused: SessionFailure?
        // paytokend refuses to sign with a key that is no longer active. In that case nothing was sent to Apple, so the
        // merchant's next key is tried.
        for identity in try await identities(of: request.merchantIdentifier, progress) {
            do {
                let answer = try await post(
                    body, as: identity, of: request.merchantIdentifier, progress, reuses: reuses)
                let session = try Self.session(from: answer)
                observer.identityUsed(
                    merchantIdentifier: request.merchantIdentifier, ends: identity.notAfter, now: now())
                return session
            } catch SessionFailure.paytokend(let failure) where failure.concernsKey {
                cache.forget(request.merchantIdentifier)
                refused = .paytokend(failure)
            }
        }
        throw refused ?? .noActiveIdentity
    }

    /// Returns the merchant's identities whose certificates are valid now, newest first.
    private func identities(
        of merchantIdentifier: String, _ progress: SessionProgress
    ) async throws(SessionFailure) -> [MerchantIdentity] {
        let all: [MerchantIdentity]
        do { all = try await cache.identities(of: merchantIdentifier, for: progress.origin) } catch {
            throw SessionFailure(error, during: .identity)
        }
        guard !all.isEmpty else { throw .noActiveIdentity }
        let now = now()
        let valid = all.filter { $0.notBefore <= now && now <= $0.notAfter }
        guard !valid.isEmpty else {
            throw all.contains { $0.notBefore > now } ? .identityNotYetValid : .identityExpired
        }
        progress.reached(.identity)
        return valid
    }

    private func post(
        _ body: [UInt8], as identity: MerchantIdentity, of merchantIdentifier: String, _ progress: SessionProgress,
        reuses: Bool
    ) async throws(SessionFailure) -> HTTPResponse {
        let owner = ConnectionOwner(
            merchantIdentifier: merchantIdentifier, publicKeyHash: identity.publicKeyHash)
        let connection: AppleConnection
        if reuses, let standing = await pool.take(owner) {
            connection = standing
            progress.reached(.signature)
            observer.connectionTaken(isNew: false)
        } else {
            connection = try await connect(identity, for: owner, progress, isCheck: !reuses)
            observer.connectionTaken(isNew: true)
        }
        let answer: HTTPResponse
        do { answer = try await connection.post(body, progress) } catch {
            connection.http.close()
            throw error
        }
        if answer.isReusable { pool.give(connection, to: owner) } else { connection.http.close() }
        return answer
    }

    private func connect(
        _ identity: MerchantIdentity, for owner: ConnectionOwner, _ progress: SessionProgress, isCheck: Bool
    ) async throws(SessionFailure) -> AppleConnection {
        guard pool.reserve(for: owner, mayUseReserve: isCheck) else { throw .tooManyConnections }
        do {
            let connection = try await AppleConnection.open(to: endpoint, as: await tls(identity), progress)
            connection.http.whenClosed { [pool] in pool.release(of: owner) }
            observer.handshakeEnded(outcome: "ok")
            return connection
        } catch {
            pool.release(of: owner)
            observer.handshakeEnded(outcome: error.outcome)
            throw error
        }
    }

    private func tls(_ identity: MerchantIdentity) async throws(SessionFailure) -> IdentityTLS {
        if let known = contexts.withLock({ $0[identity] }) { return known }
        let source = ObservedIdentities(source, observer)
        // The system's roots are read from files, for which no event loop may wait.
        let new = await Task.detached { [endpoint] in try? IdentityTLS(identity, source: source, endpoint: endpoint) }
            .value
        guard let made = new else {
            throw .handshakeFailed(reason: "TLS cannot be set up with this certificate or these roots")
        }
        contexts.withLock { contexts in
            if contexts.count >= Self.maximumContexts { contexts = [:] }
            contexts[identity] = made
        }
        return made
    }

    /// Returns the session in Apple's response, or throws the failure that it indicates.
    private static func session(from answer: HTTPResponse) throws(SessionFailure) -> MerchantSession {
        switch answer.status {
        case 200: break
        case 300..<400: throw .redirected(status: answer.status)
        case 401, 403: throw .identityRefused(status: answer.status)
        case 417: throw .mismatch
        case 429:
            let seconds = answer.head.headers.first(name: "retry-after").flatMap { Int($0) }
            throw .tooManyRequests(retryAfter: seconds.flatMap { (0...3600).contains($0) ? $0 : nil })
        case 400..<500: throw .requestRefused(status: answer.status)
        case 500...: throw .appleUnavailable(status: answer.status)
        default: throw .unexpectedStatus(answer.status)
        }
        // A session is opaque, but it is always a JSON object. Other content, such as a proxy's error page, is not a
        // session.
        let (type, body) = (answer.head.headers.first(name: "content-type") ?? "", answer.bytes)
        let essence = type.prefix { $0 != ";" }.lowercased()
        let blanks: Set<UInt8> = [0x20, 0x09, 0x0A, 0x0D]
        guard type.utf8.count <= 100, type.utf8.allSatisfy({ (0x20...0x7E).contains($0) }),
            essence.filter({ $0 != " " }) == "application/json",
            answer.isFramed, body.first(where: { !blanks.contains($0) }) == UInt8(ascii: "{"),
            body.last(where: { !blanks.contains($0) }) == UInt8(ascii: "}")
        else { throw .unexpectedContent }
        return MerchantSession(body: body, contentType: type)
    }

    /// Closes idle connections. A connection in use is closed when its request ends.
    func close() { pool.close() }

    var idleConnections: Int { pool.idleCount }
}

extension MerchantSessions {
    /// Creates the `MerchantSessions` that the configuration describes.
    ///
    /// - Parameter identities: the source of the merchants' TLS keys; nil to request them from paytokend.
    static func made(
        _ configuration: GatewayConfiguration, paytokend: PaytokendCalls,
        identities: (any MerchantIdentitySource)? = nil, observer: any SessionObserver
    ) throws(StartFailure) -> MerchantSessions {
        let endpoint: AppleEndpoint
        do { endpoint = try AppleEndpoint(configuration.sessions) } catch {
            throw StartFailure(.configuration, "sessions.trust cannot be used: \(error)")
        }
        return MerchantSessions(
            endpoint: endpoint,
            identities: identities ?? PaytokendIdentities(paytokend),
            observer: observer,
            // After the time limit of the client's request, a session would no longer reach the client.
            deadline: min(.seconds(10), configuration.limits.requestTimeout))
    }
}

extension MerchantSessionRequest {
    /// The body that Apple receives: exactly these four members.
    var appleBody: [UInt8] {
        var json = JSONWriter(capacity: 512)
        json.beginObject()
        json.member("merchantIdentifier", merchantIdentifier)
        json.member("displayName", displayName)
        json.member("initiative", initiative)
        json.member("initiativeContext", initiativeContext)
        json.endObject()
        return json.bytes
    }
}

extension Duration {
    /// The duration in whole nanoseconds.
    fileprivate var nanoseconds: Int64 { components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000 }
}
