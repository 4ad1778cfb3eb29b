public import Crypto
import Foundation
import Locks
import NIOCore
import NIOPosix
import NIOSSL

/// Plays the reading part of Apple's App Store Connect API over TLS, as Apple's specification describes it. What Apple
/// does not document is a value that a test chooses (``Behaviour``). It has its own JSON and its own verification of
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
        /// nil leaves the attribute out.
        public var isActivated: Bool?

        public init(id: String, type: String = "APPLE_PAY", content: [UInt8], isActivated: Bool?) {
            self.id = id
            self.type = type
            self.content = content
            self.isActivated = isActivated
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

    /// The choices that Apple's documents leave open, and faults.
    public struct Behaviour: Sendable {
        /// True if a scope must name the path with `/v1`.
        public var scopeHasVersion = false
        /// False if the API does not compare a scope's query.
        public var comparesQuery = true
        /// The number of resources that an answer claims beyond those that it has.
        public var unlisted = 0
        /// True if identifiers are shown without `merchant.`.
        public var hidesPrefix = false
        /// An answer to every authorized request instead of the right one: its status and its body.
        public var fault: (status: Int, body: String)?

        public init() {}
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

    /// A request that arrived, and its answer's status.
    public struct Request: Sendable {
        public let method: String
        public let target: String
        public let status: Int
        /// The scope of the request's token; nil if the token has none, or is not valid.
        public let scope: [String]?
        /// The time in seconds from `iat` to `exp` of the request's token; nil if the token is not valid.
        public let lifetime: Int?
    }

    private struct State {
        var merchants: [Merchant] = []
        var behaviour = Behaviour()
        var requests: [Request] = []
    }

    private let state = Mutex(State())
    private let key: Key
    private let channel = Mutex<(any Channel)?>(nil)

    /// The host whose certificate the simulator presents.
    public static let host = "api.appstoreconnect.apple.com"

    /// The address, in the form of the setting `app_store_connect.test_server`.
    public var address: String { "127.0.0.1:\(channel.withLock { $0?.localAddress?.port } ?? 0)" }

    public var requests: [Request] { state.withLock { $0.requests } }

    public func set(_ merchants: [Merchant]) { state.withLock { $0.merchants = merchants } }

    public func change(_ body: (inout Behaviour) -> Void) { state.withLock { body(&$0.behaviour) } }

    /// Starts the simulator on a free port.
    ///
    /// - Parameters:
    ///   - certificate: a PEM file with a certificate for ``host``.
    ///   - privateKey: the PEM file with its key.
    public init(key: Key, certificate: String, privateKey: String) async throws {
        self.key = key
        let context = try NIOSSLContext(
            configuration: .makeServerConfiguration(
                certificateChain: try NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) },
                privateKey: .privateKey(try NIOSSLPrivateKey(file: privateKey, format: .pem))))
        let listening = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { [weak self] channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers([
                        NIOSSLServerHandler(context: context),
                        PortalConnection { self?.answer($0, $1, token: $2) ?? (503, "") },
                    ])
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        channel.withLock { $0 = listening }
    }

    deinit { channel.withLock { $0 }?.close(promise: nil) }

    // MARK: Answers

    private func answer(_ method: String, _ target: String, token: String?) -> (status: Int, body: String) {
        state.withLock { state in
            let claims = token.flatMap { PortalToken($0, signedBy: key, now: Int(Date().timeIntervalSince1970)) }
            let answer = Self.answer(method, target, claims, state.merchants, state.behaviour)
            state.requests.append(
                Request(
                    method: method, target: target, status: answer.status, scope: claims?.scope,
                    lifetime: claims?.lifetime))
            return answer
        }
    }

    private static func answer(
        _ method: String, _ target: String, _ token: PortalToken?, _ merchants: [Merchant], _ behaviour: Behaviour
    ) -> (status: Int, body: String) {
        guard let token else { return error(401, "NOT_AUTHORIZED") }
        let decoded = target.removingPercentEncoding ?? target
        let parts = decoded.split(separator: "?", maxSplits: 1).map(String.init)
        guard parts[0].hasPrefix("/v1/") else { return error(404, "NOT_FOUND") }
        guard method == "GET" else { return error(405, "METHOD_NOT_ALLOWED") }
        let path = behaviour.scopeHasVersion ? parts[0] : String(parts[0].dropFirst("/v1".count))
        if let scope = token.scope {
            let named = scope.compactMap { $0.split(separator: "?", maxSplits: 1).map(String.init) }
            let isPermitted = named.contains {
                $0[0] == "GET " + path && (!behaviour.comparesQuery || $0.dropFirst() == parts.dropFirst())
            }
            guard isPermitted else { return error(401, "NOT_AUTHORIZED") }
        }
        if let fault = behaviour.fault { return fault }
        let segments = parts[0].split(separator: "/").map(String.init)
        if segments == ["v1", "merchantIds"] {
            let filter = parts.count > 1 ? value(of: "filter[identifier]", in: parts[1]) : nil
            let found = merchants.filter { filter == nil || $0.identifier == filter }
            return list(
                found.map { merchant in
                    let shown =
                        behaviour.hidesPrefix && merchant.identifier.hasPrefix("merchant.")
                        ? String(merchant.identifier.dropFirst("merchant.".count)) : merchant.identifier
                    return [
                        "type": "merchantIds", "id": merchant.id,
                        "attributes": ["name": "A shop", "identifier": shown],
                    ]
                }, behaviour)
        }
        guard segments.count == 4, segments[1] == "merchantIds", segments[3] == "certificates",
            let merchant = merchants.first(where: { $0.id == segments[2] })
        else { return error(404, "NOT_FOUND") }
        return list(
            merchant.certificates.map { certificate in
                var attributes: [String: Any] = [
                    "name": "Apple Pay", "displayName": "Apple Pay", "certificateType": certificate.type,
                    "certificateContent": Data(certificate.content).base64EncodedString(),
                ]
                attributes["activated"] = certificate.isActivated
                return ["type": "certificates", "id": certificate.id, "attributes": attributes]
            }, behaviour)
    }

    private static func value(of name: String, in query: String) -> String? {
        query.split(separator: "&").first { $0.hasPrefix(name + "=") }.map { String($0.dropFirst(name.count + 1)) }
    }

    private static func list(_ data: [[String: Any]], _ behaviour: Behaviour) -> (status: Int, body: String) {
        (
            200,
            text([
                "data": data, "links": ["self": "https://\(host)/v1"],
                "meta": ["paging": ["total": data.count + behaviour.unlisted]],
            ])
        )
    }

    private static func error(_ status: Int, _ code: String) -> (status: Int, body: String) {
        (status, text(["errors": [["status": "\(status)", "code": code, "title": "Refused", "detail": "Refused."]]]))
    }

    private static func text(_ value: [String: Any]) -> String {
        (try? JSONSerialization.data(withJSONObject: value)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}
