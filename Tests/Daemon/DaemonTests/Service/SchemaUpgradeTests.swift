import Ledger
import ServerProgram
import TestSupport
import Testing

@testable import Daemon

@Suite("A database whose schema is older than the program")
struct SchemaUpgradeTests {
    private static let older = LedgerOpeningError.olderSchema(server: "db1/paytokend", found: 4, known: 5)

    @Test("waits for the upgrade, and then opens")
    func waitsForUpgrade() async throws {
        var tries = 0
        let opened = try await SchemaUpgrade.awaited { () async throws(LedgerOpeningError) in
            tries += 1
            if tries < 3 { throw Self.older }
            return "the ledger"
        }
        #expect(opened == "the ledger")
    }

    @Test("waits a bounded time, and then exits with a status that leads to another start")
    func waitLimit() async {
        await #expect(throws: Self.older) {
            try await SchemaUpgrade.awaited(atMost: .zero) { () async throws(LedgerOpeningError) in throw Self.older }
        }
        #expect(StartFailure(ledger: Self.older).exitStatus == .tryAgainLater)
    }

    @Test("does not wait for a newer schema, which ends the start without a retry")
    func newerSchemaRefused() async {
        let newer = LedgerOpeningError.newerSchema(path: "db1/paytokend", found: 6, known: 5)
        var tries = 0
        await #expect(throws: newer) {
            try await SchemaUpgrade.awaited { () async throws(LedgerOpeningError) in
                tries += 1
                throw newer
            }
        }
        #expect(tries == 1)
        #expect(StartFailure(ledger: newer).exitStatus == .configuration)
    }
}
