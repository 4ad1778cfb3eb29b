import AuditChain
import StrictJSON
import TestSupport
import Testing

@testable import AuditReport

@Suite("Google Pay keys in a report")
struct GooglePayKeyTests {
    private static let facts = KeyFacts(algorithm: .ec, origin: .imported, wallet: .googlePay)
    private static let added = AuditEvent.keyStateChange(KeyStateChange(from: .preActivation, to: .active))

    private func key(_ book: RecordBook, _ key: AuditDigest = RecordBook.key) throws -> JSONObject {
        let keys = (try book.report(to: 744).objectValue?["keys"]?.arrayValue ?? []).compactMap(\.objectValue)
        return try #require(keys.first { $0["key"]?.stringValue == key.base64 })
    }

    @Test(
        "counts a key as serving since the statement that it is in Google's console, whatever brought it into the ledger",
        arguments: [
            .keyGenerate(key: facts), .keyImport(certificate: nil, approval: nil, key: facts),
            .keyAdopt(approval: nil, key: facts),
        ] as [AuditEvent])
    func served(arrival: AuditEvent) async throws {
        var book = RecordBook()
        try book.add(arrival, at: 1, by: "alice", key: RecordBook.key)
        var waiting = try key(book)
        #expect(waiting["state"]?.stringValue == "pre-activation" && waiting["service"] == nil)
        try await book.expectRecounted()
        // Another host imports the same file while the key waits.
        try book.add(arrival, at: 2, by: "alice", key: RecordBook.key)
        waiting = try key(book)
        #expect(waiting["state"]?.stringValue == "pre-activation" && waiting["service"] == nil)
        try book.add(Self.added, at: 30, by: "alice", key: RecordBook.key)
        for (from, to, hours) in [(AuditKeyState.active, AuditKeyState.suspended, 40.0), (.suspended, .active, 50)] {
            try book.add(
                .keyStateChange(KeyStateChange(from: from, to: to)), at: hours, by: "alice", key: RecordBook.key)
        }
        let serving = try key(book)
        #expect(serving["state"]?.stringValue == "active")
        #expect(serving["service"]?.objectValue?["from"]?.stringValue == RecordBook.time(30).text)
        #expect(serving["cameAt"]?.stringValue == RecordBook.time(1).text)
        try await book.expectRecounted()
    }

    @Test(
        "finds the activation of a key whose arrival does not name the wallet, or is archived",
        arguments: [true, false])
    func olderRecords(isArchived: Bool) async throws {
        var book = RecordBook()
        try book.add(.keyImport(certificate: nil, approval: nil), at: 1, by: "alice", key: RecordBook.key)
        try book.add(
            .keyStates(try #require(KeyStatesPart.parts(of: [(RecordBook.key, .preActivation)]).first)), at: 2)
        try book.add(Self.added, at: 30, by: "alice", key: RecordBook.key)
        if isArchived { try book.archive(1) }
        #expect(try key(book)["service"]?.objectValue?["from"]?.stringValue == RecordBook.time(30).text)
        try await book.expectRecounted()
    }

    @Test("counts no key as a successor before it serves, and names the use of a key that opened messages")
    func successor() async throws {
        var book = RecordBook()
        for (key, hours) in [(RecordBook.key, 1.0), (RecordBook.other, 10)] {
            try book.add(
                .keyImport(certificate: nil, approval: nil, key: Self.facts), at: hours, by: "alice", key: key)
        }
        try book.add(Self.added, at: 2, by: "alice", key: RecordBook.key)
        try book.add(.decryptGooglePay(GooglePayDecryption()), at: 20, by: "checkout", key: RecordBook.key)
        #expect(try key(book)["successor"] == nil && key(book)["use"]?.stringValue == "google-pay")
        #expect(try key(book, RecordBook.other)["use"] == nil)
        try book.add(Self.added, at: 30, by: "alice", key: RecordBook.other)
        try book.add(.decryptGooglePay(GooglePayDecryption()), at: 40, by: "checkout", key: RecordBook.key)
        let successor = try #require(try key(book)["successor"]?.objectValue)
        #expect(successor["since"]?.stringValue == RecordBook.time(30).text)
        #expect(successor["opened"]?.objectValue?["requests"]?.objectValue?["count"]?.numberValue?.int == 1)
        try await book.expectRecounted()
    }
}
