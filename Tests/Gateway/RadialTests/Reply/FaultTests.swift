import Radial
import Testing

@Suite("Fault documents")
struct FaultTests {
    private func answer(_ text: String) throws -> RadialReply { try RadialReply(parsing: Array(text.utf8)) }

    @Test("writes an error for a caller as Radial's Fault with the element's path")
    func written() throws {
        let error = DocumentError(.length(1...40), "CreditCardAuthRequest/BillingAddress/City", line: 20)
        let document = ErrorReply(code: "malformed_request", error).document(millisecondsSince1970: 1_530_005_707_573)
        #expect(
            String(decoding: document, as: UTF8.self) == #"<?xml version="1.0" encoding="UTF-8"?>"#
                + #"<Fault xmlns="http://api.gsicommerce.com/schema/checkout/1.0">"#
                + "<CreateTimestamp>2018-06-26T09:35:07.573Z</CreateTimestamp><Code>malformed_request</Code>"
                + "<Description>CreditCardAuthRequest/BillingAddress/City (line 20): must have 1 to 40 characters</Description>"
                + "<Element>CreditCardAuthRequest/BillingAddress/City</Element></Fault>")
    }

    @Test("writes no path for an error without an element, and escapes its text")
    func escaped() throws {
        let document = ErrorReply(code: "a<b", message: "&\"").document(millisecondsSince1970: 0)
        let root = try XMLElement(parsing: document)
        #expect(root.children.map(\.name) == ["CreateTimestamp", "Code", "Description"])
        #expect(root.children.map(\.text).dropFirst() == ["a<b", "&\""])
    }

    @Test("reads a fault of Radial's without keeping its description")
    func read() throws {
        let fault = try answer(
            """
            <?xml version="1.0" encoding="UTF-8"?>
            <Fault xmlns="http://api.gsicommerce.com/schema/checkout/1.0">
               <CreateTimestamp>2018-06-26T09:35:07.573Z</CreateTimestamp>
               <Code> PanFailsLuhnCheckException </Code>
               <Description>4111111111111112</Description>
               <More/>
            </Fault>
            """)
        guard case .fault(let fault) = fault else {
            Issue.record("no fault")
            return
        }
        #expect(fault.code == "PanFailsLuhnCheckException")
        #expect(!"\(fault)".contains("4111"))
    }

    @Test(
        "does not keep a code that is not a word",
        arguments: [
            "<Code>4111111111111111</Code>", "<Code>A B</Code>", "<Code/>", "",
            "<Code>\(String(repeating: "x", count: 65))</Code>",
        ])
    func codes(_ code: String) throws {
        guard case .fault(let fault) = try answer("<Fault xmlns=\"\(radialNamespace)\">\(code)</Fault>") else {
            Issue.record("no fault")
            return
        }
        #expect(fault.code == nil)
    }

    @Test(
        "refuses any other document as an answer",
        arguments: ["<Fault/>", "<html/>", "<x xmlns=\"\(radialNamespace)\"/>"]
    )
    func others(_ document: String) {
        #expect(throws: DocumentError(.otherRoot, "CreditCardAuthReply", line: 1)) { try answer(document) }
    }

    @Test("refuses an answer that is not XML")
    func notXML() {
        #expect(throws: DocumentError(.notXML(.notWellFormed), "CreditCardAuthReply", line: 1)) { try answer("{}") }
        #expect(throws: DocumentError(.notXML(.empty), "CreditCardAuthReply")) { try answer("") }
    }
}
