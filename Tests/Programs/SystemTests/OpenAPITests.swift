import Crypto
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Comparison of a running daemon's answers with the OpenAPI file, for each path and each status that a test can
/// produce.
@Suite(.everyEngine) struct OpenAPITests {
    private static let document = Result {
        let file = ProjectFiles.url("Sources/Service/DaemonAPI/openapi.json")
        return try JSONValue(parsing: Array(Data(contentsOf: file)))
    }

    /// Requires that the OpenAPI file describes the answer under its path, method and status. Follows a `$ref` to a
    /// response.
    private func expectDescribed(
        _ answer: CurlAnswer, _ path: String, _ method: String = "post",
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let document = try Self.document.get()
        let schema = JSONSchema(document: document)
        let escaped = path.replacing("/", with: "~1")
        guard let operation = schema.resolve("#/paths/\(escaped)/\(method)")?.objectValue,
            var response = operation["responses"]?.objectValue?[String(answer.status)]?.objectValue
        else {
            Issue.record("\(method) \(path) has no \(answer.status): \(answer)", sourceLocation: sourceLocation)
            return
        }
        if let reference = response["$ref"]?.stringValue {
            response = try #require(schema.resolve(reference)?.objectValue, sourceLocation: sourceLocation)
        }
        for (name, header) in response["headers"]?.objectValue?.members ?? []
        where header.objectValue?["required"]?.boolValue == true {
            #expect(
                answer.header(name) != nil, "\(path) \(answer.status) lacks \(name)", sourceLocation: sourceLocation)
        }
        let content = try #require(response["content"]?.objectValue?["application/json"]?.objectValue?["schema"])
        let violations = try schema.violations(of: answer.json, by: content)
        #expect(violations.isEmpty, "\(method) \(path) \(answer.status): \(answer)", sourceLocation: sourceLocation)
    }

    private func paymentToken(_ merchant: ForgedMerchant? = nil, _ deviations: Set<Deviation> = []) throws
        -> MintedToken
    {
        try SharedForge.mint.mint(
            TokenRecipe(
                merchant: (merchant ?? SharedForge.ecMerchant).merchant, applicationData: [1], deviations: deviations))
    }

    @Test("describes each kind of answer of decrypt, from releases to refusals")
    func decrypt() async throws {
        let harness = try await SharedDaemon.harness
        for merchant in [try SharedForge.ecMerchant, try SharedForge.rsaMerchant] {
            let paymentToken = try paymentToken(merchant)
            let expected = "{\"currencyCode\":\"840\",\"transactionAmount\":1099}"
            for reference in ["a", "a", "b"] {
                try expectDescribed(
                    try await harness.decrypt(paymentToken, expected: expected, reference: reference), "/v1/decrypt")
            }
            try expectDescribed(
                try await harness.decrypt(paymentToken, reference: "a", attempt: "0123456789abcdef", after: []),
                "/v1/decrypt")
        }
        for merchants in [["*"], ["merchant.com.nobody"]] {
            try expectDescribed(
                try await Curl.request(
                    "/v1/decrypt", socket: harness.socket, body: paymentToken().decryptBody(merchants: merchants)),
                "/v1/decrypt")
        }
        for body in [Array("nonsense".utf8), [UInt8](repeating: 32, count: 70_000)] {
            try expectDescribed(
                try await Curl.request("/v1/decrypt", socket: harness.socket, body: body), "/v1/decrypt")
        }
        try expectDescribed(
            try await Curl.request(
                "/v1/decrypt", socket: harness.socket, body: paymentToken().decryptBody(), contentType: "text/plain"),
            "/v1/decrypt")
        try expectDescribed(
            try await harness.decrypt(paymentToken(), expected: "{\"currencyCode\":\"978\"}"), "/v1/decrypt")
    }

    @Test(
        "describes the refusal of every deviation by decrypt and verify", .serialized,
        arguments: Deviation.allCases.filter { $0.applies(to: "EC_v1") })
    func refusals(deviation: Deviation) async throws {
        let harness = try await SharedDaemon.harness
        let paymentToken = try paymentToken(nil, [deviation])
        try expectDescribed(try await harness.decrypt(paymentToken), "/v1/decrypt")
        try expectDescribed(try await harness.verify(paymentToken), "/v1/verify")
    }

    @Test("describes the answers of the verification of Google Pay tokens")
    func googlePay() async throws {
        let path = "/v1/google-pay/verify"
        let forge = GooglePayForge()
        let tomorrow = Date().addingTimeInterval(86_400)
        let token = try forge.mint(
            [1], to: P256.KeyAgreement.PrivateKey().publicKey, recipient: "merchant:1", expiration: tomorrow
        ).json
        func body(_ token: String, _ merchant: String) -> [UInt8] {
            Array("{\"token\":\(token),\"merchantIdentifier\":\"\(merchant)\"}".utf8)
        }
        let without = try await SharedDaemon.harness
        try expectDescribed(try await Curl.request(path, socket: without.socket, body: body(token, "1")), path)

        var configuration = DaemonConfiguration()
        configuration.googlePay = "google.json"
        let harness = try await DaemonHarness(prepared: configuration)
        try harness.directory.write(forge.rootKeys(expiration: tomorrow), to: "google.json")
        try await harness.start()
        var codes: [String?] = []
        for body in [body(token, "1"), body(JSONText.string(token), "1"), body(token, "2"), body("{}", "1"), []] {
            let answer = try await Curl.request(path, socket: harness.socket, body: body)
            try expectDescribed(answer, path)
            codes.append(answer.code)
        }
        #expect(codes == [nil, nil, "signature_invalid", "malformed_token", "malformed_request"])
        try expectDescribed(try await harness.admin("/v1/status"), "/v1/status", "get")
        #expect(try await harness.stop().status == 0)
    }

    @Test("describes status, keys, health and the refusals of administration")
    func administration() async throws {
        let harness = try await SharedDaemon.harness
        for path in [
            "/healthz", "/readyz", "/v1/status", "/v1/keys", "/v1/audit/records", "/v1/audit/public-key",
        ] {
            try expectDescribed(try await harness.admin(path), path, "get")
        }
        let hex = try SharedForge.ecMerchant.merchant.publicKeyHash.hexadecimal
        try expectDescribed(try await harness.admin("/v1/keys/\(hex)"), "/v1/keys/{key}", "get")
        let absent = try await harness.admin("/v1/keys/\(String(repeating: "0", count: 64))")
        #expect(absent.code == "key_not_found")
        try expectDescribed(absent, "/v1/keys/{key}", "get")
        let outsider = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.outsider"))
        for (path, body) in [
            ("/v1/certificates", "{\"certificate\":\"\(Data(outsider.certificate).base64EncodedString())\"}"),
            ("/v1/certificates", "{\"certificate\":\"AAAA\"}"), ("/v1/certificates", "{}"),
            ("/v1/keys/import", "{}"), ("/v1/keys/import", "[]"), ("/v1/ledger/backup", "[]"),
            ("/v1/ledger/accept-restore", "{}"), ("/v1/ledger/accept-restore", "{\"reason\":\"a test\"}"),
            ("/v1/ledger/accept-clock", "{}"), ("/v1/ledger/accept-clock", "{\"reason\":\"a test\"}"),
        ] {
            let answer = try await harness.admin(path, body: Array(body.utf8))
            #expect(answer.status >= 400)
            try expectDescribed(answer, path)
        }
    }

    @Test("describes the status 400 of every GET for a wrongly encoded target")
    func badTargets() async throws {
        let harness = try await SharedDaemon.harness
        let paths = try #require(try Self.document.get().objectValue?["paths"]?.objectValue)
        for (path, item) in paths.members where item.objectValue?["get"] != nil {
            let segments = path.split(separator: "/").map { $0.hasPrefix("{") ? "x" : String($0) }
            let target = "/" + segments.joined(separator: "/") + "?%zz"
            let socket = path == "/v1/tls-identities" ? harness.socket : harness.adminSocket
            let answer = try await Curl.request(target, socket: socket)
            #expect(answer.status == 400, "\(target): \(answer)")
            try expectDescribed(answer, path, "get")
        }
    }

    @Test("describes answers and refusals of key generation, certificate requests, proofs and rotations")
    func rotations() async throws {
        let harness = try await SharedDaemon.harness
        func post(_ target: String, _ path: String, _ body: String) async throws -> CurlAnswer {
            let answer = try await harness.admin(target, body: Array(body.utf8))
            try expectDescribed(answer, path)
            return answer
        }
        let first = "{\"merchantIdentifier\":\"merchant.com.example.openapi\"}"
        #expect(try await post("/v1/keys?dry_run=true", "/v1/keys", first).status == 200)
        let key = try await post("/v1/keys", "/v1/keys", first)
        let hash = try #require(key.string("publicKeyHash").flatMap { Data(base64Encoded: $0) })
        let hex = hash.hexadecimal
        for query in ["", "?dry_run=true"] {
            #expect(try await post("/v1/keys/\(hex)/csr\(query)", "/v1/keys/{key}/csr", "{}").status == 200)
            #expect(try await post("/v1/rotations\(query)", "/v1/rotations", first).status == 200)
        }
        let proofs = "/v1/keys/{key}/proofs"
        #expect(try await post("/v1/keys/\(hex)/proofs", proofs, "{}").status == 200)
        try expectDescribed(try await harness.admin("/v1/rotations"), "/v1/rotations", "get")
        for merchant in ["merchant.com.example.openapi", "merchant.com.example.nobody"] {
            try expectDescribed(
                try await harness.admin("/v1/rotations/\(merchant)"), "/v1/rotations/{merchant}", "get")
            for query in ["", "?excludeNodes=a,b", "?excludeNodes=%20"] {
                try expectDescribed(
                    try await harness.admin("/v1/renewals/\(merchant)\(query)"), "/v1/renewals/{merchant}", "get")
            }
        }
        let finish = "/v1/rotations/{merchant}/finish"
        for (target, path, body, status) in [
            ("/v1/keys", "/v1/keys", "{}", 400), ("/v1/rotations", "/v1/rotations", "[]", 400),
            ("/v1/rotations", "/v1/rotations", "{\"merchantIdentifier\":\"nobody\"}", 422),
            ("/v1/rotations/certificate", "/v1/rotations/certificate", "{\"certificate\":\"AAAA\"}", 422),
            ("/v1/rotations/merchant.com.example.openapi/finish", finish, "{\"force\":true}", 409),
            ("/v1/rotations/nobody/finish", finish, "{}", 422),
            ("/v1/keys/\(String(repeating: "0", count: 64))/csr", "/v1/keys/{key}/csr", "{}", 422),
            ("/v1/keys/\(String(repeating: "0", count: 64))/proofs", proofs, "{}", 422),
            ("/v1/keys/\(hex)/proofs?dry_run=true", proofs, "{}", 400),
        ] {
            let answer = try await post(target, path, body)
            #expect(answer.status == status, "\(target): \(answer)")
        }
        let csr = try #require(try await post("/v1/rotations", "/v1/rotations", first).string("csr"))
        let request = try #require(ForgePEM.bytes(csr, label: "CERTIFICATE REQUEST"))
        let certificate = try SharedForge.authority.merchantCertificate(
            certificateSigningRequest: request,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.openapi"))
        let body = "{\"certificate\":\"\(Data(certificate).base64EncodedString())\"}"
        for query in ["?dry_run=true", ""] {
            let answer = try await post("/v1/rotations/certificate\(query)", "/v1/rotations/certificate", body)
            #expect(answer.status == 200, "\(answer)")
        }
    }

    @Test("detects violations of a schema with the checker of these tests")
    func checkerDetectsViolations() throws {
        let schema = JSONSchema(document: try Self.document.get())
        let refusal = try #require(schema.resolve("#/components/schemas/Refusal"))
        let good = try JSONValue(parsing: "{\"code\":\"forbidden\",\"message\":\"No.\"}")
        #expect(schema.violations(of: good, by: refusal).isEmpty)
        for bad in [
            "{\"code\":\"forbidden\"}", "{\"code\":\"no_such_code\",\"message\":\"No.\"}",
            "{\"code\":1,\"message\":\"No.\"}", "[]",
        ] {
            #expect(try !schema.violations(of: JSONValue(parsing: bad), by: refusal).isEmpty, "\(bad)")
        }
    }
}

