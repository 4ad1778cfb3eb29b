import AccessControl
import Foundation
import Ledger
import MerchantKeys
import SQLiteLedger
import TestSupport
import Testing

@testable import Daemon
@testable import DaemonConfiguration
@testable import UsageRecording

/// `/readyz` for peers that no access rule matches.
@Suite struct UnmatchedPeerTests {
    @Test("commits nothing and gives no reasons to a peer without a rule, but commits and gives reasons for a caller")
    func peerWithoutRule() async throws {
        let directory = try FreshDirectory()
        let commits = Shared(0)
        let ledger = try await SQLiteLedger.open(
            SQLiteLedger.Settings(path: directory.path("ledger.sqlite"), node: "node-1")
        ) { if case .committed = $0 { commits.increment() } }
        let record = try await RecordFixture(ledger: directory.path("other.sqlite"), hsmToken: SoftwareAuditToken())
        let readiness = Readiness(
            hsmTokens: try .notStarted(), ledger: ledger, gate: record.gate,
            catalogue: KeyCatalogue(
                index: KeyIndex(), ledger: ledger, hsmTokens: ["primary"], clock: .system, logger: RecordFixture.quiet),
            clock: .system, ledgerClock: LedgerClock(ledger: ledger, clock: .system) { .seconds(300) },
            faults: record.faults)
        let before = commits.current
        for _ in 0..<3 { #expect(await readiness.answer(for: nil) == .init(ready: false)) }
        #expect(commits.current == before)
        let rule = AccessRule(name: "shop", group: .init(name: "payments", id: 100), roles: [.decrypt])
        let caller = Caller(rule: rule, peer: PeerCredentials(uid: 1000, gid: 100))
        let answer = await readiness.answer(for: caller)
        #expect(!answer.ready && answer.reasons?.contains { $0.component == "token primary" } == true)
        #expect(commits.current == before + 1)
        await ledger.close()
    }
}
