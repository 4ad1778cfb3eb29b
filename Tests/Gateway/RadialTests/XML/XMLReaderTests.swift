import Radial
import Testing

@Suite("Reading XML")
struct XMLReaderTests {
    private func read(_ text: String, _ limits: XMLLimits = XMLLimits()) throws(XMLReadError) -> XMLElement {
        try XMLElement(parsing: Array(text.utf8), limits: limits)
    }

    private func reason(_ bytes: [UInt8], _ limits: XMLLimits = XMLLimits()) -> XMLReadError.Reason? {
        do {
            _ = try XMLElement(parsing: bytes, limits: limits)
            return nil
        } catch { return error.reason }
    }

    private func reason(_ text: String, _ limits: XMLLimits = XMLLimits()) -> XMLReadError.Reason? {
        reason(Array(text.utf8), limits)
    }

    @Test("reads names, namespaces, attributes, text and lines")
    func tree() throws {
        let root = try read(
            """
            <?xml version="1.0"?>
            <a xmlns="urn:a" xmlns:b="urn:b" one="1" b:two="2">
              <b:c>x</b:c>
              <c xmlns="">y</c>
            </a>
            """)
        #expect(root.name == "a")
        #expect(root.namespace == "urn:a")
        #expect(root.line == 2)
        #expect(root.attributes.map(\.name) == ["one", "two"])
        #expect(root.attributes.map(\.namespace) == [nil, "urn:b"])
        #expect(root.attributes.map(\.value) == ["1", "2"])
        #expect(root.children.map(\.name) == ["c", "c"])
        #expect(root.children.map(\.namespace) == ["urn:b", nil])
        #expect(root.children.map(\.text) == ["x", "y"])
        #expect(root.children.map(\.line) == [3, 4])
    }

    @Test(
        "joins text across references, CDATA sections and comments",
        arguments: [
            ("<a>x&amp;&lt;&gt;&quot;&apos;y</a>", "x&<>\"'y"), ("<a>&#65;&#x42;&#xE4;</a>", "ABä"),
            ("<a>1<![CDATA[<2>&amp;]]>3</a>", "1<2>&amp;3"), ("<a>1<!-- no -->2</a>", "12"), ("<a/>", ""),
            ("<a>1\r\n2\r3</a>", "1\n2\n3"), ("<a>1&#13;2</a>", "1\r2"), ("<a>😀é</a>", "😀é"),
        ])
    func text(_ document: String, _ text: String) throws {
        #expect(try read(document).text == text)
    }

    @Test(
        "normalises an attribute's value as XML does",
        arguments: [
            ("&amp;", "&"), ("&#38;", "&"), ("&amp;#38;", "&#38;"), ("&lt;&quot;", "<\""),
            ("a&amp;b&amp;&amp;c", "a&b&&c"),
            ("a\tb\nc", "a b c"), ("a&#9;b&#10;c", "a\tb\nc"), ("ä", "ä"), ("", ""),
        ])
    func attribute(_ written: String, _ value: String) throws {
        #expect(try read("<a x=\"\(written)\"/>").attributes.map(\.value) == [value])
    }

    @Test(
        "reads UTF-8 with or without a declaration or a byte order mark",
        arguments: [
            "<a/>", "\u{FEFF}<a/>", "<?xml version='1.0'?><a/>", "<?xml version='1.0' encoding='utf-8'?><a/>",
            "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n<a/>\n<!-- end -->\n",
        ])
    func declarations(_ document: String) throws {
        #expect(try read(document).name == "a")
    }

