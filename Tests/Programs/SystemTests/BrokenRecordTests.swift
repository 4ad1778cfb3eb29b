import Foundation
import GRDB
import TestSupport
import Testing
import TokenForge

/// The daemon's detection of a changed audit record.
@Suite struct BrokenRecordTests {
    private static let verdict = "paytokend_record_check_verdict"

    @Test("detects a changed audit record, reports it in metrics, log and status, and still releases payments")
    func changedRecord() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let released = try await harness.decrypt(SharedForge.paymentToken())
        #expect(released.status == 200)
        try await wait(for: "the first look") { try await harness.metric(Self.verdict) == [1] }
        #expect(try await harness.stop().status == 0)

        let database = try DatabaseQueue(path: harness.directory.path("ledger.sqlite"))
        try await database.write { db in
            try db.execute(
                sql: """
                    UPDATE audit_record SET line = CAST(replace(CAST(line AS TEXT), '"ok"', '"no"') AS BLOB)
                    WHERE event = 'decrypt'
                    """)
            #expect(db.changesCount == 1)
        }
        try database.close()

        try await harness.start()
        try await wait(for: "the check at the start") { try await harness.metric(Self.verdict) == [0] }
        let age = try #require(try await harness.metric("paytokend_record_check_age_seconds").first)
        #expect(age >= 0 && age < 300)
        let sequence = try #require(released.member("audit")?.objectValue?["sequence"]?.numberValue?.text)
        #expect(try harness.daemon.error.contains("the record's chain is broken"))
        let status = try await harness.paytokenctl(["status"])
        #expect(status.status == 0 && status.error.contains("record \(sequence): "), "\(status)")
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        let verified = try await harness.paytokenctl(["audit", "verify"])
        #expect(
            verified.status == 1 && (verified.output + verified.error).contains("record \(sequence)"), "\(verified)")
        #expect(try await harness.stop().status == 0)
    }
}
