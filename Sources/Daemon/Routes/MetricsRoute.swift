import Foundation
import Ledger
import MerchantKeys
import Refusals

/// `GET /metrics`, in Prometheus' text format.
struct MetricsRoute: Sendable {
    let instruments: Instruments
    let index: KeyIndex
    let clock: WallClock
    let unlockedSecrets: UnlockedMemory
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
