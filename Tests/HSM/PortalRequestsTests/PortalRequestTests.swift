import Foundation
import Testing

@testable import PortalRequests

/// The requests to Apple's API, which can express no other path, and the tokens for them.
@Suite struct PortalRequestTests {
    private static let find = PortalRequest(.findMerchant, of: "merchant.com.example")!
    private static let list = PortalRequest(.listCertificates, of: "A1B2C3D4E5")!

    @Test("names the path and the query of Apple's specification, with brackets percent-encoded")
    func targets() {
        #expect(Self.find.target == "/v1/merchantIds?filter%5Bidentifier%5D=merchant.com.example&limit=200")
        #expect(Self.list.target == "/v1/merchantIds/A1B2C3D4E5/certificates?limit=200")
    }

    @Test(
        "refuses a name that could change the path, the query or the JSON",
        arguments: [
            "", "a/b", "..%2f", "a?b", "a&limit=1", "a#b", "a b", "a\"b", "a\\b", "é", "a\n", "a]", "a_b",
            ".", "..", "...", String(repeating: "a", count: 256),
        ])
    func names(_ text: String) {
        #expect(PortalName(text) == nil)
    }

    @Test(
        "lists under no id but one of the documented form, 10 capital letters and digits",
        arguments: ["A1B2C3D4E", "A1B2C3D4E56", "a1B2C3D4E5", "A1B2C3D4E.", "..........", "A1B2C3D4E-", "A1B2C3D4E/"])
    func ids(_ text: String) {
        #expect(ResourceId(text) == nil)
        #expect(PortalRequest(.listCertificates, of: text) == nil)
    }

    @Test("tries two forms of a scope, each with path and query, so that each names one request only")
    func scopes() {
        var forms: [TokenScope] = []
        var next: TokenScope? = .versioned
        while let form = next {
            forms.append(form)
            next = form.next
        }
        #expect(forms == TokenScope.allCases)
        #expect(
            forms.map { $0.text(for: Self.find) } == [
                "GET /v1/merchantIds?filter[identifier]=merchant.com.example&limit=200",
                "GET /merchantIds?filter[identifier]=merchant.com.example&limit=200",
            ])
        #expect(
            forms.map { $0.text(for: Self.list) } == [
                "GET /v1/merchantIds/A1B2C3D4E5/certificates?limit=200",
                "GET /merchantIds/A1B2C3D4E5/certificates?limit=200",
            ])
    }

    @Test("builds a token with the claims of Apple's specification, which begins in the past and lives 100 seconds")
    func token() throws {
        let key = try #require(PortalKeyName(issuer: "57246542-96fe-1a63-e053-0824d011072a", keyId: "2X9R4HXF34"))
        let token = JSONWebToken(key, for: Self.list, scope: .unversioned, now: 1_800_000_000)
        let parts = String(decoding: token.signed([UInt8](repeating: 0xFB, count: 64)), as: UTF8.self).split(
            separator: ".")
        #expect(parts.count == 3)
        func object(_ part: Substring) throws -> NSDictionary {
            var base64 = part.replacing("-", with: "+").replacing("_", with: "/")
            while base64.count % 4 != 0 { base64 += "=" }
            let data = try #require(Data(base64Encoded: String(base64)))
            return try #require(JSONSerialization.jsonObject(with: data) as? NSDictionary)
        }
        #expect(try object(parts[0]) == ["alg": "ES256", "kid": "2X9R4HXF34", "typ": "JWT"])
        #expect(
            try object(parts[1]) == [
                "iss": "57246542-96fe-1a63-e053-0824d011072a", "iat": 1_799_999_990, "exp": 1_800_000_090,
                "aud": "appstoreconnect-v1", "scope": ["GET /merchantIds/A1B2C3D4E5/certificates?limit=200"],
            ])
        // 64 bytes FB in base64url: the alphabet for URLs, without padding.
        #expect(parts[2].count == 86 && parts[2].hasPrefix("-_v7") && !parts[2].contains("="))
    }

    @Test("refuses names of a key that JSON would have to escape", arguments: ["", "a.b", "a\"", "a b", "ä"])
    func keyNames(_ text: String) {
        #expect(PortalKeyName(issuer: text, keyId: "A") == nil && PortalKeyName(issuer: "A", keyId: text) == nil)
    }
}
