import Foundation
import Refusals
import StrictJSON
import Testing

@testable import DaemonAPI

@Suite("Answers")
struct AnswerTests {
    private static let noon = Date(timeIntervalSince1970: 1_769_860_800)

    @Test("A refusal is written with its details only where it has some, and is read back")
    func refusal() throws {
        let plain = RefusalAnswer(Refusal(.forbidden, "No rule for this \"peer\"."))
        #expect(
            String(decoding: plain.json, as: UTF8.self)
                == #"{"code":"forbidden","message":"No rule for this \"peer\"."}"#)
        let detailed = RefusalAnswer(Refusal(.malformedToken, "m", details: "header"))
        #expect(
            String(decoding: detailed.json, as: UTF8.self)
                == #"{"code":"malformed_token","message":"m","details":"header"}"#)
        #expect(try JSONCoding.decode(RefusalAnswer.self, from: detailed.json) == detailed)
    }

    @Test("Times are RFC 3339 in UTC with whole seconds, rounded down, and are read with any offset")
    func times() {
        #expect(RFC3339.string(Self.noon) == "2026-01-31T12:00:00Z")
        #expect(RFC3339.string(Self.noon + 0.999) == "2026-01-31T12:00:00Z")
        #expect(RFC3339.date("2026-01-31T12:00:00Z") == Self.noon)
        #expect(RFC3339.date("2026-01-31T13:00:00+01:00") == Self.noon)
        #expect(RFC3339.date("2026-01-31T12:00:00.250Z") == Self.noon + 0.25)
        #expect(RFC3339.date("2026-01-31T00:30:00-11:30") == Self.noon)
        // The ends of what RFC 3339 can write, and the days around leap days and before 1970.
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0.0), ("1969-12-31T23:59:59Z", -1), ("2000-02-29T00:00:00Z", 951_782_400),
            ("1900-03-01T00:00:00Z", -2_203_891_200), ("2100-02-28T23:59:59Z", 4_107_542_399),
            ("0000-01-01T00:00:00Z", -62_167_219_200), ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            #expect(RFC3339.date(text) == Date(timeIntervalSince1970: seconds))
            #expect(RFC3339.string(Date(timeIntervalSince1970: seconds)) == text)
        }
        #expect(RFC3339.string(.distantFuture + 1e15) == "9999-12-31T23:59:59Z")
    }

    @Test(
        "What is no time of RFC 3339 is not read",
        arguments: [
            "", "2026-01-31", "12:00:00Z", "2026-01-31T12:00:00", "2026-13-31T12:00:00Z", "2026-01-31T25:00:00Z",
            "2026-01-31T24:00:00Z", "2026-02-29T12:00:00Z", "2100-02-29T12:00:00Z",
            "2026-01-00T12:00:00Z", "2026-01-31T12:60:00Z", "2026-01-31T12:00:60Z", "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00+24:00", "2026-01-31 12:00:00Z", "٢٠٢٦-01-31T12:00:00Z", "2026-01-31T12:00:00+0100",
            "tomorrow", "1769860800", "2026-01-31T12:00:00Z\n", String(repeating: "2", count: 1000),
        ])
    func noTimes(text: String) {
        #expect(RFC3339.date(text) == nil)
    }

    @Test("A key's members are always there, null where nothing is known")
    func keySummary() throws {
        let key = KeySummary(
            publicKeyHash: "AAAA", merchantIdentifier: nil, algorithm: "EC", state: "pre-activation", notAfter: nil,
            daysLeft: nil, tier: nil, lastUse: nil, uses: 0, condition: "external", remark: nil, tokens: [])
        let json = try JSONCoding.encode(key)
        let members = try #require(try JSONValue(parsing: json).objectValue)
        #expect(
            Set(members.members.map(\.name)) == [
                "publicKeyHash", "merchantIdentifier", "algorithm", "state", "notAfter", "daysLeft", "tier", "lastUse",
                "uses", "condition", "remark", "tokens", "cutOff",
            ])
        #expect(members["notAfter"]?.isNull == true)
        #expect(try JSONCoding.decode(KeySummary.self, from: json) == key)
    }

    @Test("A key's times and days stand in the contract's forms")
    func keyTimes() throws {
        let key = KeySummary(
            publicKeyHash: "a/+=", merchantIdentifier: "merchant.com.example", algorithm: "RSA", state: "active",
            notAfter: Self.noon, daysLeft: 30, tier: "C", lastUse: Self.noon, uses: 7, condition: "served", remark: nil,
            tokens: ["primary"])
        let text = String(decoding: try JSONCoding.encode(key), as: UTF8.self)
        #expect(text.contains(#""notAfter":"2026-01-31T12:00:00Z""#))
        #expect(text.contains(#""publicKeyHash":"a/+=""#))
        #expect(text.contains(#""daysLeft":30"#))
        #expect(try JSONCoding.decode(KeySummary.self, from: Array(text.utf8)) == key)
    }

    @Test("A list of keys is written and read as Codable does, byte for byte and member for member")
    func keyList() throws {
        let bare = KeySummary(
            publicKeyHash: "AAAA", merchantIdentifier: nil, algorithm: "EC", state: "pre-activation", notAfter: nil,
            daysLeft: nil, tier: nil, lastUse: nil, uses: 0, condition: "external", remark: nil, tokens: [])
        let full = KeySummary(
            publicKeyHash: "a/+=", merchantIdentifier: "merchant.com.\"example\"", algorithm: "RSA",
            state: "deactivated", notAfter: Self.noon, daysLeft: -30, tier: "C", lastUse: Self.noon, uses: 7,
            condition: "inconsistent", remark: "Größe: a\nb\\c 漢", tokens: ["primary", "other"],
            cutOff: Self.noon + 86_400)
        for list in [ListAnswer(items: [bare, full], next: "ab"), ListAnswer(items: [full]), ListAnswer(items: [])] {
            let bytes = list.json()
            let coded = try JSONCoding.encode(list)
            #expect(bytes == coded)
            let read = try #require(ListAnswer<KeySummary>.read(bytes))
            #expect(read.page == list)
            let parsed = try JSONValue(parsing: bytes)
            #expect(parsed.objectValue?["items"] == .array(read.items))
        }
    }

    @Test("What a newer daemon adds to a list is passed on, and what is no list of keys is none")
    func otherLists() throws {
        let key =
            #""publicKeyHash":"AA==","algorithm":"EC","state":"active","condition":"served","uses":3,"tokens":["a"]"#
        let read = try #require(
            ListAnswer<KeySummary>.read(Array(#"{"items":[{\#(key),"colour":"red","notAfter":null}],"more":1}"#.utf8)))
        #expect(read.page.items.map(\.uses) == [3] && read.page.items.first?.notAfter == nil)
        #expect(read.items.first?.objectValue?["colour"] == .string("red"))
        for text in [
            "", "[]", "{}", #"{"items":[{}]}"#, #"{"items":[{\#(key),"notAfter":"soon"}]}"#,
            #"{"items":[{\#(key),"daysLeft":"3"}]}"#, #"{"items":[{\#(key),"next":1}],"next":1}"#,
            #"{"items":[{\#(key.replacingOccurrences(of: "[\"a\"]", with: "[1]"))}]}"#,
        ] {
            #expect(ListAnswer<KeySummary>.read(Array(text.utf8))?.page == nil, "\(text)")
        }
    }

    @Test("Days left are whole days rounded down, negative when past")
    func daysLeft() {
        #expect(KeySummary.daysLeft(until: Self.noon + 86_400, now: Self.noon) == 1)
        #expect(KeySummary.daysLeft(until: Self.noon + 86_399, now: Self.noon) == 0)
        #expect(KeySummary.daysLeft(until: Self.noon - 1, now: Self.noon) == -1)
    }

    @Test("The decrypted dictionary stands in the answer byte for byte, and the answer is read back")
    func decrypt() throws {
        // Spaces, escapes and number forms as no writer of ours would make them.
        let payment = Array(
            #"{ "applicationPrimaryAccountNumber" : "x\/\u0041", "transactionAmount":1099.0e0 ,"a":[ ]}"#.utf8)
        let answer = DecryptAnswer(
            transactionId: String(repeating: "a", count: 64), merchantIdentifier: "merchant.com.example",
            publicKeyHash: "AAAA", version: "EC_v1", signingTime: Self.noon, protection: "C",
            checked: ["currencyCode"], repeated: true)
        let json = answer.json(paymentData: payment)
        #expect(json.firstRange(of: payment) != nil)
        let (read, data) = try #require(DecryptAnswer.read(json))
        #expect(read.transactionId == answer.transactionId)
        #expect(read.signingTime == Self.noon)
        #expect(read.checked == ["currencyCode"])
        #expect(read.repeated)
        #expect(data["applicationPrimaryAccountNumber"]?.stringValue == "x/A")
        #expect(DecryptAnswer.read(RefusalAnswer(Refusal(.forbidden, "m")).json) == nil)
    }

    @Test("A status of a newer daemon with more members is read")
    func forwardCompatible() throws {
        let status = StatusAnswer(
            version: "0.1.0", node: "n", startedAt: Self.noon, ready: true, reasons: [],
            tokens: [TokenStatus(name: "primary", condition: "ready", sessions: 2, tierECv1: "C")],
            ledger: LedgerStatus(engine: "sqlite", condition: "writable", schemaVersion: 1),
            trust: TrustStatus(roots: [], distrusted: 0, signingTimeWindow: "5m"), warnings: [])
        var text = String(decoding: try JSONCoding.encode(status), as: UTF8.self)
        text.insert(contentsOf: #""somethingNew":{"a":1},"#, at: text.index(after: text.startIndex))
        #expect(try JSONCoding.decode(StatusAnswer.self, from: Array(text.utf8)) == status)
    }
}