    @Test(
        "refuses every other encoding, for any declaration",
        arguments: [
            Array("<?xml version='1.0' encoding='ISO-8859-1'?><a/>".utf8),
            Array("<?xml version='1.0' encoding='UTF-16'?><a/>".utf8),
            Array("<?xml version='1.0' encoding='UTF-7'?><a/>".utf8),
            Array("<?xml version='1.0' encoding='no-such'?><a/>".utf8),
            Array("\u{FEFF}<?xml version = '1.0'\n encoding = \"ascii\" ?><a/>".utf8),
            [0x3C, 0x61, 0x3E, 0xE4, 0x3C, 0x2F, 0x61, 0x3E],
            Array("<a>".utf8) + [0xC0, 0xAF] + Array("</a>".utf8),
            Array("<a>".utf8) + [0xED, 0xA0, 0x80] + Array("</a>".utf8),
            [0xFF, 0xFE, 0x3C, 0, 0x61, 0, 0x2F, 0, 0x3E, 0],
        ] as [[UInt8]])
    func encodings(_ bytes: [UInt8]) {
        #expect(reason(bytes) == .notUTF8)
    }

    @Test("refuses UTF-16 without a byte order mark, because of its NULs")
    func utf16() {
        #expect(reason([0, 0x3C, 0, 0x61, 0, 0x2F, 0, 0x3E]) == .notWellFormed)
    }

    @Test(
        "reads XML 1.0 only",
        arguments: [("1.1", XMLReadError.Reason.version), ("2.0", .version), ("1.00", .version), ("", .notWellFormed)])
    func versions(_ version: String, _ reason: XMLReadError.Reason) {
        #expect(self.reason("<?xml version=\"\(version)\"?><a/>") == reason)
    }

    @Test(
        "refuses a document type before it reads anything in it",
        arguments: [
            "<!DOCTYPE a><a/>", "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
            "<!DOCTYPE a PUBLIC '-//X' 'http://192.0.2.1/x.dtd'><a/>",
            "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>",
            "<!DOCTYPE a [<!ENTITY % x SYSTEM 'http://192.0.2.1/x'> %x;]><a/>",
            "<!DOCTYPE a [<!ENTITY b 'bbbb'><!ENTITY c '&b;&b;&b;&b;'><!ENTITY d '&c;&c;&c;&c;'>]><a>&d;</a>",
            "<!DOCTYPE a [<!ATTLIST a x CDATA 'default'>]><a/>", "<!DOCTYPE a [ not even a declaration",
        ])
    func documentTypes(_ document: String) {
        #expect(reason(document) == .documentType)
    }

    @Test("refuses entities but the five predefined ones", arguments: ["&x;", "&nbsp;", "&copy;", "&lt2;"])
    func entities(_ reference: String) {
        #expect(reason("<a>\(reference)</a>") == .entity)
        #expect(reason("<a x='\(reference)'/>") == .entity)
    }

    @Test(
        "refuses processing instructions before, in and after the root",
        arguments: ["<?x?><a/>", "<a><?php echo 1 ?></a>", "<a/><?x y?>", "<?xml-stylesheet href='x'?><a/>"])
    func processingInstructions(_ document: String) {
        #expect(reason(document) == .processingInstruction)
    }

    @Test(
        "refuses a document that is not well-formed",
        arguments: [
            "<a>", "<a></b>", "<a/><a/>", "a", "<a", "<a x=1/>", "<a x='1' x='2'/>", "<a>&</a>", "<a>&#0;</a>",
            "<a>&#xD800;</a>",
            "<a>]]></a>", "<a>\u{1}</a>", "<a>\u{FFFE}</a>", "<a><!-- -- --></a>", "<a><![CDATA[</a>", "<b:a/>",
            "<a b:x='1'/>", "<a xmlns:b='urn:x' xmlns:c='urn:x' b:y='1' c:y='2'/>", "<a x='<'/>", "<a>\u{0}</a>",
            "<a/>\u{0}",
            "<a/>x", " <?xml version='1.0'?><a/>", "<a:b:c xmlns:a='urn:x'/>", "   ",
            "<?xml encoding='ISO-8859-1'?><a/>",
        ])
    func malformed(_ document: String) {
        #expect(reason(document) == .notWellFormed)
    }

