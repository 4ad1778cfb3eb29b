import AuditChain
import DaemonAPI
import Foundation
import Ledger
import Refusals
import StrictJSON
import TestSupport
import Testing

@testable import Daemon
@testable import HTTPListener

extension AuditExportTests {
    @Test("applies the same conditions to CSV, and names them")
    func csvSelection() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let query = ["format": "csv", "key": RecordRoutesFixture.key(1).base64, "caller": "billing"]
        let lines = String(decoding: try await export(fixture, query), as: UTF8.self).split(separator: "\r\n")
        #expect(lines[0].contains("key=\(RecordRoutesFixture.key(1).hex) caller=billing"))
        #expect(lines[0].contains("cannot be verified"))
        #expect(lines.dropFirst(2).map { Int($0.split(separator: ",")[1]) } == [4, 10, 16, 22, 28])
    }

    // MARK: CSV

    @Test("states in the first line of CSV that it cannot be verified, and no verifier accepts it")
    func firstLineOfCSV() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let answer = try await fixture.audit.export(RecordRoutesFixture.request(["format": "csv"]))
        #expect(answer.header("Content-Type") == "text/csv; charset=utf-8")
        let csv = try await answer.bytes
        let lines = String(decoding: csv, as: UTF8.self).split(separator: "\r\n")
        #expect(try #require(lines.first).contains("cannot be verified"))
        #expect(try #require(lines.dropFirst().first).hasPrefix("node,sequence,time,event,outcome,"))
        #expect(lines.count == 2 + 31)
        #expect(lines[2].hasPrefix("node-1,1,\(Self.minute(1)),verify,ok,checkout,1001,1001,"))
        #expect(lines[32].hasPrefix("node-1,31,"))
        if case .broken = fixture.verdict(csv) {} else { Issue.record("a verifier took CSV") }
    }

    @Test("writes exactly the records of the requested time as CSV")
    func csvBounds() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.fill(700)
        let query = ["format": "csv", "since": Self.minute(12), "until": Self.minute(660)]
        let lines = String(decoding: try await export(fixture, query), as: UTF8.self).split(separator: "\r\n")
        let sequences = lines.dropFirst(2).map { Int($0.split(separator: ",")[1]) }
        #expect(sequences == Array(12...659))
    }

    @Test("writes the other records as CSV despite one that was made unreadable")
    func csvUnreadable() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...5)
        try fixture.overwrite(3, with: "not a record")
        let lines = String(decoding: try await export(fixture, ["format": "csv"]), as: UTF8.self)
            .split(separator: "\r\n")
        #expect(lines.count == 2 + 6)
        #expect(lines[4].hasPrefix("\"# Record 3 cannot be read: "))
        #expect(lines[5].hasPrefix("node-1,4,"))
    }

    // MARK: Following

    @Test("follows in CSV too")
    func followsCSV() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...5)
        let answer = try await fixture.audit.export(
            RecordRoutesFixture.request(["follow": "true", "format": "csv", "since": Self.minute(4)]))
        guard case .stream(let stream) = answer.http.body else {
            Issue.record("not streamed")
            return
        }
        let received = Shared([UInt8]())
        let task = Task { await stream.run(into: BodyWriter { piece in received.change { $0 += piece } }) }
        func rows() -> [Int?] {
            String(decoding: received.current, as: UTF8.self).split(separator: "\r\n").dropFirst(2)
                .map { Int($0.split(separator: ",")[1]) }
        }
        try await wait(for: "what there was") { rows() == [4, 5, 6] }
        try await fixture.append(7...9)
        try await wait(for: "the new records") { rows() == [4, 5, 6, 7, 8, 9] }
        task.cancel()
        #expect(await task.value)
    }

    // MARK: The public key
}
