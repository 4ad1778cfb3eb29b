import Radial
import Testing

/// Documents from an attacker. The readers accept them or throw ``DocumentError``; they never crash or hang. The
/// compiler ensures that they throw no other error.
@Suite("Hostile documents")
struct HostileDocumentTests {
    private func isRequest(_ bytes: [UInt8]) -> Bool { Documents.fault(of: bytes) == nil }

    private func isReply(_ bytes: [UInt8]) -> Bool {
        do {
            _ = try RadialReply(parsing: bytes)
            return true
        } catch { return false }
    }

    @Test("accepts no beginning of a request as a request")
    func requestPrefixes() {
        for count in 0..<Documents.request.count {
            #expect(!isRequest(Array(Documents.request.prefix(count))), "the first \(count) bytes")
        }
        #expect(isRequest(Documents.request))
    }

    @Test("accepts no beginning of a reply as a reply")
    func replyPrefixes() {
        for count in 0..<Documents.reply.count {
            #expect(!isReply(Array(Documents.reply.prefix(count))), "the first \(count) bytes")
        }
        #expect(isReply(Documents.reply))
    }

    /// Bytes that are special in XML or UTF-8.
    private static let values: [UInt8] = [0x00, 0x22, 0x26, 0x3C, 0x41, 0xFF]

