import AuditChain
import KeyTypes
import StrictJSON
import Testing

@testable import AuditReport

/// What HSM tokens said of themselves and of their keys, as the record has it. `scripts/recount-report` finds the same in
/// each test.
@Suite("The report's HSM tokens and their keys")
struct HSMTokenFactsTests {
    /// The attributes of a P-256 key that the HSM token made.
    private static let made = RecordedKeyAttributes(
        algorithm: .ec, bits: 256, sensitive: true, extractable: false, alwaysSensitive: true, neverExtractable: true,
        local: true, token: true, private: true, modifiable: true, uses: [.derive])

    private static func changed(_ change: (inout RecordedKeyAttributes) -> Void) -> RecordedKeyAttributes {
        var attributes = made
        change(&attributes)
        return attributes
    }

    /// The attributes of a key that was imported from a file.
    private static let imported = changed {
        ($0.local, $0.alwaysSensitive, $0.neverExtractable) = (false, false, false)
    }

    private static let generate = AuditEvent.keyGenerate(key: KeyFacts(algorithm: .ec, origin: .generated))
    private static let importing = AuditEvent.keyImport(
        certificate: nil, approval: nil, key: KeyFacts(algorithm: .ec, origin: .imported))
    private static let adopt = AuditEvent.keyAdopt(approval: nil, key: KeyFacts(algorithm: .ec, origin: .adopted))

    private static func report(_ book: RecordBook) async throws -> JSONObject {
        try await book.expectRecounted()
        return try #require(book.report(to: 24 * 31).objectValue)
    }

    private static func objects(_ value: JSONValue?, _ name: String) -> [JSONObject] {
        (value?.objectValue?[name]?.arrayValue ?? []).compactMap(\.objectValue)
    }

    /// Returns the attributes of a key.
    private static func rows(_ report: JSONObject, _ key: AuditDigest) throws -> [JSONObject] {
        let keys = (report["keys"]?.arrayValue ?? []).compactMap(\.objectValue)
        let found = try #require(keys.first { $0["key"]?.stringValue == key.base64 })
        return (found["attributes"]?.arrayValue ?? []).compactMap(\.objectValue)
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let arrival: AuditEvent?
        let attributes: [RecordedKeyAttributes]
        let warnings: [String]
        var testDescription: String { warnings.joined(separator: " ") }

        init(_ arrival: AuditEvent?, _ attributes: [RecordedKeyAttributes], _ warnings: [String] = []) {
            (self.arrival, self.attributes, self.warnings) = (arrival, attributes, warnings)
        }
    }

