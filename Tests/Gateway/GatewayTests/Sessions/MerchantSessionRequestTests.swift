import Refusals
import StrictJSON
import Testing

@testable import Gateway

/// The content that a caller's request may have. No member determines the address to which the gateway sends the
/// request.
@Suite struct MerchantSessionRequestTests {
    private func body(_ members: [(String, String)]) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        for (name, value) in members { json.member(name, value) }
        json.endObject()
        return json.bytes
    }

    private func body(
        merchant: String = "merchant.com.example", name: String = "Shop", initiative: String = "web",
        context: String = "shop.example"
    ) -> [UInt8] {
        body([
            ("merchantIdentifier", merchant), ("displayName", name), ("initiative", initiative),
            ("initiativeContext", context),
        ])
    }

    /// The refused member; nil if none is refused.
    private func refused(_ body: [UInt8]) -> String? {
        do {
            _ = try MerchantSessionRequest(parsing: body)
            return nil
        } catch {
            #expect(error.code == .malformedRequest)
            return error.details ?? "?"
        }
    }

    @Test func theFourMembersAreRead() throws {
        let request = try MerchantSessionRequest(parsing: body())
        #expect(request.merchantIdentifier == "merchant.com.example")
        #expect(try request.context() == .web(#require(DomainName("shop.example"))))
        #expect(request.appleBody == body())
    }

    /// Apple's JavaScript gives the page a validationURL. A gateway that accepted it from a caller would send requests
    /// to any host.
    @Test(arguments: ["validationURL", "url", "host", "environment", "endpoint", "merchantidentifier", "domainName"])
    func noOtherMemberIsTaken(name: String) {
        let members = [
            ("merchantIdentifier", "merchant.com.example"), ("displayName", "Shop"), ("initiative", "web"),
            ("initiativeContext", "shop.example"), (name, "https://apple-pay-gateway.apple.com/"),
        ]
        #expect(refused(body(members)) != nil)
    }

    @Test func noMemberMayBeMissingOrRepeatedOrOfAnotherType() {
        let members = [
            ("merchantIdentifier", "merchant.com.example"), ("displayName", "Shop"), ("initiative", "web"),
            ("initiativeContext", "shop.example"),
        ]
        for index in members.indices {
            var fewer = members
            fewer.remove(at: index)
            #expect(refused(body(fewer)) == members[index].0)
            #expect(refused(body(members + [members[index]])) != nil)
            let text = String(decoding: body(members), as: UTF8.self)
            for other in ["null", "1", "[]", "{}", "true"] {
                #expect(refused(Array(text.replacing("\"\(members[index].1)\"", with: other).utf8)) == members[index].0)
            }
        }
        for text in ["", "[]", "null", "\"\"", "{", "{}x"] { #expect(refused(Array(text.utf8)) != nil) }
    }

    // MARK: Server-side request forgery, tried in every member

    private static let forgeries = [
        "https://169.254.169.254/latest/meta-data", "http://localhost:8080/", "//evil.example", "evil.example/path",
        "evil.example:443", "user@evil.example", "user:password@evil.example", "evil.example?x", "evil.example#x",
        "127.0.0.1", "10.0.0.1", "0x7f.0.0.1", "0177.0.0.1", "2130706433", "127.1", "[::1]", "::1", "::ffff:127.0.0.1",
        "localhost", "evil.example.", ".evil.example", "evil..example", "evil.example\r\nHost: other", "evil.example\0",
        "evil.example%00", "evil\u{FF0E}example", "evil\u{3002}example", "\u{2488}7.0.0.1", "evil.example\\@apple.com",
        "apple-pay-gateway.apple.com@evil.example", "file:///etc/passwd", "gopher://evil.example", "*.evil.example", "",
        " evil.example", "evil.example ", "evil_.example", "-evil.example", "evil-.example", "xn--\u{fc}.example",
        String(repeating: "a", count: 64) + ".example", String(repeating: "a.", count: 126) + "example",
    ]

    @Test(arguments: forgeries)
    func aDomainIsADomainNameAndNothingElse(context: String) {
        #expect(refused(body(context: context)) == "initiativeContext")
    }

    // 2130706433 has the ten characters of a team identifier, so the gateway accepts it. It sends the text to Apple,
    // and never resolves it as an address.
    @Test(arguments: forgeries.filter { $0 != "2130706433" })
    func aTeamIdentifierIsNoAddress(context: String) {
        #expect(refused(body(initiative: "in_app", context: context)) == "initiativeContext")
    }

    @Test(arguments: forgeries)
    func anInitiativeIsOneOfThree(initiative: String) {
        #expect(refused(body(initiative: initiative)) == "initiative")
    }

    @Test(arguments: [
        "http://shop.example/", "https://", "https:///", "https:shop.example", "HTTPS://shop.example/",
        "https://127.0.0.1/", "https://[::1]/", "https://localhost/", "https://shop.example:8443/",
        "https://user@shop.example/", "https://shop.example@evil.example/", "https://shop.example\\@evil.example/",
        "https://shop.example#x", "https://shop.example/#x", "https://shop.example/ x", "https://shop.example/\r\nx",
        "https://b\u{fc}cher.example/", "https://shop.example/\u{fc}", "ftp://shop.example/", "//shop.example/",
        "javascript:alert(1)", "https://shop.example./", "https://shop.example/" + String(repeating: "a", count: 1024),
    ])
    func aMessagingURLIsOneOfHTTPSAndADomain(url: String) {
        #expect(refused(body(initiative: "messaging", context: url)) == "initiativeContext")
    }

    @Test(arguments: ["https://shop.example", "https://shop.example/a/b?c=d%20e", "https://shop.example?x"])
    func theHostOfAMessagingURLIsItsDomain(url: String) throws {
        let request = try MerchantSessionRequest(parsing: body(initiative: "messaging", context: url))
        #expect(try request.context().domain == DomainName("shop.example"))
    }

    @Test(arguments: [
        "shop.example", "SHOP.Example", "a.b.c.d.example", "xn--bcher-kva.example", "1-2.example",
        String(repeating: "a", count: 63) + ".example",
    ])
    func aDomainNameIsTakenInEitherCase(name: String) throws {
        let request = try MerchantSessionRequest(parsing: body(context: name))
        #expect(try request.context().domain?.name == name.lowercased())
    }

    @Test func aTeamIdentifierHasTenUpperCaseLettersAndDigits() throws {
        let request = try MerchantSessionRequest(parsing: body(initiative: "in_app", context: "ABCDE12345"))
        #expect(try request.context() == .inApp)
        for other in ["ABCDE1234", "ABCDE123456", "abcde12345", "ABCDE1234\u{c9}"] {
            #expect(refused(body(initiative: "in_app", context: other)) == "initiativeContext")
        }
    }

    @Test(arguments: forgeries.filter { !MerchantSessionRequest.isMerchantIdentifier($0) })
    func aMerchantIdentifierIsNoAddress(merchant: String) {
        #expect(refused(body(merchant: merchant)) == "merchantIdentifier")
    }

    // MARK: displayName

    @Test func aDisplayNameHas1To64Characters() {
        for character in ["a", "ü", "店", "🍏"] {
            #expect(refused(body(name: String(repeating: character, count: 64))) == nil)
            #expect(refused(body(name: String(repeating: character, count: 65))) == "displayName")
        }
        #expect(refused(body(name: "")) == "displayName")
    }

    @Test(arguments: [
        " Shop", "Shop ", "\u{3000}Shop", "Sh\u{0}op", "Sh\nop", "Sh\u{85}op", "Sh\u{2028}op", "Sh\u{202E}op",
        "Sh\u{2066}op",
        "Sh\u{FFFE}op", "Sh\u{7F}op", "Sh\u{1B}[31mop",
    ])
    func aDisplayNameHasNoControlCharacters(name: String) {
        #expect(refused(body(name: name)) == "displayName")
    }

    /// One visible character may consist of many code points, so their number is limited too.
    @Test func combiningMarksCount() {
        #expect(refused(body(name: "a" + String(repeating: "\u{301}", count: 64))) == "displayName")
    }
}