    @Test("reads or refuses a request with one byte changed, anywhere", arguments: values)
    func changedRequests(_ value: UInt8) {
        var request = Documents.request
        for index in request.indices {
            let byte = request[index]
            request[index] = value
            let isTaken = isRequest(request)
            // NUL, and a byte that never occurs in UTF-8, are refused everywhere.
            if value == 0 || value == 0xFF { #expect(!isTaken, "byte \(index)") }
            request[index] = byte
        }
    }

    @Test("reads or refuses a reply with one byte changed, anywhere", arguments: values)
    func changedReplies(_ value: UInt8) {
        var reply = Documents.reply
        for index in reply.indices {
            let byte = reply[index]
            reply[index] = value
            let isTaken = isReply(reply)
            if value == 0 || value == 0xFF { #expect(!isTaken, "byte \(index)") }
            reply[index] = byte
        }
    }

    @Test("reads or refuses a document with one byte omitted, anywhere")
    func leftOut() {
        for index in Documents.request.indices {
            var request = Documents.request
            request.remove(at: index)
            _ = isRequest(request)
        }
        // A request without its last byte has an incomplete tag, and must be refused.
        #expect(!isRequest(Array(Documents.request.dropLast())))
    }

    private func refusal(_ document: String) -> DocumentError.Reason? {
        Documents.fault(of: Array(document.utf8))?.reason
    }

    @Test("refuses a billion laughs with any number of entities")
    func billionLaughs() {
        let entities = (1...30).map { "<!ENTITY l\($0) '" + String(repeating: "&l\($0 - 1);", count: 10) + "'>" }
        let example = PublishedExamples.request.replacing(">1<", with: ">&l30;<")
        let declared = example.replacing(
            "<CreditCardAuthRequest",
            with: "<!DOCTYPE x [<!ENTITY l0 'lol'>\(entities.joined())]><CreditCardAuthRequest")
        #expect(refusal(declared) == .notXML(.documentType))
        #expect(refusal(example) == .notXML(.entity))
    }

    @Test("ignores a document type within comments, CDATA sections and text")
    func documentTypeAsText() {
        #expect(isRequest(Documents.request("<OrderId>", "<!-- <!DOCTYPE a [<!ENTITY b 'c'>]> --><OrderId>")))
        #expect(isRequest(Documents.request("<OrderId>1", "<OrderId><![CDATA[<!DOCTYPE a>]]>")))
        #expect(refusal("<a>&lt;!DOCTYPE b><!ENTITY c 'd'></a>") == .notXML(.notWellFormed))
    }

    @Test("fetches no files and addresses: no syntax names one")
    func externalEntities() {
        for identifier in [
            "SYSTEM 'file:///etc/passwd'", "SYSTEM 'http://192.0.2.1/'", "PUBLIC 'x' 'ftp://192.0.2.1/'",
        ] {
            #expect(refusal("<!DOCTYPE a \(identifier)><a/>") == .notXML(.documentType))
            #expect(refusal("<!DOCTYPE a [<!ENTITY x \(identifier)>]><a>&x;</a>") == .notXML(.documentType))
        }
        let include = "<i:include xmlns:i='http://www.w3.org/2001/XInclude' href='file:///etc/passwd' parse='text'/>"
        #expect(Documents.fault(of: Documents.request(with: include))?.reason == .unknownElement)
    }

    @Test("stops early at deep nesting and many elements", arguments: [17, 255, 257, 20_000])
    func deep(_ count: Int) {
        let deep = String(repeating: "<a>", count: count) + String(repeating: "</a>", count: count)
        let fault = Documents.fault(of: Documents.request(with: count > 15_000 ? String(deep.prefix(100_000)) : deep))
        #expect(fault?.reason == .notXML(.tooDeep(limit: 16)))
        let wide = String(repeating: "<a/>", count: count)
        let reason = Documents.fault(of: Documents.request(with: wide))?.reason
        #expect(reason == (count > 500 ? .notXML(.tooManyElements(limit: 512)) : .unknownElement))
    }

    @Test("stops at attributes without number or end, at the document's length at the latest")
    func attributes() {
        let many = (0..<9_000).map { " a\($0)=''" }.joined()
        #expect(
            Documents.fault(of: Documents.request(" requestId=", many + " requestId="))?.reason
                == .notXML(.tooManyAttributes(limit: 16)))
        let long = String(repeating: "x", count: 100_000)
        #expect(Documents.fault(of: Documents.request("\"1234567\"", "\"\(long)\""))?.reason == .length(1...40))
        #expect(
            Documents.fault(of: Documents.request("\"1234567\"", "\"\(long + long)\""))?.reason
                == .notXML(.tooLong(limit: 128 << 10)))
        let prefixes = (0..<6_000).map { " xmlns:a\($0)='urn:x'" }.joined()
        #expect(
            Documents.fault(of: Documents.request(" requestId=", String(prefixes.prefix(110_000)) + "' requestId="))
                != nil)
    }

    /// A wrong reader takes each argument for a complete comment. It then reads a CDATA section, in which it does not
    /// see the tag that follows.
    @Test("ends a comment at its end, not within its beginning", arguments: ["<!-->", "<!--->"])
    func overlappingComment(_ beginning: String) {
        let hidden = beginning + "<![CDATA[-->"
        // libxml2 would report duplicate attributes, so the other error shows that it did not read the tag.
        let many = String(repeating: " x=''", count: 9_000)
        #expect(refusal("\(hidden)<a\(many)/>") == .notXML(.tooManyAttributes(limit: 16)))
        #expect(refusal("<a>\(hidden)<b\(many)/></a>") == .notXML(.tooManyAttributes(limit: 16)))
        #expect(isRequest(Documents.request("<OrderId>", "\(hidden)<OrderId>")), "the comment is one")
    }

    @Test(
        "reads nothing after the first error, above all no document type",
        arguments: ["<?xml version='1.0' x?>", "<!-- -- -->", "<?xml version='1.0'?><?xml version='1.0'?>", "<a b=c' "])
    func afterError(_ error: String) {
        // If reading continued, the undeclared entity would be the last error.
        let declared = "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&undeclared;</a>"
        #expect(refusal(error + declared) == .notXML(.notWellFormed))
    }

    @Test("reads names, comments, CDATA sections and references as long as the document may be")
    func long() {
        let long = String(repeating: "x", count: 110_000)
        #expect(Documents.fault(of: Documents.request(with: "<\(long)/>")) != nil)
        #expect(isRequest(Documents.request(with: "<!--\(long)-->")))
        #expect(Documents.fault(of: Documents.request(with: "<![CDATA[\(long)]]>"))?.reason == .unexpectedText)
        #expect(Documents.fault(of: Documents.request("<OrderId>1", "<OrderId>\(long)"))?.reason == .length(1...20))
        #expect(Documents.fault(of: Documents.request("<OrderId>1", "<OrderId>&\(long);")) != nil)
        #expect(
            Documents.fault(of: Documents.request("<OrderId>1", "<OrderId>&#\(String(repeating: "9", count: 1000));"))
                != nil)
    }

    @Test("refuses two documents in one, whole or in part")
    func several() {
        #expect(!isRequest(Documents.request + Documents.request))
        #expect(!isRequest(Documents.request + Array("<a/>".utf8)))
        #expect(!isRequest(Documents.request + [0] + Documents.request))
        #expect(isRequest(Documents.request + Array("\n<!-- end -->\n".utf8)))
    }

    @Test("refuses a request in another encoding")
    func encodings() {
        let utf16 = Array(PublishedExamples.request.utf16)
        #expect(refusal(of: [0xFF, 0xFE] + utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }) == .notXML(.notUTF8))
        #expect(refusal(of: [0xFE, 0xFF] + utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }) == .notXML(.notUTF8))
        #expect(refusal(of: utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }) == .notXML(.notWellFormed))
        #expect(refusal(of: Documents.request("UTF-8", "UTF-16")) == .notXML(.notUTF8))
        #expect(refusal(of: Documents.request("UTF-8", "IBM037")) == .notXML(.notUTF8))
    }

    private func refusal(of bytes: [UInt8]) -> DocumentError.Reason? { Documents.fault(of: bytes)?.reason }
}
