import Foundation
import Testing

@testable import PortalRequests

/// The requests to Apple's API, which can express no other path, and the tokens for them.
@Suite struct PortalRequestTests {
    private static let find = PortalRequest(.findMerchant, of: "merchant.com.example")!
    private static let list = PortalRequest(.listCertificates, of: "A1B2C3D4E5")!
    private static let csr = (0..<150).map { UInt8($0) }
    private static let create = PortalRequest(
        .createCertificate, of: "A1B2C3D4E5", new: NewCertificate(type: .applePay, csr: csr)!)!
    private static let activate = PortalRequest(.activateCertificate, of: "C1")!
    private static let revoke = PortalRequest(.revokeCertificate, of: "C1")!
    private static let all = [find, list, create, activate, revoke]

    @Test("names the path and the query of Apple's specification, with brackets percent-encoded")
    func targets() {
        #expect(Self.find.target == "/v1/merchantIds?filter%5Bidentifier%5D=merchant.com.example&limit=200")
        #expect(Self.list.target == "/v1/merchantIds/A1B2C3D4E5/certificates?limit=200")
        #expect(Self.create.target == "/v1/certificates")
        #expect(Self.activate.target == "/v1/certificates/C1")
        #expect(Self.revoke.target == "/v1/certificates/C1")
    }

    @Test("reads with GET, and changes certificates only: POST creates, PATCH activates, DELETE revokes")
    func methods() {
        #expect(Self.all.map(\.kind) == PortalRequest.Kind.allCases)
        #expect(Self.all.map(\.kind.method.rawValue) == ["GET", "GET", "POST", "PATCH", "DELETE"])
        #expect(Self.all.map(\.kind.isWrite) == [false, false, true, true, true])
        #expect(Self.all.filter(\.kind.isWrite).allSatisfy { !$0.target.contains("merchantIds") })
        #expect(Self.all.map { $0.body != nil } == [false, false, true, true, false])
        for request in Self.all {
            #expect(PortalRequest(request.kind, of: request.name, new: request.new) == request)
        }
    }

    private func json(_ text: String?) throws -> NSDictionary {
        try #require(JSONSerialization.jsonObject(with: Data((text ?? "").utf8)) as? NSDictionary)
    }

