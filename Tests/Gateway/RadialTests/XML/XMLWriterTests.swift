import Radial
import SecretMemory
import Testing

@Suite("Writing XML")
struct XMLWriterTests {
    private let declaration = #"<?xml version="1.0" encoding="UTF-8"?>"#

    @Test("writes elements, attributes and text in the order of the calls")
    func document() {
        var xml = XMLWriter()
        xml.begin("a", ["x": "1", "y": "2"])
        xml.element("b", "text")
        xml.element("c", ifPresent: nil)
        xml.element("d", "", ["z": ""])
        let secret = secret("4111111111111111")
        xml.element("e", secret: secret, ["isToken": "false"])
        #expect(
            text(of: xml.finish()) == declaration
                + #"<a x="1" y="2"><b>text</b><d z=""></d><e isToken="false">4111111111111111</e></a>"#)
    }

    @Test(
        "escapes characters with a meaning in XML, in text and in attributes",
        arguments: [
            ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("\t", "&#9;"), ("\n", "&#10;"),
            ("\r", "&#13;"),
            ("'", "'"), ("]]>", "]]&gt;"), ("ä€😀", "ä€😀"),
        ])
    func escapes(_ value: String, _ written: String) {
        var xml = XMLWriter()
        xml.element("a", value, ["x": value])
        #expect(text(of: xml.finish()) == declaration + "<a x=\"\(written)\">\(written)</a>")
    }

    @Test(
        "reads back what it wrote",
        arguments: [
            "a&b<c>d\"e'f]]>", "line\r\nline\rline\nline\ttab", "  spaces  ", "&amp;&#38;", "😀é\u{A0}\u{85}\u{2028}",
            "",
            "\u{E000}\u{FFFD}\u{10FFFF}\u{7F}",
        ])
    func readBack(_ value: String) throws {
        var xml = XMLWriter()
        xml.element("a", value, ["x": value])
        let element = try XMLElement(parsing: xml.finishWithoutSecrets())
        #expect(element.text == value)
        #expect(element.attributes.map(\.value) == [value])
    }

    @Test(
        "writes a replacement character for characters that XML does not permit",
        arguments: ["\u{0}", "\u{1}", "\u{1B}", "\u{FFFE}", "\u{FFFF}"])
    func notAllowed(_ value: String) throws {
        #expect(!XMLWriter.isAllowed("a" + value))
        var xml = XMLWriter()
        xml.element("a", value)
        #expect(try XMLElement(parsing: xml.finishWithoutSecrets()).text == "\u{FFFD}")
    }

    @Test("permits every character of XML", arguments: ["", "text", "\t\n\r", "ä😀"])
    func allowed(_ value: String) {
        #expect(XMLWriter.isAllowed(value))
    }

    @Test("grows a document as needed", arguments: [2_000, 2_048, 9_000, 70_000])
    func grows(_ count: Int) throws {
        let value = String(repeating: "0123456789", count: count / 10)
        var xml = XMLWriter()
        xml.element("a", secret: secret(value))
        let document = xml.finishWithoutSecrets()
        #expect(document.count == declaration.utf8.count + 7 + value.utf8.count)
        #expect(try XMLElement(parsing: document).text == value)
    }
}
