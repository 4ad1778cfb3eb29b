import Encodings
import Foundation
import Refusals
import StrictJSON
import Testing

@testable import DaemonAPI

@Suite("Requests with a payment token, and import requests")
struct RequestTests {
    @Test("Reads a decrypt request as the client writes it")
    func decrypt() throws {
        let paymentToken = Array(#"{"version" : "EC_v1","data":"\/w=="}"#.utf8)
        let expected = try #require(JSONObject([("currencyCode", .string("840")), ("applicationData", .null)]))
        let body = DecryptRequest.body(paymentToken: paymentToken, expected: expected, reference: "order-1234")
        #expect(body.firstRange(of: paymentToken) != nil)
        let request = try DecryptRequest(parsing: body)
        #expect(request.token.objectValue?["data"]?.stringValue == "/w==")
        #expect(request.expected == expected)
        #expect(request.common.reference == "order-1234")
        let bare = try DecryptRequest(
            parsing: DecryptRequest.body(paymentToken: paymentToken, expected: nil, reference: nil))
        #expect(bare.expected == nil)
        #expect(bare.common.reference == nil)
        #expect(bare.common.attempt == nil && bare.common.after.isEmpty)
        #expect(bare.merchants == nil)
    }

    @Test("Reads a request's merchants as the client writes them")
    func merchants() throws {
        let longest = String(repeating: "m", count: 255)
        for merchants in [["merchant.com.example.*"], ["*"], Array(repeating: longest, count: 100)] {
            let body = DecryptRequest.body(
                paymentToken: Array("{}".utf8), expected: nil, reference: nil, merchants: merchants)
            #expect(try DecryptRequest(parsing: body).merchants == merchants)
        }
    }

    @Test(
        "Refuses an invalid list of merchants as malformed_request instead of treating it as absent",
        arguments: [
            "[]", "null", #""*""#, "{}", "[1]", "[null]", #"[""]"#, #"["*",["*"]]"#,
            "[\"" + String(repeating: "m", count: 256) + "\"]",
            "[" + Array(repeating: #""*""#, count: 101).joined(separator: ",") + "]",
        ])
    func malformedMerchants(list: String) {
        let body = Array("{\"token\":{},\"merchants\":\(list)}".utf8)
        #expect(code { _ = try DecryptRequest(parsing: body) } == .malformedRequest)
    }

    @Test("Reads the name of an attempt, and of those it may follow, as the client writes them")
    func attempts() throws {
        let attempt = "0123456789abcdef"
        let hundred = (100..<200).map { "0000000000000\($0)" }
        for after in [[], ["fedcba9876543210"], hundred] {
            let body = DecryptRequest.body(
                paymentToken: Array("{}".utf8), expected: nil, reference: "r", attempt: attempt, after: after)
            let request = try DecryptRequest(parsing: body)
            #expect(request.common.attempt == attempt && request.common.after == after)
        }
        // Without the attempt's name, the client still writes `after`, and the daemon refuses the request.
        let nameless = DecryptRequest.body(
            paymentToken: Array("{}".utf8), expected: nil, reference: "r", after: [attempt])
        #expect(code { _ = try DecryptRequest(parsing: nameless) } == .malformedRequest)
    }

    private static let other = #""fedcba9876543210""#

    @Test(
        "Refuses an invalid attempt, and an invalid list of attempts it may follow, as malformed_request",
        arguments: [
            #""attempt":"" "#, #""attempt":"0000000000000000""#, #""attempt":"0123456789ABCDEF""#,
            #""attempt":"0123456789abcde""#, #""attempt":"0123456789abcdef0""#, #""attempt":"0123456789abcdeg""#,
            #""attempt":1"#, #""attempt":null"#, #""attempt":["0123456789abcdef"]"#, #""after":[]"#,
            #""after":["0123456789abcdef"]"#, #""attempt":"0123456789abcdef","after":null"#,
            #""attempt":"0123456789abcdef","after":"fedcba9876543210""#,
            #""attempt":"0123456789abcdef","after":{}"#, #""attempt":"0123456789abcdef","after":[1]"#,
            #""attempt":"0123456789abcdef","after":[null]"#,
            #""attempt":"0123456789abcdef","after":["fedcba9876543210","0000000000000000"]"#,
            #""attempt":"0123456789abcdef","after":["FEDCBA9876543210"]"#,
            #""attempt":"0123456789abcdef","after":["fedcba9876543210","0123456789abcdef"]"#,
            #""attempt":"0123456789abcdef","attempt":"fedcba9876543210""#,
            #""attempt":"0123456789abcdef","after":["#
                + Array(repeating: other, count: 101).joined(separator: ",") + "]",
        ])
    func malformedAttempts(members: String) {
        #expect(code { _ = try DecryptRequest(parsing: Array("{\"token\":{},\(members)}".utf8)) } == .malformedRequest)
    }

    @Test(
        "Refuses a body that is not a decrypt request as malformed_request",
        arguments: [
            "", "[]", "7", "null", "{}", #"{"token":{}} x"#, #"{"token":{},"token":{}}"#,
            #"{"token":{},"Reference":"a"}"#,
            #"{"token":{},"reference":7}"#, #"{"token":{},"reference":null}"#, #"{"token":{},"reference":""}"#,
            #"{"token":{},"reference":"a\nb"}"#, #"{"token":{},"reference":"é"}"#, #"{"token":{},"expected":[]}"#,
            #"{"token":{},"expected":null}"#, #"{"token":{},"at":"2026-01-31T12:00:00Z"}"#,
            #"{"token":{},"reference":"\#(String(repeating: "r", count: 129))"}"#,
            String(repeating: "[", count: 30_000),
        ])
    func malformedDecrypt(body: String) {
        #expect(code { _ = try DecryptRequest(parsing: Array(body.utf8)) } == .malformedRequest)
    }

    @Test("Refuses a repeated member as malformed_token inside the payment token, otherwise as malformed_request")
    func repeatedNames() {
        let inside = Array(#"{"reference":"a","token":{"header":{"publicKeyHash":"","publicKeyHash":""}}}"#.utf8)
        #expect(code { _ = try DecryptRequest(parsing: inside) } == .malformedToken)
        #expect(code { _ = try VerifyRequest(parsing: Array(#"{"token":[{"a":1,"a":1}]}"#.utf8)) } == .malformedToken)
        let beside = Array(#"{"token":{},"expected":{"currencyCode":"840","currencyCode":"840"}}"#.utf8)
        #expect(code { _ = try DecryptRequest(parsing: beside) } == .malformedRequest)
    }

    @Test("Accepts a reference of 1 to 128 printable ASCII characters")
    func references() {
        #expect(DecryptRequest.isReference("~ order/1"))
        #expect(DecryptRequest.isReference(String(repeating: "r", count: 128)))
        #expect(!DecryptRequest.isReference("\u{7f}"))
        #expect(!DecryptRequest.isReference("\t"))
    }

    @Test("Does not repeat an unknown member's name to the caller")
    func namesAreNotEchoed() {
        let body = Array(#"{"token":{},"4111111111111111":1}"#.utf8)
        let refusal = #expect(throws: Refusal.self) { try DecryptRequest(parsing: body) }
        #expect(refusal?.code == .malformedRequest)
        #expect(!"\(String(describing: refusal))".contains("4111"))
    }

    @Test("Reads a verify request with a time")
    func verify() throws {
        let time = Date(timeIntervalSince1970: 1_769_860_800)
        let body = VerifyRequest.body(paymentToken: Array("{}".utf8), at: RFC3339.string(time))
        #expect(try VerifyRequest(parsing: body).at == time)
        #expect(try VerifyRequest(parsing: VerifyRequest.body(paymentToken: Array("{}".utf8), at: nil)).at == nil)
        for body in [
            #"{"token":{},"at":"now"}"#, #"{"token":{},"at":0}"#, #"{"token":{},"reference":"a"}"#,
            #"{"at":"2026-01-31T12:00:00Z"}"#,
        ] {
            #expect(code { _ = try VerifyRequest(parsing: Array(body.utf8)) } == .malformedRequest, "\(body)")
        }
    }

    @Test("Reads import requests as the client writes them")
    func imports() throws {
        let request = KeyImportRequest(
            merchantIdentifier: "merchant.com.example", certificate: "AAAA",
            sealedKeys: [.init(token: "primary", encapsulatedKey: "BBBB", sealedPrivateKey: "CCCC")], allowExpired: true
        )
        #expect(try KeyImportRequest(parsing: JSONCoding.encode(request)) == request)
        let minimal =
            #"{"certificate":"AAAA","sealedKeys":[{"token":"t","encapsulatedKey":"B","sealedPrivateKey":"C"}]}"#
        let read = try KeyImportRequest(parsing: Array(minimal.utf8))
        #expect(read.merchantIdentifier == nil)
        #expect(!read.allowExpired)
        let certificate = CertificateImportRequest(certificate: "AAAA", allowExpired: true)
        #expect(try CertificateImportRequest(parsing: JSONCoding.encode(certificate)) == certificate)
    }

    @Test(
        "Refuses a body that is not an import request as malformed_request",
        arguments: [
            #"{"certificate":"A"}"#, #"{"certificate":"A","sealedKeys":[]}"#, #"{"certificate":"A","sealedKeys":[7]}"#,
            #"{"certificate":"A","sealedKeys":[{"token":"t"}]}"#, #"{"sealedKeys":[]}"#,
            #"{"certificate":"A","sealedKeys":[{"token":"t","encapsulatedKey":"B","sealedPrivateKey":"C","pin":"1"}]}"#,
            #"{"certificate":"A","allowExpired":1,"sealedKeys":[{"token":"t","encapsulatedKey":"B","sealedPrivateKey":"C"}]}"#,
            #"{"certificate":"A","sealedKeys":[{"token":"t","encapsulatedKey":"B","sealedPrivateKey":"C"},{"token":"t","encapsulatedKey":"B","sealedPrivateKey":"C"}]}"#,
        ])
    func malformedImport(body: String) {
        #expect(code { _ = try KeyImportRequest(parsing: Array(body.utf8)) } == .malformedRequest)
        #expect(
            code { _ = try CertificateImportRequest(parsing: Array(body.utf8)) }
                == (body == #"{"certificate":"A"}"# ? nil : .malformedRequest))
    }

    private func code(_ body: () throws -> Void) -> RefusalCode? {
        do {
            try body()
            return nil
        } catch {
            return (error as? Refusal)?.code
        }
    }
}

@Suite("Requests to generate and to rotate")
struct RotationRequestTests {
    private let noon = Date(timeIntervalSince1970: 1_800_000_000)

    @Test("reads requests as the client writes them, with each kind of cut-off")
    func roundTrips() throws {
        for cutOff in [RotationFinishRequest.CutOff.standard, .now, .at(noon)] {
            let request = RotationFinishRequest(type: "RSA", cutOff: cutOff, force: true, reason: "why")
            let bytes = try JSONCoding.encode(request)
            #expect(try RotationFinishRequest(parsing: bytes) == request)
            #expect(try JSONCoding.decode(RotationFinishRequest.self, from: bytes) == request)
        }
        let start = RotationStartRequest(merchantIdentifier: "m", type: "EC", token: "t")
        #expect(try RotationStartRequest(parsing: JSONCoding.encode(start)) == start)
        let order = KeyGenerationRequest(merchantIdentifier: "m", type: "RSA")
        #expect(try KeyGenerationRequest(parsing: JSONCoding.encode(order)) == order)
        _ = try EmptyRequest(parsing: JSONCoding.encode(EmptyRequest()))
    }

    @Test("uses defaults for omitted members")
    func defaults() throws {
        let finish = try RotationFinishRequest(parsing: Array("{}".utf8))
        #expect(finish == RotationFinishRequest(type: nil, cutOff: .standard, force: false, reason: "rotated"))
        #expect(try KeyGenerationRequest(parsing: Array(#"{"merchantIdentifier":"m"}"#.utf8)).type == "EC")
        #expect(try RotationStartRequest(parsing: Array(#"{"merchantIdentifier":"m"}"#.utf8)).type == nil)
    }

    @Test(
        "refuses members of a wrong type, unknown members, and bodies that are not objects",
        arguments: [
            #"{"force":1}"#, #"{"cutOff":7}"#, #"{"cutOff":"tomorrow"}"#, #"{"reason":""}"#, #"{"reason":null}"#,
            #"{"type":1}"#, #"{"Force":true}"#, "[]", "",
        ])
    func malformed(body: String) {
        #expect(throws: Refusal.self) { try RotationFinishRequest(parsing: Array(body.utf8)) }
        #expect(throws: Refusal.self) { try RotationStartRequest(parsing: Array(body.utf8)) }
        #expect(throws: Refusal.self) { try KeyGenerationRequest(parsing: Array(body.utf8)) }
        #expect(throws: Refusal.self) { try EmptyRequest(parsing: Array(body.utf8)) }
    }
}
