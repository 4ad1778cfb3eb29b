import AuditChain
import Foundation
import TestSupport
import Testing

@testable import Daemon
@testable import Ledger
@testable import SQLiteLedger
@testable import Telemetry

/// The metric `paytokend_caller_first_release_timestamp_seconds`.
@Suite struct CallerFirstReleasesTests {
    private let directory: FreshDirectory
    private let ledger: SQLiteLedger
    private let instruments = Instruments()

    init() async throws {
        directory = try FreshDirectory()
        ledger = try await SQLiteLedger.open(
            SQLiteLedger.Settings(path: directory.path("ledger.sqlite"), node: "node-1"))
    }

    private func releases(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) -> CallerFirstReleases {
        CallerFirstReleases(ledger: ledger, instruments: instruments, logger: RecordFixture.quiet, now: now)
    }

    /// Records a release at this number of seconds after the Unix time 1,800,000,000.
    private func release(to uid: UInt32, at seconds: Double) async throws {
        _ = try await ledger.append(
            AuditRecord(
                time: AuditTime(RecordFixture.noon.addingTimeInterval(seconds)), event: .decrypt(reference: nil),
                caller: AuditCaller(name: AuditText("shop"), uid: uid, gid: 7)))
    }

    /// Moves the ledger's file away or back. The ledger cannot be read while its file is away.
    private func setAway(_ isAway: Bool) throws {
        let (path, away) = (directory.path("ledger.sqlite"), directory.path("away"))
        try FileManager.default.moveItem(atPath: isAway ? path : away, toPath: isAway ? away : path)
    }

    @Test("reports each caller's earliest release, regardless of later ones")
    func earliestRelease() async throws {
        try await release(to: 1_001, at: 60)
        try await release(to: 1_002, at: 120.5)
        try await release(to: 1_001, at: 180)
        let releases = releases()
        #expect(instruments.callerFirstRelease.value(["1001"]) == nil, "no search before a release")
        await releases.released(to: 1_001)?.value
        #expect(instruments.callerFirstRelease.value(["1001"]) == 1_800_000_060)
        #expect(instruments.callerFirstRelease.value(["1002"]) == nil)
        await releases.released(to: 1_002)?.value
        #expect(instruments.callerFirstRelease.value(["1002"]) == 1_800_000_120.5)
        #expect(releases.released(to: 1_001) == nil, "the search is made once")
    }

    @Test(
        "reads the record once for all callers, and later only newer records"
    )
    func readOnce() async throws {
        for (uid, second) in [(1_002, 60.0), (1_001, 120), (1_003, 180)] {
            try await release(to: UInt32(uid), at: second)
        }
        let releases = releases()
        await releases.released(to: 1_001)?.value
        try setAway(true)
        await releases.released(to: 1_002)?.value
        #expect(instruments.callerFirstRelease.value(["1002"]) == 1_800_000_060)
        try setAway(false)
        try await release(to: 1_004, at: 240)
        await releases.released(to: 1_004)?.value
        #expect(instruments.callerFirstRelease.value(["1004"]) == 1_800_000_240)
    }

    @Test("reads an unreadable ledger again at a release ten seconds later, not at each one")
    func unreadableLedger() async throws {
        try await release(to: 1_001, at: 60)
        let clock = SteppedClock()
        let releases = releases(now: { clock.now })
        try setAway(true)
        await releases.released(to: 1_001)?.value
        #expect(instruments.callerFirstRelease.value(["1001"]) == nil)
        try setAway(false)
        clock.step(by: .milliseconds(9_999))
        #expect(releases.released(to: 1_001) == nil)
        clock.step(by: .milliseconds(1))
        await releases.released(to: 1_001)?.value
        #expect(instruments.callerFirstRelease.value(["1001"]) == 1_800_000_060)
    }

    @Test("creates series for the first thousand callers only")
    func firstThousandCallers() async throws {
        for uid in UInt32(1)...1_001 {
            ledger.note(
                AuditRecord(
                    time: AuditTime(RecordFixture.noon), event: .decrypt(reference: nil),
                    caller: AuditCaller(name: nil, uid: uid, gid: 7)))
            if uid % 200 == 0 { try await wait(for: "the notes") { try await ledger.head().sequence >= uid } }
        }
        try await wait(for: "the last note") { try await ledger.head().sequence >= 1_001 }
        let releases = releases()
        for uid in UInt32(1)...1_001 { await releases.released(to: uid)?.value }
        #expect(instruments.callerFirstRelease.value(["1000"]) == 1_800_000_000)
        #expect(instruments.callerFirstRelease.value(["1001"]) == nil)
        #expect(instruments.callerFirstRelease.value(["other"]) == nil)
    }

    @Test("starts the search at a released payment, and not at a refused one")
    func startsAtRelease() async throws {
        let fixture = try await PaymentRoutesFixture()
        let uid = String(fixture.peer.uid)
        let paymentToken = try fixture.mint()
        let refused = #"{"token":{"paymentData":{}}}"#
        #expect(try await fixture.post("/v1/decrypt", Array(refused.utf8)).status == 400)
        #expect(fixture.firstReleases.searched == 0)
        let began = Date().timeIntervalSince1970
        #expect(try await fixture.post("/v1/decrypt", paymentToken.decryptBody()).status == 200)
        #expect(fixture.firstReleases.searched == 1)
        try await wait(for: "the metric") { fixture.instruments.callerFirstRelease.value([uid]) != nil }
        let shown = try #require(fixture.instruments.callerFirstRelease.value([uid]))
        #expect(shown > began - 60 && shown < began + 60)
    }
}