    @Test(
        "warns of attributes that are insecure or contradict the record, and of no others",
        arguments: [
            Case(generate, [made]), Case(importing, [imported]), Case(adopt, [imported]), Case(nil, [imported]),
            Case(generate, [imported], ["alwaysSensitive", "neverExtractable", "not_made_here"]),
            Case(importing, [made], ["made_here"]),
            Case(adopt, [changed { $0.neverExtractable = false }], ["neverExtractable"]),
            Case(
                generate,
                [changed { ($0.sensitive, $0.extractable, $0.private, $0.token) = (false, true, false, false) }],
                ["sensitive", "extractable", "private", "stored"]),
            Case(
                generate, [changed { ($0.sensitive, $0.extractable) = (nil, nil) }],
                ["not_reported CKA_SENSITIVE", "not_reported CKA_EXTRACTABLE"]),
            Case(generate, [changed { ($0.algorithm, $0.bits) = (.rsa, 2048) }], ["strength EC 256"]),
            Case(nil, [changed { ($0.algorithm, $0.bits) = (.rsa, 1024) }], ["strength EC 256 or RSA 2048"]),
            Case(generate, [made, made], ["copies"]),
        ])
    func warnings(of test: Case) async throws {
        var book = RecordBook()
        if let arrival = test.arrival { try book.add(arrival, at: 1, by: "alice", key: RecordBook.key) }
        try book.add(.keyAttributes(test.attributes), at: 2, key: RecordBook.key, hsmToken: "primary")
        let rows = try Self.rows(await Self.report(book), RecordBook.key)
        let found = Self.objects(.object(try #require(rows.first)), "warnings").map { warning in
            [warning["kind"]?.stringValue, warning["attribute"]?.stringValue].compactMap(\.self).joined(separator: " ")
        }
        #expect(found == test.warnings && rows.count == 1)
    }

    @Test("shows what each node recorded last, equal statements in one row, also of a destroyed key")
    func rows() async throws {
        var book = RecordBook()
        let (open, destroyed) = (Self.changed { $0.extractable = true }, AuditDigest.of([9]))
        for node in ["node-1", "node-2"] {
            try book.add(.keyAttributes([open]), on: node, at: 1, key: RecordBook.key, hsmToken: "primary")
            try book.add(.keyAttributes([Self.made]), on: node, at: 2, key: RecordBook.key, hsmToken: "primary")
            try book.add(.keyAttributes([Self.made]), on: node, at: 2, key: destroyed, hsmToken: "primary")
        }
        try book.add(.keyAttributes([open]), on: "node-2", at: 3, key: RecordBook.key, hsmToken: "second")
        try book.add(.keyStateChange(KeyStateChange(from: nil, to: .destroyed)), at: 4, key: destroyed)
        try book.add(.keyObjectsDestroy, on: "node-2", at: 5, key: destroyed, hsmToken: "primary")
        try book.add(Self.generate, at: 6, by: "alice", key: RecordBook.other)
        let report = try await Self.report(book)
        let rows = try Self.rows(report, RecordBook.key)
        #expect(rows.map { $0["token"]?.stringValue } == ["primary", "second"])
        #expect(rows[0]["records"]?.arrayValue?.map(\.stringValue) == ["node-1 2", "node-2 2"])
        #expect(try Self.rows(report, destroyed).count == 1 && Self.rows(report, RecordBook.other).isEmpty)
        let page = try book.page()
        #expect(page.contains("The private keys of 1 of the 2 keys that HSM tokens describe lack protection"))
        #expect(page.contains("<strong>Warnings: extractable.</strong>"))
        #expect(page.contains("CKA_EXTRACTABLE is true: anyone with the PIN"))
        #expect(page.contains("which removed it from its HSM tokens; node-2 then removed it from theirs"))
    }

    @Test("finds since when a key was described with a warning, and how many payment tokens were opened since")
    func warnedSince() async throws {
        var book = RecordBook()
        let (decrypt, open) = (AuditEvent.decrypt(reference: nil), Self.changed { $0.extractable = true })
        // In the export, this node comes before the one that first recorded the copy.
        for hours in [4.0, 6] { try book.add(decrypt, at: hours, by: "checkout", key: RecordBook.key) }
        try book.add(.keyAttributes([Self.made, open]), at: 7, key: RecordBook.key, hsmToken: "primary")
        try book.add(.keyAttributes([Self.made]), on: "node-2", at: 1, key: RecordBook.key, hsmToken: "primary")
        try book.add(.keyAttributes([Self.made, open]), on: "node-2", at: 5, key: RecordBook.key, hsmToken: "primary")
        try book.add(decrypt, .repeated, on: "node-2", at: 8, by: "checkout", key: RecordBook.key)
        try book.add(decrypt, .refused(.overloaded), on: "node-2", at: 9, by: "checkout", key: RecordBook.key)
        // The copy was deleted: the last statement has no warning, and the finding stays.
        try book.add(.keyAttributes([Self.made]), on: "node-2", at: 10, key: RecordBook.key, hsmToken: "primary")
        try book.add(.keyAttributes([Self.made]), at: 10, key: RecordBook.key, hsmToken: "primary")
        let report = try await Self.report(book)
        let findings = (report["findings"]?.arrayValue ?? []).compactMap(\.objectValue)
        #expect(findings.map { $0["kind"]?.stringValue } == ["key_attributes"])
        #expect(findings[0]["time"]?.stringValue == RecordBook.time(5).text)
        #expect(findings[0]["node"] == nil && findings[0]["count"]?.numberValue?.int == 2)
        #expect(findings[0]["nodes"]?.arrayValue?.map(\.stringValue) == ["node-1", "node-2"])
        #expect(findings[0]["until"]?.stringValue == RecordBook.time(8).text)
        let warnings = Self.objects(.object(findings[0]), "warnings").map { $0["kind"]?.stringValue }
        #expect(warnings == ["copies", "extractable"])
        #expect(report["attributes"]?.objectValue?["warned"] == nil)
        #expect(findings[0]["dayBefore"]?.numberValue?.int == 1 && findings[0]["sinceUnrecorded"] == nil)
        // Its uses in no record begin before the first of these warnings.
        book.tokenUses = [ReconciliationTests.log([3.5])]
        try await book.expectRecounted()
        #expect(
            try book.page().contains(
                "in the day before, 1 more. The key&#39;s uses in no record begin at 2026-01-01 03:30:00: payment tokens "
                    + "opened from then on may be known to others too, 3 by these records."))
    }