    @Test("reports the line of the fault")
    func line() {
        #expect(throws: XMLReadError.self) { try read("<a>\n<b>\n</c>\n</a>") }
        do { _ = try read("<a>\n<b>\n</c>\n</a>") } catch { #expect(error.line == 3) }
        do { _ = try read("<a>\n\n<?x?></a>") } catch { #expect(error.line == 3) }
    }

    @Test("refuses an empty document")
    func empty() {
        #expect(reason([]) == .empty)
    }

    @Test("reads a document up to the size limit, and no longer")
    func length() throws {
        let document = "<a>xyz</a>"
        #expect(try read(document, XMLLimits(bytes: 10)).text == "xyz")
        #expect(reason(document, XMLLimits(bytes: 9)) == .tooLong(limit: 9))
    }

    @Test("reads nested elements up to the limit")
    func depth() throws {
        func nested(_ count: Int) -> String {
            String(repeating: "<a>", count: count) + String(repeating: "</a>", count: count)
        }
        _ = try read(nested(16))
        #expect(reason(nested(17)) == .tooDeep(limit: 16))
        #expect(reason(nested(5000)) == .tooDeep(limit: 16))
        #expect(reason(String(repeating: "<a>", count: 40_000)) == .tooDeep(limit: 16))
    }

    @Test("reads elements in total up to the limit")
    func elements() throws {
        func wide(_ count: Int) -> String { "<a>" + String(repeating: "<b/>", count: count - 1) + "</a>" }
        #expect(try read(wide(512)).children.count == 511)
        #expect(reason(wide(513)) == .tooManyElements(limit: 512))
        #expect(reason(wide(30_000)) == .tooManyElements(limit: 512))
    }

    @Test("reads attributes and namespace declarations of one element up to the limit")
    func attributes() throws {
        func element(_ attributes: Int, _ namespaces: Int) -> String {
            let all =
                (0..<attributes).map { " x\($0)=''" } + (0..<namespaces).map { " xmlns:x\($0)='urn:\($0)'" }
            return "<a\(all.joined())/>"
        }
        #expect(try read(element(8, 8)).attributes.count == 8)
        #expect(reason(element(9, 8)) == .tooManyAttributes(limit: 16))
        #expect(reason(element(8, 9)) == .tooManyAttributes(limit: 16))
        #expect(reason(element(12_000, 0)) == .tooManyAttributes(limit: 16))
        #expect(reason(element(0, 5_000)) == .tooManyAttributes(limit: 16))
    }

    /// libxml2 compares every attribute of a tag with every other one, which is slow for many attributes. It would
    /// report these as duplicates.
    @Test("refuses a tag with too many attributes before libxml2 reads it")
    func attributesBeforeParsing() throws {
        let many = String(repeating: " x='>'", count: 17)
        #expect(reason("<a\(many)/>") == .tooManyAttributes(limit: 16))
        #expect(
            reason("<?xml version=\"1.0\"?><!-- <b> --><a><![CDATA[<]]>\n<b\(many)></b></a>")
                == .tooManyAttributes(limit: 16))
        #expect(reason("<a\(String(repeating: " x='1'", count: 16))/>") == .notWellFormed)
        // Texts, comments and CDATA sections that look like attributes do not count.
        let quotes = String(repeating: "'a' \"b\" ", count: 40)
        #expect(try read("<a>\(quotes)<!-- <b \(quotes)> --><![CDATA[<c \(quotes)>]]></a>").name == "a")
        #expect(reason("<a x='\(quotes.replacing("'", with: ""))") == .notWellFormed)
        #expect(reason("<a><!-- \(quotes)") == .notWellFormed)
    }

    @Test("states the fault and its position in an error, and repeats no part of the document")
    func description() {
        do { _ = try read("<a>\n4111111111111111&nope;</a>") } catch {
            #expect("\(error)" == "entities other than &amp; &lt; &gt; &quot; &apos; are not accepted, line 2")
        }
    }

    @Test("reads on many threads at once")
    func threads() async {
        await withTaskGroup(of: Bool.self) { group in
            for number in 0..<200 {
                group.addTask {
                    let document = Array("<a><b>\(number)</b>\(number % 2 == 0 ? "&no;" : "")</a>".utf8)
                    let element = try? XMLElement(parsing: document)
                    return number % 2 == 0 ? element == nil : element?.children.first?.text == "\(number)"
                }
            }
            for await isRight in group { #expect(isRight) }
        }
    }
}
