import Foundation
import Refusals
import Testing

@testable import DaemonAPI

@Suite("Requests to generate and to rotate")
struct RotationRequestTests {
    private let noon = Date(timeIntervalSince1970: 1_800_000_000)

    @Test("what a client writes is read the same, the three kinds of cut-off too")
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

    @Test("what is left out has its default")
    func defaults() throws {
        let finish = try RotationFinishRequest(parsing: Array("{}".utf8))
        #expect(finish == RotationFinishRequest(type: nil, cutOff: .standard, force: false, reason: "rotated"))
        #expect(try KeyGenerationRequest(parsing: Array(#"{"merchantIdentifier":"m"}"#.utf8)).type == "EC")
        #expect(try RotationStartRequest(parsing: Array(#"{"merchantIdentifier":"m"}"#.utf8)).type == nil)
    }

    @Test(
        "what is no such request is malformed",
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
