import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import StrictJSON
import Testing

@testable import paytokenctl

@Suite("Tables and text output")
struct OutputTests {
    @Test("aligns columns without trailing blanks")
    func table() {
        var table = Table(columns: ["A", "LONGER", "C"])
        table.add(["value", "b", ""])
        table.add(["é", "", "c"])
        table.add([])
        #expect(
            table.text == """
                A      LONGER  C
                value  b
                é              c


                """)
    }

    @Test("shortens identifiers only as long as they remain distinct")
    func unambiguous() {
        var table = Table(columns: ["NAME", Table.Column("ID", importance: 1, shortening: .beginning)])
        for id in ["0123456789abXXXXXXXX", "0123456789acXXXXXXXX", "ffffffffffffffffffff"] { table.add(["n", id]) }
        // The table needs 4 + 2 + 20 columns in full. Twelve characters and the ellipsis distinguish the first two
        // identifiers.
        #expect(table.fitted(to: 26).text == table.text)
        let narrow = table.fitted(to: 20)
        #expect(
            narrow.text == """
                NAME  ID
                n     0123456789abX…
                n     0123456789acX…
                n     fffffffffffff…

                """)
        #expect(narrow.omitted.isEmpty)
        #expect(table.fitted(to: 19).text.contains("n     0123456789ab…\n"))
        // With one column less, two identifiers would be equal, so their column is omitted.
        #expect(table.fitted(to: 18).text == "NAME\nn\nn\nn\n")
        #expect(table.fitted(to: 18).omitted == ["ID"])
    }

    @Test("shortens permanent columns last, and prints them even if they do not fit the terminal")
    func maximumNarrow() {
        var table = Table(columns: [
            Table.Column("WORDS", shortening: .words), "FIXED", Table.Column("LESS", importance: 1),
        ])
        table.add(["a sentence of thirty characters", "fixed", "less"])
        #expect(table.fitted(to: 23).text == "WORDS             FIXED\na sentence of t…  fixed\n")
        #expect(table.fitted(to: 23).omitted == ["LESS"])
        // At the minimum width, words are as short as identifiers.
        #expect(table.fitted(to: 1).text == "WORDS      FIXED\na senten…  fixed\n")
        #expect(table.fitted(to: 1).omitted == ["LESS"])
    }

    @Test("counts two columns for a wide character and none for a combining one")
    func displayWidth() {
        var table = Table(columns: ["NAME", "ID"])
        table.add(["商店", "1"])
        table.add(["e\u{301}t\u{e9}", "2"])
        table.add(["ｼｮｯﾌﾟ", "3"])
        table.add(["가게🛒", "4"])
        #expect(
            table.text == """
                NAME    ID
                商店    1
                e\u{301}té     2
                ｼｮｯﾌﾟ   3
                가게🛒  4

                """)
        var narrow = Table(columns: [Table.Column("WORDS", shortening: .words)])
        narrow.add(["一二三四五六七八九"])
        // Seven wide characters and the ellipsis need 15 columns. An eighth character would need 17.
        #expect(narrow.fitted(to: 16).text == "WORDS\n一二三四五六七…\n")
    }

    @Test("fits the keys of one company into 80 columns, and shows the distinct ends of names that begin alike")
    func keysInEightyColumns() throws {
        let keys = try ["shop", "rail", "post"].map { name in
            try JSONCoding.decode(
                KeySummary.self,
                from: Array(
                    Sample.key(
                        merchant: "merchant.com.example.\(name)", notAfter: nil, daysLeft: nil, state: "deactivated"
                    ).utf8))
        }
        let table = MerchantKeyTable.several(keys, now: Date(timeIntervalSince1970: 0))
        for columns in [66, 72, 80] {
            let fitted = table.fitted(to: columns)
            let lines = fitted.text.split(separator: "\n")
            #expect(lines.count == 4 && lines.allSatisfy { $0.count <= columns }, "\(fitted)")
            #expect(["shop", "rail", "post"].allSatisfy { fitted.text.contains($0) || columns == 80 }, "\(fitted)")
        }
    }

    @Test("wraps long values to further lines in the same column")
    func wrappedValues() {
        let pairs = Table(pairs: [("Name", "one two three four five six seven"), ("Other", "x")])
        #expect(
            pairs.fitted(to: 31).text == """
                Name   one two three four five
                       six seven
                Other  x

                """)
        #expect(pairs.fitted(to: 40).text == pairs.text)
    }

    @Test("shows the code points of characters that would control a terminal or reorder text")
    func printable() {
        #expect(Printable.text("plain äöü 漢") == "plain äöü 漢")
        #expect(
            Printable.text("a\u{1B}[31mb\r\nc\u{202E}d\u{7F}\u{9B}")
                == "a\\u{1b}[31mb\\u{d}\\u{a}c\\u{202e}d\\u{7f}\\u{9b}")
        #expect(Table(pairs: [("name", "two\nlines")]).text == "name  two\\u{a}lines\n")
    }

    @Test("shows a JSON document as names and values")
    func flattening() throws {
        let json = #"{"a":1.50,"b":{"c":true,"d":null},"e":["x","y"],"f":[{"g":"h"},{"g":"i"}],"j":[],"k":{}}"#
        let pairs = Flattening.pairs(try JSONValue(parsing: json)).map { "\($0.0)=\($0.1)" }
        #expect(pairs == ["a=1.50", "b.c=yes", "b.d=-", "e=x, y", "f[0].g=h", "f[1].g=i", "j=-", "k=-"])
    }

    @Test("counts a certificate as expiring if it ends before the limit, except for a destroyed key")
    func expiring() throws {
        let end = try #require(RFC3339.date("2026-03-01T00:00:00Z"))
        func key(_ notAfter: String?, _ state: String = "active") throws -> KeySummary {
            let json = Sample.key(merchant: "m", notAfter: notAfter, daysLeft: nil, state: state)
            return try JSONCoding.decode(KeySummary.self, from: Array(json.utf8))
        }
        #expect(try KeyListCommand.isExpiring(key("2026-02-28T23:59:59Z"), before: end))
        #expect(try KeyListCommand.isExpiring(key("2020-01-01T00:00:00Z"), before: end))
        #expect(try KeyListCommand.isExpiring(key("2026-03-01T00:00:00Z"), before: end))
        #expect(try !KeyListCommand.isExpiring(key("2026-03-01T00:00:01Z"), before: end))
        #expect(try !KeyListCommand.isExpiring(key(nil), before: end))
        #expect(try !KeyListCommand.isExpiring(key("2020-01-01T00:00:00Z", "destroyed"), before: end))
        var googlePay = try key(nil)
        googlePay.replacementDue = end
        #expect(KeyListCommand.isExpiring(googlePay, before: end))
        googlePay.replacementDue = end + 1
        #expect(!KeyListCommand.isExpiring(googlePay, before: end))
    }

    @Test("returns only complete lines from pieces of any size, and keeps an incomplete last line")
    func wholeLines() {
        let text = Array("{\"node\":1}\n{\"checkpoint\":{\"node\":2}}\n{\"checkpoint\":".utf8)
        for size in 1...text.count {
            var lines = WholeLines()
            var given: [UInt8] = []
            for start in stride(from: 0, to: text.count, by: size) {
                given += lines.take(Array(text[start..<min(start + size, text.count)]))
                #expect(given.isEmpty || given.last == UInt8(ascii: "\n"))
            }
            #expect(given == Array(text.dropLast(14)))
            #expect(lines.remainder == Array("{\"checkpoint\":".utf8))
            #expect(lines.isSealed)
        }
        var lines = WholeLines()
        _ = lines.take(Array("{\"checkpoint\":{}}\n{\"node\":3}\n".utf8))
        #expect(!lines.isSealed)
    }

    @Test("limits the buffer for endless input without a line feed")
    func endlessLine() {
        var lines = WholeLines()
        let piece = [UInt8](repeating: 0x61, count: 1 << 18)
        var given = 0
        for _ in 0..<64 {
            given += lines.take(piece).count
            #expect(lines.remainder.count <= 1 << 21)
        }
        #expect(given + lines.remainder.count == 64 << 18)
    }

    @Test("searches for the worker in the program's directory, and then in libexec")
    func worker() {
        #expect(
            WorkerProgram.candidates(besides: "/usr/bin/paytokenctl") == [
                "/usr/bin/paytokend-hsm", "/usr/libexec/paytokend/paytokend-hsm",
            ])
    }
}
