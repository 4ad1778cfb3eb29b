import Foundation
import Testing

@testable import AuditChain

@Suite("CSV")
struct AuditCSVTests {
    @Test("The first line says that CSV cannot be verified, the second names the columns")
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

    @Test("A record is one line with a field for each column")
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
        "Separators, quotes and line breaks are quoted by RFC 4180",
        arguments: [
            ("plain-1.x_y:z/w", "plain-1.x_y:z/w"), ("a,b", #""a,b""#), ("a;b", #""a;b""#), (#"a"b"#, #""a""b""#),
            ("a\r\nb", "\"a\r\nb\""), ("", ""), ("a b", #""a b""#), ("é", #""é""#),
        ])
    func quoted(text: String, field: String) {
        #expect(AuditCSV.field(text) == field)
    }

    @Test(
        "What a spreadsheet would calculate begins with an apostrophe",
        arguments: [
            ("=1+1", #""'=1+1""#), ("+cmd", #""'+cmd""#), ("-2", #""'-2""#), ("@SUM(A1)", #""'@SUM(A1)""#),
            ("\t=1", "\"'\t=1\""), ("\r=1", "\"'\r=1\""), ("＝1", #""'＝1""#), ("|calc", #""'|calc""#),
            (#"=HYPERLINK("x")"#, #""'=HYPERLINK(""x"")""#), ("=\u{0301}1", "\"'=\u{0301}1\""),
        ])
    func formulas(text: String, field: String) {
        #expect(AuditCSV.field(text) == field)
    }
}
