import DaemonAPI
import Foundation
import HTTPListener
import HostSystem
import ProductVersion
import ServerProgram
import Telemetry

/// The admin socket's routes for health, readiness, metrics and status.
struct GatewayMonitoring: Sendable {
    let status: @Sendable () -> GatewayStatus
    let paytokend: PaytokendReadiness
    let paytokendSocket: String
    let instruments: GatewayInstruments
    /// Values whose properties are metrics, from parts of the gateway that define their own metrics.
    let otherInstruments: [any Sendable]
    /// The readiness of the store of payments; nil if no client can pay.
    let store: StoreReadiness?

    var routes: [AdminRoute] {
        [
            AdminRoute("GET", "/healthz", access: nil, respond: health),
            AdminRoute("GET", "/readyz", access: nil, respond: ready),
            AdminRoute("GET", "/metrics", access: .monitor, respond: metrics),
            AdminRoute("GET", "/v1/status", access: .monitor, respond: showStatus),
        ]
    }

    private func health(_: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        try .json(["status": "ok"])
    }

    /// Answers `GET /readyz`. The gateway is ready if paytokend and the store of payments are both ready. Without
    /// paytokend, no handshake can be signed and no payment token decrypted.
    ///
    /// A peer that no rule matches receives the last result, without the reasons. ``ServiceStatus`` repeats the check,
    /// so this result is at most a few seconds old. Such a peer causes no request to paytokend, because each request
    /// costs paytokend's ledger a commit.
    private func ready(_ request: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let reasons = request.isMatched ? await notReady() : nil
        let isReady = reasons?.isEmpty ?? (instruments.ready.value() == 1)
        var answer = try EndpointAnswer.json(
            ReadinessAnswer(ready: isReady, reasons: reasons ?? []), status: isReady ? 200 : 503)
        if !isReady { answer.outcome = "not_ready" }
        return answer
    }

    /// The time limit for the readiness check during a scrape. It applies even if `paytokend.timeout` is longer,
    /// because Prometheus ends a scrape after 10 s.
    private static let longestQuestion = Duration.seconds(4)

    private func metrics(_: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let check = Task { await notReady() }
        if await check.value(within: Self.longestQuestion) == nil { instruments.ready.set(to: 0) }
        return .bytes(
            Array(instruments.exposition(with: otherInstruments).utf8), contentType: MetricsText.contentType)
    }

    private func showStatus(_: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        var status = status()
        let reasons = await notReady()
        status.ready = reasons.isEmpty
        status.reasons = reasons
        return try .json(status)
    }

    /// Checks paytokend and the store, and sets ``GatewayInstruments/ready``. Returns the reasons why the gateway is
    /// not ready; empty if it is ready.
    func notReady() async -> [ReadinessAnswer.Reason] {
        let store = store?.fault.map {
            ReadinessAnswer.Reason(component: "store", code: PaymentCode.storeUnavailable.rawValue, message: "\($0)")
        }
        let reasons = await paytokendNotReady() + [store].compactMap { $0 }
        instruments.ready.set(to: reasons.isEmpty ? 1 : 0)
        return reasons
    }

    private func paytokendNotReady() async -> [ReadinessAnswer.Reason] {
        do throws(UnixSocketClientError) {
            if try await paytokend.isReady() { return [] }
            return [
                ReadinessAnswer.Reason(
                    component: "paytokend", code: "not_ready",
                    message: "paytokend is not ready; its GET /v1/status says why")
            ]
        } catch {
            return [
                ReadinessAnswer.Reason(
                    component: "paytokend", code: "unreachable",
                    message:
                        "paytokend does not answer at \(paytokendSocket); is it running, and may the gateway's user connect?"
                )
            ]
        }
    }
}

/// The response to `GET /v1/status`; it contains no key and no key's hash.
struct GatewayStatus: Encodable, Sendable {
    struct Client: Encodable, Sendable {
        let name: String
        /// `bearer_key`, `certificate` or `certificate_san`.
        let credential: String
        let operations: [String]
        let merchants: [String]
        /// The merchants at Google; absent if the client may not use Google Pay.
        let googlePayMerchants: [String]?
        let domains: [String]
    }

    struct Listener: Encodable, Sendable {
        let address: String
        let tls: Bool
        /// The expiry of the server's certificate; absent without TLS.
        let certificateNotAfter: Date?
        let requestsClientCertificates: Bool
    }

    struct Warning: Encodable, Sendable {
        let setting: String
        let place: String
        let message: String
    }

    let version: String
    let startedAt: Date
    var ready = false
    var reasons: [ReadinessAnswer.Reason] = []
    let listener: Listener
    let connections: Int
    let paytokendSocket: String
    let sessionHost: String
    let clients: [Client]
    let insecureSettings: [Warning]

    /// - Parameter tls: the TLS settings in use, read from the files at startup or at the last reload; nil without TLS.
    init(_ configuration: GatewayConfiguration, startedAt: Date, tls: TLSTermination.Settings?, connections: Int) {
        version = ProductVersion.current
        self.startedAt = startedAt
        listener = Listener(
            address: configuration.listener.address.text, tls: tls != nil, certificateNotAfter: tls?.notAfter,
            requestsClientCertificates: tls?.requestsCertificates ?? false)
        self.connections = connections
        paytokendSocket = configuration.paytokend.socket
        sessionHost = configuration.sessions.environment.host.name
        clients = configuration.clients.map { client in
            Client(
                name: client.name, credential: client.credentials.map(\.kind).joined(separator: ", "),
                operations: client.operations.map(\.rawValue).sorted(), merchants: client.merchants.map(\.text),
                googlePayMerchants: client.googlePay?.merchants.map(\.text), domains: client.domains)
        }
        insecureSettings = configuration.warnings.filter(\.setting.isInsecure).map {
            Warning(setting: $0.setting.rawValue, place: $0.place, message: $0.message)
        }
    }
}