    @Test("finds a log of another HSM token than the record's, by its serial number", arguments: ["1a2b", "ffff", nil])
    func otherSerial(serial: String?) async throws {
        var book = RecordBook()
        for (number, node) in [("1a2b", "node-1"), ("3c4d", "node-2")] {
            try book.add(
                .tokenAttributes(
                    RecordedHSMToken(
                        label: AuditText("pay"), serialNumber: AuditText(number), manufacturer: AuditText("Example"),
                        model: AuditText("Nine"), hardwareVersion: AuditText("3"), firmwareVersion: AuditText("7"),
                        library: AuditText("Example"), tierECv1: .a, tierRSAv1: nil, shortcomings: [])), on: node,
                at: 1, hsmToken: "primary")
        }
        let members = serial.map { #""serial":"\#($0)","# } ?? ""
        book.tokenUses = [
            [
                #"{"format":"paytokend-token-uses","version":1,"kind":"log","token":"primary","node":"node-1",\#(members)"#
                    + #""since":"2026-01-01T00:00:00Z","until":"2026-01-20T00:00:00Z"}"#,
                #"{"time":"2026-01-10T00:00:00Z","publicKeyHash":"\#(RecordBook.key.base64)","operation":"derive"}"#,
            ]
        ]
        let report = try await Self.report(book)
        let findings = (report["findings"]?.arrayValue ?? []).compactMap(\.objectValue)
        let isOther = serial == "ffff"
        let kinds = (isOther ? ["other_serial"] : []) + ["unrecorded_uses"]
        #expect(findings.map { $0["kind"]?.stringValue } == kinds)
        #expect(findings.last?["otherSerial"]?.boolValue == (isOther ? true : nil))
        let page = try book.page()
        #expect(page.contains("A log is of an HSM token with another serial number") == isOther)
        #expect(page.contains("It names no serial number") == (serial == nil))
    }

    @Test("states how many of the uses in no record are seals by an audit key, and how many of those a loss explains")
    func seals() async throws {
        var book = RecordBook()
        try book.add(.start(version: AuditText("1.0.0")), at: 1)
        try book.add(.verify, at: 2, by: "checkout")
        try book.seal(at: 2)
        // Five records are lost, from hour 2 to hour 100.
        try book.add(.start(version: AuditText("1.0.0")), at: 100)
        try book.add(
            .ledgerAcceptRestore(LedgerRestore(ledgerSequence: 3, hsmTokenSequence: 7, reason: nil)), at: 101, by: "bob"
        )
        let header =
            #"{"format":"paytokend-token-uses","version":1,"kind":"log","#
            + #""since":"2026-01-01T00:00:00Z","until":"2026-01-20T00:00:00Z"}"#
        // The audit key of the book's audit checkpoints is zero.
        let uses = [
            ("01", AuditDigest.zero), ("03", .zero), ("03", .zero), ("10", .zero), ("03", RecordBook.key),
            ("10", RecordBook.key),
        ]
        let lines = uses.map { day, key in
            #"{"time":"2026-01-\#(day)T02:00:00Z","publicKeyHash":"\#(key.base64)","operation":"x"}"#
        }
        book.tokenUses = [[header] + lines]
        let report = try await Self.report(book)
        let verdict = try #require(report["verdict"]?.objectValue)
        let figures = ["unexplained", "explainable", "certain", "seals", "explainableSeals"]
        #expect(figures.map { verdict[$0]?.numberValue?.int } == [5, 3, 2, 3, 2])
        let sentence = "never records of uses: 3 of the 5, and 2 of the 3."
        #expect(try book.page().ranges(of: sentence).count == 2)
    }

    @Test("shows an HSM token's newest description with the validation that the operator states, and the missing ones")
    func hsmTokens() async throws {
        var book = RecordBook()
        func described(_ firmware: String) -> AuditEvent {
            .tokenAttributes(
                RecordedHSMToken(
                    label: AuditText("pay"), serialNumber: AuditText("1a2b"), manufacturer: AuditText("<b>Example"),
                    model: AuditText("Nine"), hardwareVersion: AuditText("3.0"), firmwareVersion: AuditText(firmware),
                    library: AuditText("Example 1.2"), tierECv1: .a, tierRSAv1: nil,
                    shortcomings: [AuditText("It has no RSA.")]))
        }
        var values = ConfigurationValues()
        values.set("tokens.primary.module", ConfigurationValue("/usr/lib/a.so"))
        values.set("tokens.primary.validation", ConfigurationValue("FIPS 140-3 level 3"))
        values.set("tokens.second.module", ConfigurationValue("/usr/lib/b.so"))
        for event in values.events() { try book.add(event, at: 1) }
        for firmware in ["7.11", "7.12"] { try book.add(described(firmware), at: 2, hsmToken: "primary") }
        let tokens = try #require(try await Self.report(book)["tokens"]?.arrayValue).compactMap(\.objectValue)
        #expect(tokens.map { $0["firmware"]?.stringValue } == ["7.12", nil])
        #expect(tokens[0]["validation"]?.stringValue == "FIPS 140-3 level 3" && tokens[1]["record"] == nil)
        let page = try book.page()
        #expect(page.contains("<td>&lt;b&gt;Example, Nine</td><td>1a2b</td><td>3.0, 7.12</td>"))
        #expect(page.contains("<td colspan=\"6\">not recorded</td><td>not stated</td>"))
    }

    @Test(
        "shows a key's algorithm, origin and newest certificate, also if its arrival is archived, or says not recorded")
    func facts() async throws {
        var book = RecordBook()
        func certificate(_ days: Double, _ issuer: String) -> AuditEvent {
            .certificateImport(
                certificate: .of(Array(issuer.utf8)),
                key: KeyFacts(
                    algorithm: .rsa, origin: .generated, certificateEnd: RecordBook.time(days * 24),
                    issuer: AuditText(issuer)))
        }
        try book.add(.keyGenerate(), at: 1, by: "alice", key: RecordBook.key)
        try book.add(certificate(400, "CN=new"), on: "node-2", at: 30, by: "bob", key: RecordBook.other)
        try book.add(certificate(300, "CN=old"), on: "node-3", at: 20, by: "bob", key: RecordBook.other)
        try book.add(
            certificate(500, "CN=refused"), .refused(.certificateUnsuitable), at: 40, by: "bob", key: RecordBook.other)
        let keys = try #require(try await Self.report(book)["keys"]?.arrayValue).compactMap(\.objectValue)
        #expect(keys.map { $0["algorithm"]?.stringValue } == [nil, "RSA"] && keys[1]["bits"]?.numberValue?.int == 2048)
        #expect(keys.map { $0["came"]?.stringValue } == ["key_generate", "key_generate"] && keys[1]["arrival"] == nil)
        #expect(keys[1]["issuer"]?.stringValue == "CN=new")
        #expect(keys[1]["certificateEnd"]?.stringValue == RecordBook.time(400 * 24).text)
        let page = try book.page()
        #expect(page.contains("algorithm not recorded<br>") && page.contains("…</code> RSA, 2048<br>"))
        let digest = AuditDigest.of(Array("CN=new".utf8)).hex
        #expect(page.contains("Certificate: to 2027-02-05, CN=new, SHA-256 <code>\(digest)</code></td>"))
    }
}
