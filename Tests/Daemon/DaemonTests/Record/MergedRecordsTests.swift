import AuditChain
import Foundation
import Ledger
import SQLiteLedger
import TestSupport
import Testing

@testable import UsageRecording

@Suite("Records of several nodes, merged by time")
struct MergedRecordsTests {
    private let directory: FreshDirectory

    init() throws { directory = try FreshDirectory() }

    private static func time(_ minute: Int) -> AuditTime {
        AuditTime(RecordRoutesFixture.noon.addingTimeInterval(Double(minute) * 60))
    }

    /// Makes a node's chain with a record at each of these minutes.
    private func chain(_ name: String, _ minutes: [Int]) async throws -> (node: AuditNode, chain: any ChainReading) {
        let ledger = try await SQLiteLedger.open(
            SQLiteLedger.Settings(path: directory.path(name), node: name))
        for minute in minutes {
            _ = try await ledger.append(AuditRecord(time: Self.time(minute), event: .verify))
        }
        return (try #require(AuditNode(name)), ledger)
    }

    /// Reads all pages of this size, and returns the records' nodes and sequence numbers, such as `a1 b2`.
    private func pages(
        _ chains: [(node: AuditNode, chain: any ChainReading)], _ order: AuditOrder, size: Int,
        filter: AuditFilter = AuditFilter()
    ) async throws -> String {
        let merged = MergedRecords(chains: chains, filter: filter, order: order)
        var names: [String] = []
        var cursor: MergedRecords.Cursor?
        repeat {
            let page = try await merged.page(after: cursor, limit: size)
            #expect(page.records.count <= size)
            names += try page.records.map { record in
                let entry = try AuditEntry(line: record.line)
                return "\(entry.node.name)\(entry.sequence)"
            }
            // The cursor is converted to text and back, as a client sends it.
            cursor = page.next.flatMap { MergedRecords.Cursor($0.text, of: chains.count == 1 ? .own : .all) }
            #expect((cursor == nil) == (page.next == nil))
        } while cursor != nil && names.count < 100
        return names.joined(separator: " ")
    }

    @Test("lists each record once in pages of any size, merged by time and in each chain's order", arguments: 1...5)
    func mergedByTime(size: Int) async throws {
        let chains = [
            try await chain("a", [1, 4, 5, 9]), try await chain("b", [2, 3, 6]), try await chain("c", []),
        ]
        #expect(try await pages(chains, .oldestFirst, size: size) == "a1 b1 b2 a2 a3 b3 a4")
        #expect(try await pages(chains, .newestFirst, size: size) == "a4 b3 a3 a2 b2 b1 a1")
        #expect(try await pages([chains[1]], .newestFirst, size: size) == "b3 b2 b1")
    }

    @Test(
        "lists every record even if a node's clock was set back", arguments: 1...4
    )
    func wrongClock(size: Int) async throws {
        let chains = [try await chain("a", [1, 8, 2, 3]), try await chain("b", [4, 5])]
        #expect(try await pages(chains, .oldestFirst, size: size) == "a1 b1 b2 a2 a3 a4")
        var filter = AuditFilter()
        filter.since = Self.time(3)
        #expect(try await pages(chains, .newestFirst, size: size, filter: filter) == "b2 b1 a4 a2")
    }

    @Test(
        "refuses a cursor that does not belong to the query",
        arguments: ["", "a", "a:", ":1", "a:1,", "a:1,a:2", "a:-1", "a:1:2", "17"])
    func foreignCursor(text: String) {
        #expect(MergedRecords.Cursor(text, of: .all) == nil)
        #expect((MergedRecords.Cursor(text, of: .own) == nil) == (text != "17"))
    }
}
