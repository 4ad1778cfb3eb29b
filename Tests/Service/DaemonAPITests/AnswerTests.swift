import Foundation
import Refusals
import StrictJSON
import Testing

@testable import DaemonAPI

@Suite("Answers")
struct AnswerTests {
    private static let noon = Date(timeIntervalSince1970: 1_769_860_800)

    @Test("Writes a refusal with details only if it has some, and reads it back")
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

    @Test("Writes every member of a key, with null for unknown values")
    func keySummary() throws {
        let key = KeySummary(
            publicKeyHash: "AAAA", merchantIdentifier: nil, algorithm: "EC", state: "pre-activation", notAfter: nil,
            daysLeft: nil, tier: nil, lastUse: nil, uses: 0, condition: "external", remark: nil, tokens: [])
        let json = try JSONCoding.encode(key)
        let members = try #require(try JSONValue(parsing: json).objectValue)
        #expect(
            Set(members.members.map(\.name)) == [
                "publicKeyHash", "merchantIdentifier", "algorithm", "state", "notAfter", "daysLeft", "tier", "lastUse",
                "use", "uses", "condition", "remark", "tokens", "cutOff", "nodes",
            ])
        #expect(members["notAfter"]?.isNull == true)
        #expect(try JSONCoding.decode(KeySummary.self, from: json) == key)
    }

    @Test("Writes null for attributes that an HSM token does not report, and only a message if the HSM token is away")
    func keyAttributes() throws {
        let attributes = [
            KeyAttributes(
                token: "primary",
                KeyAttributes.Values(
                    sensitive: true, extractable: false, neverExtractable: false, local: true, private: true,
                    modifiable: false, uses: ["derive"], strength: "P-256", shortcomings: ["A sentence."])),
            KeyAttributes(token: "second", message: "It is away."),
        ]
        let json = try JSONCoding.encode(attributes)
        #expect(
            String(decoding: json, as: UTF8.self)
                == #"[{"alwaysSensitive":null,"extractable":false,"local":true,"modifiable":false,"#
                + #""neverExtractable":false,"private":true,"sensitive":true,"shortcomings":["A sentence."],"#
                + #""strength":"P-256","token":"primary","uses":["derive"]},"#
                + #"{"away":true,"message":"It is away.","token":"second"}]"#)
        #expect(try JSONCoding.decode([KeyAttributes].self, from: json) == attributes)
    }

    @Test("Writes a key's times in RFC 3339, and its remaining days as a number")
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

    @Test("Writes and reads a list of keys exactly as Codable does")
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

    @Test("Keeps members that a newer daemon adds to a list, and refuses anything but a list of keys")
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

    @Test("Rounds remaining days down to whole days, below zero once the time has passed")
    func daysLeft() {
        #expect(KeySummary.daysLeft(until: Self.noon + 86_400, now: Self.noon) == 1)
        #expect(KeySummary.daysLeft(until: Self.noon + 86_399, now: Self.noon) == 0)
        #expect(KeySummary.daysLeft(until: Self.noon - 1, now: Self.noon) == -1)
    }

    @Test("Writes the decrypted dictionary unchanged, and reads the answer back")
    func decrypt() throws {
        // Spaces, escapes and number forms that this project's JSON writer never produces.
        let payment = Array(
            #"{ "applicationPrimaryAccountNumber" : "x\/\u0041", "transactionAmount":1099.0e0 ,"a":[ ]}"#.utf8)
        let answer = DecryptAnswer(
            transactionId: String(repeating: "a", count: 64), merchantIdentifier: "merchant.com.example",
            publicKeyHash: "AAAA", version: "EC_v1", signingTime: Self.noon, protection: "C",
            checked: ["currencyCode"], repeated: true)
        let json = answer.json(paymentData: payment)
        #expect(json.firstRange(of: payment) != nil)
        let (read, data, _) = try #require(DecryptAnswer.read(json))
        #expect(read.transactionId == answer.transactionId)
        #expect(read.signingTime == Self.noon)
        #expect(read.checked == ["currencyCode"])
        #expect(read.repeated)
        #expect(data["applicationPrimaryAccountNumber"]?.stringValue == "x/A")
        #expect(DecryptAnswer.read(RefusalAnswer(Refusal(.forbidden, "m")).json) == nil)
    }

    @Test("Reads a status to which a newer daemon has added members")
    func forwardCompatible() throws {
        let status = StatusAnswer(
            version: "0.1.0", node: "n", startedAt: Self.noon, ready: true, reasons: [],
            tokens: [HSMTokenStatus(name: "primary", condition: "ready", sessions: 2, tierECv1: "C")],
            ledger: LedgerStatus(engine: "sqlite", condition: "writable", schemaVersion: 1),
            trust: TrustStatus(roots: [], distrusted: 0, signingTimeWindow: "5m"), warnings: [])
        var text = String(decoding: try JSONCoding.encode(status), as: UTF8.self)
        text.insert(contentsOf: #""somethingNew":{"a":1},"#, at: text.index(after: text.startIndex))
        #expect(try JSONCoding.decode(StatusAnswer.self, from: Array(text.utf8)) == status)
    }

    @Test("Reads a key's use as processing if an older daemon does not state it")
    func olderDaemon() throws {
        let key = KeySummary(
            publicKeyHash: "AAAA", merchantIdentifier: nil, algorithm: "EC", state: "active", notAfter: nil,
            daysLeft: nil, tier: nil, lastUse: nil, uses: 0, condition: "served", remark: nil, tokens: [])
        let rotation = RotationStatus(
            merchantIdentifier: "m", algorithm: "EC", phase: "none", next: "n", newKey: nil, oldKeys: [], steps: [],
            remarks: [])
        let planned = KeyGenerationDryRun(merchantIdentifier: "m", algorithm: "EC", token: "primary")
        func older(_ value: some Encodable) throws -> [UInt8] {
            let text = String(decoding: try JSONCoding.encode(value), as: UTF8.self)
            let without = text.replacing(#""use":"processing""#, with: #""somethingNew":1"#)
            #expect(without != text)
            return Array(without.utf8)
        }
        #expect(try JSONCoding.decode(KeySummary.self, from: older(key)) == key)
        #expect(try JSONCoding.decode(RotationStatus.self, from: older(rotation)) == rotation)
        #expect(try JSONCoding.decode(KeyGenerationDryRun.self, from: older(planned)) == planned)
    }
}