/// A checker for the part of JSON Schema 2020-12 that the OpenAPI file uses. An unknown keyword is a failure, because a
/// constraint that is not checked proves nothing.
struct JSONSchema {
    /// The document in which `$ref` is resolved.
    let document: JSONValue

    /// Returns the violations of `schema` in `value` with their paths, or an empty list if there are none.
    func violations(of value: JSONValue, by schema: JSONValue, at path: String = "$") -> [String] {
        if case .bool(let allows) = schema { return allows ? [] : ["\(path): nothing is allowed here"] }
        guard let keywords = schema.objectValue else { return ["\(path): the schema is neither object nor Boolean"] }
        return keywords.members.flatMap { name, constraint in
            violations(of: value, by: name, constraint, in: keywords, at: path)
        }
    }

    private static let annotations: Set<String> = [
        "description", "examples", "example", "default", "format", "title", "$comment", "contentEncoding", "deprecated",
    ]

    private func violations(
        of value: JSONValue, by keyword: String, _ constraint: JSONValue, in schema: JSONObject, at path: String
    ) -> [String] {
        func holds(_ condition: Bool) -> [String] {
            condition ? [] : ["\(path): breaks \(keyword) \(constraint)"]
        }
        func count(_ schema: JSONValue) -> Int { violations(of: value, by: schema, at: path).isEmpty ? 1 : 0 }
        let schemas = constraint.arrayValue ?? []
        switch keyword {
        case _ where Self.annotations.contains(keyword): return []
        case "$ref":
            guard let target = constraint.stringValue.flatMap(resolve) else {
                return ["\(path): \(constraint) leads nowhere"]
            }
            return violations(of: value, by: target, at: path)
        case "type":
            let types = constraint.arrayValue ?? [constraint]
            return holds(types.compactMap(\.stringValue).contains { isOf($0, value) })
        case "enum": return holds(schemas.contains(value))
        case "const": return holds(constraint == value)
        case "allOf": return schemas.flatMap { violations(of: value, by: $0, at: path) }
        case "anyOf": return holds(schemas.contains { count($0) == 1 })
        case "oneOf": return holds(schemas.map(count).reduce(0, +) == 1)
        case "not": return holds(count(constraint) == 0)
        case "properties":
            return (constraint.objectValue?.members ?? []).flatMap { name, schema in
                value.objectValue?[name].map { violations(of: $0, by: schema, at: "\(path).\(name)") } ?? []
            }
        case "required":
            guard let object = value.objectValue else { return [] }
            return schemas.compactMap(\.stringValue).filter { object[$0] == nil }.map { "\(path): lacks \($0)" }
        case "additionalProperties":
            let known = Set((schema["properties"]?.objectValue?.members ?? []).map(\.name))
            return (value.objectValue?.members ?? []).filter { !known.contains($0.name) }.flatMap {
                violations(of: $0.value, by: constraint, at: "\(path).\($0.name)")
            }
        case "items":
            return (value.arrayValue ?? []).enumerated().flatMap {
                violations(of: $0.element, by: constraint, at: "\(path)[\($0.offset)]")
            }
        case "minItems": return holds((value.arrayValue?.count ?? .max) >= constraint.numberValue?.int ?? 0)
        case "maxItems": return holds((value.arrayValue?.count ?? 0) <= constraint.numberValue?.int ?? .max)
        case "uniqueItems":
            let items = value.arrayValue ?? []
            return holds(items.indices.allSatisfy { index in !items[..<index].contains(items[index]) })
        case "minLength":
            return holds((value.stringValue?.unicodeScalars.count ?? .max) >= constraint.numberValue?.int ?? 0)
        case "maxLength":
            return holds((value.stringValue?.unicodeScalars.count ?? 0) <= constraint.numberValue?.int ?? .max)
        case "minimum": return holds((value.numberValue?.int ?? .max) >= constraint.numberValue?.int ?? 0)
        case "pattern":
            guard let text = value.stringValue else { return [] }
            guard let pattern = constraint.stringValue, let regex = try? Regex(pattern) else { return holds(false) }
            return holds(text.firstMatch(of: regex) != nil)
        default: return ["\(path): the keyword \(keyword) is not known to this test"]
        }
    }

    /// Returns the value at a reference such as `#/a/b/c`.
    func resolve(_ reference: String) -> JSONValue? {
        guard reference.hasPrefix("#/") else { return nil }
        return reference.dropFirst(2).split(separator: "/").reduce(Optional(document)) { value, name in
            let unescaped = name.replacing("~1", with: "/").replacing("~0", with: "~")
            return value?.objectValue?[String(unescaped)]
        }
    }

    private func isOf(_ type: String, _ value: JSONValue) -> Bool {
        switch type {
        case "null": value.isNull
        case "boolean": value.boolValue != nil
        case "string": value.stringValue != nil
        case "number": value.numberValue != nil
        case "integer": value.numberValue?.int != nil
        case "array": value.arrayValue != nil
        case "object": value.objectValue != nil
        default: false
        }
    }
}
