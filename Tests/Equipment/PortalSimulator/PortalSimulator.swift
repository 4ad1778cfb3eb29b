public import Crypto
public import Foundation
import Locks
public import TokenForge

/// Plays Apple's App Store Connect API over TLS, as Apple's specification describes it. What Apple does not document is
/// a choice that a test makes, or draws from a seed (``Behaviour``). It has its own JSON and its own verification of
/// tokens.
public final class PortalSimulator: Sendable {
    /// A certificate at the portal.
    public struct Certificate: Sendable {
        /// The id of Apple's resource.
        public var id: String
        /// Such as `APPLE_PAY`.
        public var type: String
        /// DER.
        public var content: [UInt8]
        /// True if wallets use the certificate; nil leaves the attribute out.
        public internal(set) var isActivated: Bool?
        /// The end of its validity.
        public var end: Date
        /// The `activated` that lists show, and the number of reads after which they show the true one.
        var shown: Bool?
        var readsUntilShown = 0
        var readsUntilListed = 0
        var wasActivated = false

        public init(
            id: String, type: String = "APPLE_PAY", content: [UInt8], isActivated: Bool?, end: Date = .distantFuture
        ) {
            self.id = id
            self.type = type
            self.content = content
            self.isActivated = isActivated
            self.end = end
            shown = isActivated
        }

        mutating func set(_ isActivated: Bool, shownAfter reads: Int) {
            wasActivated = wasActivated || self.isActivated == true
            self.isActivated = isActivated
            readsUntilShown = reads
            if reads == 0 { shown = isActivated }
        }

        mutating func wasRead() {
            readsUntilListed = max(0, readsUntilListed - 1)
            readsUntilShown = max(0, readsUntilShown - 1)
            if readsUntilShown == 0 { shown = isActivated }
        }
    }

    /// A merchant identifier at the portal.
    public struct Merchant: Sendable {
        public var id: String
        public var identifier: String
        public var certificates: [Certificate]

        public init(id: String, identifier: String, certificates: [Certificate]) {
            self.id = id
            self.identifier = identifier
            self.certificates = certificates
        }
    }

    /// The team's key, as the portal knows it.
    public struct Key: Sendable {
        public let issuer: String
        public let keyId: String
        public let publicKey: P256.Signing.PublicKey

        public init(issuer: String, keyId: String, publicKey: P256.Signing.PublicKey) {
            self.issuer = issuer
            self.keyId = keyId
            self.publicKey = publicKey
        }
    }

    /// A change of a certificate.
    public struct Change: Sendable {
        public enum Kind: String, Sendable { case created, activated, revoked }

        public let time: Date
        public let kind: Kind
        public let id: String
        /// SHA-256 of the SubjectPublicKeyInfo; empty if the certificate is not readable.
        public let publicKeyHash: [UInt8]
        /// False if a request to the API made the change.
        public let isByPerson: Bool
    }

    /// A request that arrived, and its answer's status.
    public struct Request: Sendable {
        public let time: Date
        public let method: String
        public let target: String
        /// 0 if no answer was sent.
        public let status: Int
        /// True if the answer was sent completely.
        public let isAnswered: Bool
        /// The scope of the request's token; nil if the token has none, or is not valid.
        public let scope: [String]?
        /// The time in seconds from `iat` to `exp` of the request's token; nil if the token is not valid.
        public let lifetime: Int?
        public let body: [UInt8]
    }

    private struct State {
        var content = PortalContent()
        var requests: [Request] = []
    }

    private let state = Mutex(State())
    private let key: Key
    private let authority: ForgeAuthority?
    private let server = Mutex<SimulatedHost?>(nil)

    /// The host whose certificate the simulator presents.
    public static let host = "api.appstoreconnect.apple.com"

    /// The address, in the form of the setting `app_store_connect.test_server`.
    public var address: String { "127.0.0.1:\(port)" }
    public var port: Int { server.withLock { $0?.port } ?? 0 }

    public var requests: [Request] { state.withLock { $0.requests } }

    public func set(_ merchants: [Merchant]) { state.withLock { $0.content.merchants = merchants } }

    public func change(_ body: (inout Behaviour) -> Void) { state.withLock { body(&$0.content.behaviour) } }

