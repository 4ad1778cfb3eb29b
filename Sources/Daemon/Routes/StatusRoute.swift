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
        let ledgerTrouble = reasons.first { $0.component == "ledger" }
        return try .json(
            StatusAnswer(
                version: ProductVersion.current, node: ledger.node, startedAt: startedAt, ready: reasons.isEmpty,
                reasons: reasons, tokens: tokens.tokens.map(status),
                ledger: LedgerStatus(
                    engine: ledger.engine, condition: ledgerTrouble == nil ? "ready" : "unavailable",
                    message: ledgerTrouble?.message, schemaVersion: ledger.schemaVersion,
                    lastSequence: head?.sequence, sealedSequence: sealed?.checkpoint.sequence,
                    sealedAt: sealed.map { Date(timeIntervalSince1970: Double($0.checkpoint.time.milliseconds) / 1000) }
                ),
                trust: TrustStatus(
                    roots: policies.roots.compactMap { try? CertificateSummary(CertificateDescription($0)) },
                    distrusted: policies.distrusted,
                    signingTimeWindow: policies.signingTimeWindow.description),
                warnings: live.warnings.map { "\($0.place): \($0.message)" }
                    + findings.warnings + UnlockedMemory(hsmTokens: tokens).warnings + index.warnings
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
                keys: index.entries.count { $0.hsmTokens.contains(token.name) })
        }
    }
}
