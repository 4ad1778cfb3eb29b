import ConfigurationFile
import Foundation
import Telemetry

/// The gateway's metrics, each under its public name, which is part of the public contract.
///
/// To add a metric, add a property to this type, or to another type whose value is passed to ``exposition(with:)``.
struct GatewayInstruments: Sendable {
    /// The label `outcome` is `ok` or a refusal's code.
    let requests = Counter(
        "paytoken_gateway_requests_total", help: "Requests answered.", labels: ["endpoint", "outcome"])
    let requestSeconds = Histogram(
        "paytoken_gateway_request_seconds", help: "Time from the request's head to its answer.", bounds: latencies)
    let ready = Gauge("paytoken_gateway_ready", help: "1 if requests can be answered, as in /readyz.")
    let connections = Gauge("paytoken_gateway_connections", help: "Open connections, including administration.")
    let refusedConnections = Counter(
        "paytoken_gateway_refused_connections_total",
        help: "Connections closed at once because there were too many, in all or of one address.")
    let handshakes = Counter(
        "paytoken_gateway_tls_handshakes_total",
        help: "TLS handshakes, by how they ended: ok, failed, timeout, or ended by the peer.", labels: ["outcome"])
    let reloads = Counter(
        "paytoken_gateway_reloads_total", help: "Reloads of the configuration, by outcome.", labels: ["outcome"])
    let insecureSettings = Gauge(
        "paytoken_gateway_insecure_settings", help: "1 for each setting that weakens the service.",
        labels: ["setting"])
    let certificateNotAfter = Gauge(
        "paytoken_gateway_certificate_not_after_seconds",
        help: "The expiry of the server's own certificate, in seconds since 1970.", labels: ["certificate"])

    /// The histogram's bounds, in seconds. They extend to 30 s, since a request that waits for Apple can take seconds.
    private static let latencies: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30,
    ]

    /// Updates the metrics of the insecure settings and of the server certificate's expiry.
    func show(_ configuration: GatewayConfiguration) {
        insecureSettings.replaceAll(
            configuration.warnings.filter(\.setting.isInsecure).map { ([$0.setting.rawValue], 1) })
        if let files = configuration.listener.tls {
            certificateNotAfter.set(["server"], to: files.notAfter.timeIntervalSince1970)
        }
    }

    /// Returns the body of `GET /metrics`, of content type `MetricsText.contentType`.
    ///
    /// - Parameter others: values whose properties are metrics, from parts of the gateway that define their own
    ///   metrics.
    func exposition(with others: [any Sendable] = []) -> String {
        var text = MetricsText()
        for owner in [self as any Sendable] + others {
            for child in Mirror(reflecting: owner).children { (child.value as? any MetricFamily)?.expose(to: &text) }
        }
        return text.text
    }
}