    /// Draws the whole behaviour from a seed. The caller prints the seed.
    public func draw(seed: UInt64) {
        state.withLock { state in
            state.content.behaviour = Behaviour(seed: seed)
            state.content.draws = Draws(seed: ~seed)
        }
    }

    /// Starts the simulator on a free port.
    ///
    /// - Parameters:
    ///   - certificate: a PEM file with a certificate for ``host``.
    ///   - privateKey: the PEM file with its key.
    ///   - authority: the issuer of new certificates; nil if none are requested.
    public init(
        key: Key, certificate: String, privateKey: String, authority: ForgeAuthority? = nil
    ) async throws {
        (self.key, self.authority) = (key, authority)
        let listening = try await SimulatedHost(certificate: certificate, privateKey: privateKey) {
            [weak self] head, body in (self?.answer(head, body) ?? PortalReply(503)).bytes
        }
        server.withLock { $0 = listening }
    }

    /// Ends listening. From then on connections are refused.
    public func stop() async { await server.withLock { $0 }?.stop() }

    private func answer(_ head: PortalRequestHead, _ body: [UInt8]) -> PortalReply {
        state.withLock { state in
            let now = Date()
            let time = Int(now.timeIntervalSince1970) + state.content.behaviour.clockSkew
            let claims = head.token.flatMap { PortalToken($0, signedBy: key, now: time) }
            let reply = state.content.answer(
                head, body, claims, number: state.requests.count, by: authority, now: now)
            state.requests.append(
                Request(
                    time: now, method: head.method, target: head.target,
                    status: reply.delivery == .none ? 0 : reply.status, isAnswered: reply.delivery == .whole,
                    scope: claims?.scope, lifetime: claims?.lifetime, body: body))
            return reply
        }
    }

    // MARK: Acts of people in the portal, and observations

    /// Activates a certificate, as a person does in the portal.
    public func activate(_ id: String) throws {
        _ = try state.withLock { state in
            try state.content.byPerson { content throws(Refusal) in try content.activate(id, now: Date()) }
        }
    }

    /// Revokes a certificate, as a person does in the portal.
    public func revoke(_ id: String) throws {
        try state.withLock { state in
            try state.content.byPerson { content throws(Refusal) in try content.revoke(id, now: Date()) }
        }
    }

    /// Requests a certificate, as a person does in the portal.
    ///
    /// - Parameters:
    ///   - csr: the certificate request in DER.
    ///   - merchant: the merchant identifier.
    public func create(_ type: String, _ csr: [UInt8], merchant: String) throws -> Certificate {
        guard let authority else { throw Refusal(500, "UNEXPECTED_ERROR") }
        return try state.withLock { state in
            guard let found = state.content.merchants.first(where: { $0.identifier == merchant }) else {
                throw Refusal(404, "NOT_FOUND")
            }
            return try state.content.byPerson { content throws(Refusal) in
                try content.create(type, csr, merchant: found.id, by: authority, now: Date())
            }
        }
    }

    /// Adds a certificate of the team's apps.
    public func addOther(_ id: String) { state.withLock { _ = $0.content.otherCertificates.insert(id) } }

    /// The ids of the certificates of the team's apps.
    public var otherCertificates: Set<String> { state.withLock { $0.content.otherCertificates } }

    /// The merchant identifiers with their certificates as they are, whatever lists show.
    public var merchants: [Merchant] { state.withLock { $0.content.merchants } }

    /// The number of certificates that were ever issued for a key.
    ///
    /// - Parameter key: SHA-256 of the SubjectPublicKeyInfo.
    public func certificateCount(of key: [UInt8]) -> Int { state.withLock { $0.content.certified[key] ?? 0 } }

    /// The certificates to whose keys wallets encrypt now: one, or two shortly after an activation.
    public func inUse(_ merchant: String, type: String = "APPLE_PAY") -> [Certificate] {
        state.withLock { $0.content.inUse(merchant, type, now: Date()) }
    }

    /// The certificates that only late wallets still use, of all merchants.
    public var late: [Certificate] { state.withLock { $0.content.late(now: Date()) } }

    /// The changes of certificates, in order.
    public var changes: [Change] { state.withLock { $0.content.changes } }
}