    @Test("asks for a certificate with the merchant's resource, the type and the request in PEM")
    func creation() throws {
        let data = try #require(json(Self.create.body)["data"] as? [String: Any])
        #expect(data["type"] as? String == "certificates" && data.count == 3)
        #expect(
            data["relationships"] as? NSDictionary
                == ["merchantId": ["data": ["type": "merchantIds", "id": "A1B2C3D4E5"]]])
        let attributes = try #require(data["attributes"] as? [String: String])
        #expect(attributes["certificateType"] == "APPLE_PAY" && attributes.count == 2)
        let lines = try #require(attributes["csrContent"]).components(separatedBy: "\n")
        #expect(lines.first == "-----BEGIN CERTIFICATE REQUEST-----" && lines.last == "")
        #expect(lines.dropLast().last == "-----END CERTIFICATE REQUEST-----")
        let base64 = lines.dropFirst().dropLast(2)
        #expect(base64.map(\.count) == [64, 64, 64, 8])
        #expect(Data(base64Encoded: base64.joined()).map(Array.init) == Self.csr)
    }

    @Test("activates with the one attribute that the API has for it")
    func activation() throws {
        #expect(
            try json(Self.activate.body)
                == ["data": ["type": "certificates", "id": "C1", "attributes": ["activated": true]]])
    }

    @Test("knows Apple Pay's certificates of a merchant, and no other type")
    func types() {
        #expect(
            CertificateType.allCases.map(\.rawValue) == [
                "APPLE_PAY", "APPLE_PAY_RSA", "APPLE_PAY_MERCHANT_IDENTITY",
            ])
        for other in ["APPLE_PAY_PSP_IDENTITY", "IOS_DISTRIBUTION", "apple_pay", ""] {
            #expect(CertificateType(rawValue: other) == nil)
        }
    }

    @Test("takes a certificate request of 1 to 4096 bytes, for a new certificate and for nothing else")
    func requests() throws {
        #expect(NewCertificate(type: .applePay, csr: []) == nil)
        #expect(NewCertificate(type: .applePay, csr: [UInt8](repeating: 0, count: 4097)) == nil)
        let new = try #require(NewCertificate(type: .applePay, csr: [UInt8](repeating: 0, count: 4096)))
        #expect(PortalRequest(.createCertificate, of: "A1B2C3D4E5") == nil)
        for request in Self.all where request.kind != .createCertificate {
            #expect(PortalRequest(request.kind, of: request.name, new: new) == nil)
        }
    }

    @Test(
        "names no certificate but by 1 to 64 letters and digits",
        arguments: ["", "..", "a.b", "a-b", "C1/", "C1?x", "C 1", "é", String(repeating: "1", count: 65)])
    func certificateIds(_ text: String) {
        #expect(CertificateId(text) == nil)
        #expect(PortalRequest(.revokeCertificate, of: text) == nil)
        #expect(PortalRequest(.activateCertificate, of: text) == nil)
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
        #expect(PortalRequest(.createCertificate, of: text, new: Self.create.new) == nil)
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

    private static let key = PortalKeyName(issuer: "57246542-96fe-1a63-e053-0824d011072a", keyId: "2X9R4HXF34")!

    /// The header and the claims of a token.
    private func parts(_ kind: PortalRequest.Kind, _ name: String, _ scope: TokenScope?) throws -> [NSDictionary] {
        let right = try #require(TokenRight(kind, of: name, scope: scope))
        let token = JSONWebToken(Self.key, for: right, now: 1_800_000_000)
        let parts = String(decoding: token.signed([UInt8](repeating: 0xFB, count: 64)), as: UTF8.self).split(
            separator: ".")
        #expect(parts.count == 3)
        // 64 bytes FB in base64url: the alphabet for URLs, without padding.
        #expect(parts[2].count == 86 && parts[2].hasPrefix("-_v7") && !parts[2].contains("="))
        return try parts.prefix(2).map { part in
            var base64 = part.replacing("-", with: "+").replacing("_", with: "/")
            while base64.count % 4 != 0 { base64 += "=" }
            let data = try #require(Data(base64Encoded: String(base64)))
            return try #require(JSONSerialization.jsonObject(with: data) as? NSDictionary)
        }
    }

    @Test("builds a token with the claims of Apple's specification, which begins in the past and lives 100 seconds")
    func token() throws {
        let parts = try parts(.listCertificates, "A1B2C3D4E5", .unversioned)
        #expect(parts[0] == ["alg": "ES256", "kid": "2X9R4HXF34", "typ": "JWT"])
        #expect(
            parts[1] == [
                "iss": "57246542-96fe-1a63-e053-0824d011072a", "iat": 1_799_999_990, "exp": 1_800_000_090,
                "aud": "appstoreconnect-v1", "scope": ["GET /merchantIds/A1B2C3D4E5/certificates?limit=200"],
            ])
    }

    @Test("builds a token for a write without a scope, with the same times")
    func writeToken() throws {
        for request in Self.all where request.kind.isWrite {
            #expect(
                try parts(request.kind, request.name, nil)[1] == [
                    "iss": "57246542-96fe-1a63-e053-0824d011072a", "iat": 1_799_999_990, "exp": 1_800_000_090,
                    "aud": "appstoreconnect-v1",
                ])
        }
    }

    @Test("gives no right to a read without a scope, to a write with one, and to a name of another form")
    func rights() {
        for request in Self.all {
            let (wrong, right): (TokenScope?, TokenScope?) =
                request.kind.isWrite ? (.versioned, nil) : (nil, .versioned)
            #expect(TokenRight(request.kind, of: request.name, scope: right) != nil)
            #expect(TokenRight(request.kind, of: request.name, scope: wrong) == nil)
            #expect(TokenRight(request.kind, of: "..", scope: right) == nil)
        }
    }

    @Test("refuses names of a key that JSON would have to escape", arguments: ["", "a.b", "a\"", "a b", "ä"])
    func keyNames(_ text: String) {
        #expect(PortalKeyName(issuer: text, keyId: "A") == nil && PortalKeyName(issuer: "A", keyId: text) == nil)
    }
}
