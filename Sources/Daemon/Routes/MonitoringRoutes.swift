import AuditChain
import DaemonAPI
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import ProductVersion
import Refusals
import WorkerProtocol

/// `GET /v1/status`: what a person wants to know first.
struct StatusRoute: Sendable {
    let readiness: Readiness
    let tokens: TokenPool
    let index: KeyIndex
    let ledger: any Ledger
    let live: LiveConfiguration
    let clock: WallClock
    let startedAt: Date

    func respond(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let findings = await readiness.findings()
        let reasons = findings.reasons
        let head = try? await ledger.head()
        let sealed = try? await ledger.latestCheckpoint()
        let policies = live.policies.current
        let ledgerFault = reasons.first { $0.component == "ledger" }
        return try .json(
            StatusAnswer(
                version: ProductVersion.current, node: ledger.node, startedAt: startedAt, ready: reasons.isEmpty,
                reasons: reasons, tokens: tokens.tokens.map(status),
                ledger: LedgerStatus(
                    engine: ledger.engine, condition: ledgerFault == nil ? "ready" : "unavailable",
                    message: ledgerFault?.message, schemaVersion: ledger.schemaVersion,
                    lastSequence: head?.sequence, sealedSequence: sealed?.checkpoint.sequence,
                    sealedAt: sealed.map { Date(timeIntervalSince1970: Double($0.checkpoint.time.milliseconds) / 1000) }
                ),
                trust: TrustStatus(
                    roots: policies.roots.compactMap { try? CertificateSummary(CertificateDescription($0)) },
                    distrusted: policies.distrusted,
                    signingTimeWindow: policies.signingTimeWindow.description),
                warnings: live.warnings.map { "\($0.place): \($0.message)" }
                    + findings.warnings + UnlockedSecrets(tokens: tokens).warnings + index.remarks
                    + ExpiryWarnings.of(index.entries, now: clock.now())))
    }

    private func status(of token: TokenWorker) -> TokenStatus {
        switch token.condition {
        case .starting:
            return TokenStatus(name: token.name, condition: "starting")
        case .unavailable(let failure):
            return TokenStatus(name: token.name, condition: "unavailable", message: failure.message)
        case .ready(let description):
            return TokenStatus(
                name: token.name, condition: "ready", label: description.label,
                serialNumber: description.serialNumber, manufacturer: description.manufacturer,
                model: description.model, library: description.library, sessions: Int(description.sessions),
                tierECv1: description.tierECv1?.rawValue, tierRSAv1: description.tierRSAv1?.rawValue,
                shortcomings: description.shortcomings,
                importKey: Data(description.importKey).base64EncodedString(),
                keys: index.entries.count { $0.tokens.contains(token.name) })
        }
    }
}

/// `GET /healthz` and `GET /readyz`, for any peer of either socket.
struct HealthRoutes: Sendable {
    let readiness: Readiness

    /// The process serves; nothing else is said.
    func health(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        try .json(HealthAnswer())
    }

    /// Whether a token would be decrypted now. The reasons are for peers whom an access rule matches.
    func ready(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let reasons = await readiness.reasons()
        if reasons.isEmpty { return try .json(ReadinessAnswer(ready: true)) }
        return try .json(
            ReadinessAnswer(ready: false, reasons: request.caller == nil ? nil : reasons), status: 503,
            outcome: "not_ready")
    }
}

/// `GET /metrics`, in Prometheus' text format.
struct MetricsRoute: Sendable {
    let instruments: Instruments
    let index: KeyIndex
    let clock: WallClock
    let unlockedSecrets: UnlockedSecrets
    let ledgerClock: LedgerClock

    func respond(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        showExpiries()
        instruments.unlockedSecretBytes.set(to: Double(unlockedSecrets.total))
        await showClock()
        return EndpointAnswer(
            http: HTTPAnswer(
                status: 200,
                headers: [HTTPAnswer.Header(name: "Content-Type", value: MetricsText.contentType)],
                body: Array(instruments.exposition().utf8)))
    }

    /// Days change without anything happening, so they are counted when somebody looks.
    private func showExpiries() {
        let now = clock.now()
        let days = index.entries.compactMap { entry in
            entry.certificate.map {
                ([entry.publicKeyHash.hex, entry.merchantIdentifier], $0.notAfter.timeIntervalSince(now) / 86_400)
            }
        }
        instruments.keyExpiryDays.replaceAll(Dictionary(days) { first, _ in first })
    }

    /// While the ledger cannot be read there is no such figure.
    private func showClock() async {
        do throws(LedgerFailure) {
            instruments.clockBehindLedgerSeconds.set(to: try await ledgerClock.look().secondsBehind)
        } catch {
            instruments.clockBehindLedgerSeconds.replaceAll([:])
        }
    }
}
