import Foundation
import TestSupport
import Testing

@testable import AuditChain

@Suite("Reading lines of the audit record")
struct AuditEntryTests {
    @Test("reads each member of a line from the contract")
    func read() throws {
        let entry = try AuditEntry(line: Array(GoldenLineTests.second.utf8))
        #expect(entry.event == "key_state_change")
        #expect(entry.details["reason"]?.stringValue == "a \"leak\" in café\\bar")
        #expect(entry.details.members.map(\.name) == ["from", "to", "reason"])
        #expect(entry.caller?.name?.text == "ops")
        #expect(entry.transactionId == nil)
    }

    @Test("reads unknown events, outcomes and members of a newer version")
    func newer() throws {
        let line = try Array(GoldenLineTests.second.utf8)
            .replacing("key_state_change", with: "key_teleport").replacing(#""ok""#, with: #""not_today""#)
            .replacing(#""from":"active""#, with: #""whence":{"a":1,"b":[true,null]}"#)
        let entry = try AuditEntry(line: line)
        #expect(entry.event == "key_teleport")
        #expect(entry.outcome == "not_today")
        #expect(entry.details.members.first?.name == "whence")
    }

    static let faults: [(text: String, with: String, error: AuditEntryError)] = [
        (#","sequence""#, #", "sequence""#, .notCanonical),
        ("backend", #"back\u0065nd"#, .notCanonical),
        ("café", #"caf\u00e9"#, .notCanonical),
        (#""uid":0"#, #""uid":0.0"#, .member("uid")),
        (#""uid":0"#, #""uid":-1"#, .member("uid")),
        (#""uid":0"#, #""uid":4294967296"#, .member("uid")),
        (#""uid":0,"gid":0"#, #""gid":0,"uid":0"#, .member("uid")),
        (#""gid":0"#, #""gid":0,"shell":"x""#, .member("caller")),
        (#"{"name":"ops","uid":0,"gid":0}"#, #""ops""#, .member("caller")),
        (#""sequence":2"#, #""sequence":0"#, .member("sequence")),
        (#""sequence":2"#, #""sequence":"2""#, .member("sequence")),
        ("2026-01-31T12:00:00.007Z", "2026-01-31T12:00:00Z", .member("time")),
        ("2026-01-31", "2026-02-30", .member("time")),
        ("backend-1", "back end", .member("node")),
        (
            #""event":"key_state_change","outcome":"ok""#, #""outcome":"ok","event":"key_state_change""#,
            .member("event")
        ),
        (#""event":"key_state_change","#, "", .member("event")),
        ("key_state_change", "Key State", .member("event")),
        (#""outcome":"ok""#, #""outcome":null"#, .member("outcome")),
        ("AAEC", "AAE", .member("publicKeyHash")),
        ("Hh8=", "Hh9=", .member("publicKeyHash")),
        (#""from":"active""#, #""merchant2":"x","token":"late""#, .member("token")),
        ("694e7d33", "694E7D33", .member("hash")),
        (#"445f7a7"}"#, #"445f7a7","more":1}"#, .member("hash")),
    ]

    @Test("refuses a malformed line", arguments: faults.indices)
    func refused(index: Int) throws {
        let fault = Self.faults[index]
        let line = try Array(GoldenLineTests.second.utf8).replacing(fault.text, with: fault.with)
        #expect(throws: fault.error) { try AuditEntry(line: line) }
    }

    @Test("refuses a repeated member, an array, a checkpoint and a line that is too long")
    func otherThings() throws {
        let twice = try Array(GoldenLineTests.second.utf8).replacing(#""from""#, with: #""to""#)
        #expect(throws: AuditEntryError.self) { try AuditEntry(line: twice) }
        #expect(throws: AuditEntryError.notARecord) { try AuditEntry(line: Array("[]".utf8)) }
        #expect(throws: AuditEntryError.member("node")) {
            try AuditEntry(line: Array(GoldenLineTests.checkpoint.utf8))
        }
        let long = [UInt8](repeating: 0x20, count: AuditLine.maximumBytes + 1)
        #expect(throws: AuditEntryError.tooLong) { try AuditEntry(line: long) }
    }

    @Test("quotes no part of the line in an error")
    func silent() throws {
        let line = try Array(GoldenLineTests.second.utf8).replacing("key_state_change", with: "4111111111111111 x")
        do {
            _ = try AuditEntry(line: line)
            Issue.record("the line was taken")
        } catch {
            #expect(!error.description.contains("4111"))
        }
    }

    @Test("reads and verifies random bytes and damaged lines without a crash")
    func fuzz() throws {
        var generator = SeededGenerator(seed: 3)
        let keys = try required(CheckpointKeys(pem: GoldenLineTests.publicKey))
        let lines = [GoldenLineTests.first, GoldenLineTests.second, GoldenLineTests.checkpoint].map { Array($0.utf8) }
        for round in 0..<6000 {
            var line: [UInt8]
            if round % 3 == 0 {
                line = (0..<Int.random(in: 0...200, using: &generator)).map { _ in
                    .random(in: 0...255, using: &generator)
                }
            } else {
                line = lines[round % lines.count]
                for _ in 0...Int.random(in: 0...3, using: &generator) where !line.isEmpty {
                    let position = Int.random(in: 0..<line.count, using: &generator)
                    switch Int.random(in: 0...3, using: &generator) {
                    case 0: line[position] = .random(in: 0...255, using: &generator)
                    case 1: line.remove(at: position)
                    case 2: line.insert(.random(in: 0...255, using: &generator), at: position)
                    default: line = Array(line[..<position])
                    }
                }
            }
            if let entry = try? AuditEntry(line: line) { #expect(entry.sequence > 0) }
            if let signed = SignedCheckpoint(line: line) { #expect(signed.line == line) }
            var verifier = ChainVerifier(keys: keys)
            verifier.consume(line: line)
            // A signed checkpoint is the only line that is intact alone.
            if case .intact = verifier.verdict() { #expect(line == lines[2]) }
        }
    }
}

@Suite("The audit record as CSV")
struct AuditCSVTests {
    @Test("begins with a line that says CSV cannot be verified, then names the columns")
    func header() {
        let text = String(decoding: AuditCSV.header, as: UTF8.self)
        let lines = text.components(separatedBy: "\r\n")
        #expect(lines.count == 3)
        #expect(lines[0].contains("cannot be verified"))
        #expect(
            lines[1]
                == "node,sequence,time,event,outcome,caller,uid,gid,loginUid,pid,comm,merchant,publicKeyHash,"
                + "transactionId,protection,token,reference,reason,details,hash")
    }

    @Test("writes a record as one line with a field for each column")
    func row() throws {
        let entry = try AuditEntry(line: Array(GoldenLineTests.second.utf8))
        let expected = #"""
            backend-1,2,2026-01-31T12:00:00.007Z,key_state_change,ok,ops,0,0,,,,merchant.com.example,"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",,,,,"a ""leak"" in café\bar","{""from"":""active"",""to"":""suspended""}",694e7d33ba134dd7462c2ad26a287ffc5bed8b872066702a314418310445f7a7
            """#
        #expect(String(decoding: AuditCSV.row(entry), as: UTF8.self) == expected + "\r\n")
        let first = try AuditEntry(line: Array(GoldenLineTests.first.utf8))
        #expect(
            String(decoding: AuditCSV.row(first), as: UTF8.self).contains(
                ",checkout,1001,1002,1003,4242,shop,merchant.com.example,"))
    }

    @Test(
        "quotes separators, quotes and line breaks by RFC 4180",
        arguments: [
            ("plain-1.x_y:z/w", "plain-1.x_y:z/w"), ("a,b", #""a,b""#), ("a;b", #""a;b""#), (#"a"b"#, #""a""b""#),
            ("a\r\nb", "\"a\r\nb\""), ("", ""), ("a b", #""a b""#), ("é", #""é""#),
        ])
    func quoted(text: String, field: String) {
        #expect(AuditCSV.field(text) == field)
    }

    @Test(
        "puts an apostrophe before a value that a spreadsheet would take for a formula",
        arguments: [
            ("=1+1", #""'=1+1""#), ("+cmd", #""'+cmd""#), ("-2", #""'-2""#), ("@SUM(A1)", #""'@SUM(A1)""#),
            ("\t=1", "\"'\t=1\""), ("\r=1", "\"'\r=1\""), ("＝1", #""'＝1""#), ("|calc", #""'|calc""#),
            (#"=HYPERLINK("x")"#, #""'=HYPERLINK(""x"")""#), ("=\u{0301}1", "\"'=\u{0301}1\""),
        ])
    func formulas(text: String, field: String) {
        #expect(AuditCSV.field(text) == field)
    }
}
