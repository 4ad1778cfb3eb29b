import Refusals
import Testing

@testable import DaemonAPI

/// The daemon's refusals of invalid request bodies. Code, message and details are compared with fixed text.
@Suite("Refused requests, word for word")
struct RefusedRequestTests {
    private func refusal(_ read: () throws -> Void) throws -> Refusal {
        try #require(throws: Refusal.self) { try read() }
    }

    private func isRefused(
        _ body: String, _ message: String, _ details: String? = nil, code: RefusalCode = .malformedRequest,
        location: SourceLocation = #_sourceLocation, by read: ([UInt8]) throws -> Void
    ) throws {
        let refusal = try refusal { try read(Array(body.utf8)) }
        #expect(refusal.code == code, sourceLocation: location)
        #expect(refusal.message == message, sourceLocation: location)
        #expect(refusal.details == details, sourceLocation: location)
    }

    @Test("refuses an invalid request to change a key's state")
    func keyState() throws {
        func isRefused(_ body: String, _ message: String, _ details: String? = nil) throws {
            try self.isRefused(body, message, details) { _ = try KeyStateRequest(parsing: $0) }
        }
        try isRefused("[]", "The body is not a JSON object.")
        try isRefused(
            #"{"to":"active","reason":"r","Reason":"r"}"#, "The body has an unknown member.",
            "known are: cutOff, reason, to")
        try isRefused(#"{"reason":"r"}"#, "The body has no member to.", "to")
        try isRefused(#"{"to":1,"reason":"r"}"#, "to is not a string.", "to")
        try isRefused(#"{"to":null,"reason":"r"}"#, "to is not a string.", "to")
        try isRefused(#"{"to":"active"}"#, "The body has no member reason.", "reason")
        try isRefused(#"{"to":"active","reason":["r"]}"#, "reason is not a string.", "reason")
        for reason in ["", String(repeating: "ä", count: 201)] {
            try isRefused(
                #"{"to":"active","reason":"\#(reason)"}"#, "reason must have 1 to 200 characters.", "reason")
        }
        _ = try KeyStateRequest(parsing: Array(#"{"to":"a","reason":"\#(String(repeating: "ä", count: 200))"}"#.utf8))
        try isRefused(#"{"to":"a","reason":"r","cutOff":"soon"}"#, "cutOff is not an RFC 3339 time.", "cutOff")
        try isRefused(#"{"to":"a","reason":"r","cutOff":7}"#, "cutOff is not a string.", "cutOff")
        try isRefused(#"{"to":"a","reason":"r","cutOff":null}"#, "cutOff is not a string.", "cutOff")
        let twice = try refusal { _ = try KeyStateRequest(parsing: Array(#"{"to":"a","to":"a"}"#.utf8)) }
        #expect(twice.code == .malformedRequest && twice.message == "The body is not strict JSON.")
    }

    @Test("refuses an invalid reason, an invalid approval decision, and members in an empty request")
    func small() throws {
        let ledger = { (body: [UInt8]) throws in _ = try LedgerAcceptanceRequest(parsing: body) }
        let unknown = "The body has an unknown member."
        try isRefused("{}", "The body has no member reason.", "reason", by: ledger)
        try isRefused(
            #"{"reason":""}"#, "reason is empty; give a reason for the record.", "reason", by: ledger)
        try isRefused(#"{"reason":null}"#, "reason is not a string.", "reason", by: ledger)
        try isRefused(#"{"reason":"r","a":1}"#, unknown, "known are: reason", by: ledger)
        let restore = { (body: [UInt8]) throws in _ = try AcceptRestoreRequest(parsing: body) }
        try isRefused(
            #"{"reason":""}"#, "reason is empty; give a reason for the record.", "reason", by: restore)
        try isRefused(#"{"reason":"r","a":1}"#, unknown, "known are: reason, withoutFinding", by: restore)
        try restore(Array(#"{"reason":"r","withoutFinding":true}"#.utf8))
        // This parser accepts a long reason; the ledger refuses it by the audit record's limit.
        try ledger(Array(#"{"reason":"\#(String(repeating: "r", count: 300))"}"#.utf8))

        let decision = { (body: [UInt8]) throws in _ = try ApprovalDecisionRequest(parsing: body) }
        try decision(Array(#"{"decision":"approve"}"#.utf8))
        try isRefused("{}", "The body has no member decision.", "decision", by: decision)
        try isRefused(
            #"{"decision":"a","reason":""}"#, "reason must have 1 to 200 characters.", "reason", by: decision)
        try isRefused(#"{"decision":"a","reason":null}"#, "reason is not a string.", "reason", by: decision)
        try isRefused(#"{"decision":true}"#, "decision is not a string.", "decision", by: decision)
        try isRefused(#"{"decision":"a","who":1}"#, unknown, "known are: decision, reason", by: decision)

        let empty = { (body: [UInt8]) throws in _ = try EmptyRequest(parsing: body) }
        try empty(Array("{}".utf8))
        try isRefused(#"{"a":1}"#, unknown, "known are: ", by: empty)
        try isRefused("null", "The body is not a JSON object.", by: empty)
    }

    @Test("refuses invalid requests to import keys and certificates")
    func imports() throws {
        let key = { (body: [UInt8]) throws in _ = try KeyImportRequest(parsing: body) }
        let sealed = #"{"token":"t","encapsulatedKey":"B","sealedPrivateKey":"C"}"#
        let count = "sealedKeys is not an array of 1 to 16 objects."
        try isRefused("{}", "The body has no member sealedKeys.", "sealedKeys", by: key)
        try isRefused(#"{"certificate":"A"}"#, "The body has no member sealedKeys.", "sealedKeys", by: key)
        try isRefused(#"{"certificate":"A","sealedKeys":[]}"#, count, "sealedKeys", by: key)
        try isRefused(#"{"certificate":"A","sealedKeys":{}}"#, count, "sealedKeys", by: key)
        try isRefused(#"{"certificate":"A","sealedKeys":null}"#, count, "sealedKeys", by: key)
        let many = [String](repeating: sealed, count: 17).joined(separator: ",")
        try isRefused(#"{"certificate":"A","sealedKeys":[\#(many)]}"#, count, "sealedKeys", by: key)
        for element in ["7", "null", #"{"token":"t","pin":"1"}"#] {
            try isRefused(
                #"{"certificate":"A","sealedKeys":[\#(element)]}"#,
                "sealedKeys[] is not an object of the known members.",
                "known are: encapsulatedKey, sealedPrivateKey, token", by: key)
        }
        try isRefused(
            #"{"certificate":"A","sealedKeys":[{"token":"t"}]}"#, "The body has no member encapsulatedKey.",
            "encapsulatedKey", by: key)
        try isRefused(
            #"{"certificate":"A","sealedKeys":[{"token":7}]}"#, "token is not a string.", "token", by: key)
        try isRefused(
            #"{"certificate":"A","sealedKeys":[\#(sealed),\#(sealed)]}"#, "sealedKeys names an HSM token twice.",
            "sealedKeys", by: key)
        try isRefused(
            #"{"certificate":"A","allowExpired":"yes","sealedKeys":[\#(sealed)]}"#,
            "allowExpired is not true or false.",
            "allowExpired", by: key)
        try isRefused(
            #"{"certificate":"A","approval":1,"sealedKeys":[\#(sealed)]}"#, "approval is not a string.", "approval",
            by: key)
        try isRefused(
            #"{"certificate":"A","merchantIdentifier":null,"sealedKeys":[\#(sealed)]}"#,
            "merchantIdentifier is not a string.", "merchantIdentifier", by: key)
        let certificate = { (body: [UInt8]) throws in _ = try CertificateImportRequest(parsing: body) }
        try isRefused(
            #"{"certificate":"A","allowExpired":null}"#, "allowExpired is not true or false.", "allowExpired",
            by: certificate)
        try isRefused(
            #"{"certificate":"A","x":1}"#, "The body has an unknown member.",
            "known are: allowExpired, certificate", by: certificate)
    }

    @Test("refuses invalid requests to generate and rotate keys")
    func rotations() throws {
        let generate = { (body: [UInt8]) throws in _ = try KeyGenerationRequest(parsing: body) }
        try isRefused("{}", "The body has no member merchantIdentifier.", "merchantIdentifier", by: generate)
        try isRefused(#"{"merchantIdentifier":"m","type":null}"#, "type is not a string.", "type", by: generate)
        try isRefused(#"{"merchantIdentifier":"m","token":3}"#, "token is not a string.", "token", by: generate)
        let start = { (body: [UInt8]) throws in _ = try RotationStartRequest(parsing: body) }
        try isRefused(#"{"merchantIdentifier":"m","type":1}"#, "type is not a string.", "type", by: start)
        let finish = { (body: [UInt8]) throws in _ = try RotationFinishRequest(parsing: body) }
        try isRefused(#"{"force":1}"#, "force is not true or false.", "force", by: finish)
        try isRefused(#"{"reason":""}"#, "reason must have 1 to 200 characters.", "reason", by: finish)
        try isRefused(#"{"reason":null}"#, "reason is not a string.", "reason", by: finish)
        try isRefused(#"{"cutOff":"soon"}"#, "cutOff is not an RFC 3339 time or null.", "cutOff", by: finish)
        try isRefused(
            #"{"cut-off":null}"#, "The body has an unknown member.",
            "known are: cutOff, force, reason, type, use", by: finish)
        #expect(try RotationFinishRequest(parsing: Array(#"{"cutOff":null}"#.utf8)).cutOff == .now)
    }

    @Test("refuses invalid members around a payment token")
    func payments() throws {
        let decrypt = { (body: [UInt8]) throws in _ = try DecryptRequest(parsing: body) }
        try isRefused("{}", "The body has no member token.", "token", by: decrypt)
        try isRefused(
            #"{"token":1,"at":1}"#, "The body has an unknown member.",
            "known are: after, attempt, expected, merchants, reference, token", by: decrypt)
        try isRefused(#"{"token":{},"expected":null}"#, "expected is not an object.", "expected", by: decrypt)
        try isRefused(
            #"{"token":{},"reference":""}"#, "reference is not 1 to 128 printable ASCII characters.", "reference",
            by: decrypt)
        let form = "16 lower-case hexadecimal digits that are not all zero"
        try isRefused(#"{"token":{},"attempt":"4111"}"#, "attempt is not \(form).", "attempt", by: decrypt)
        try isRefused(#"{"token":{},"attempt":7}"#, "attempt is not a string.", "attempt", by: decrypt)
        try isRefused(#"{"token":{},"after":[]}"#, "after needs an attempt.", "after", by: decrypt)
        try isRefused(
            #"{"token":{},"attempt":"0123456789abcdef","after":["4111"]}"#,
            "after is not an array of 0 to 100 texts of \(form).", "after", by: decrypt)
        try isRefused(
            #"{"token":{},"attempt":"0123456789abcdef","after":["0123456789abcdef"]}"#,
            "after names the attempt itself.", "after", by: decrypt)
        let verify = { (body: [UInt8]) throws in _ = try VerifyRequest(parsing: body) }
        try isRefused(#"{"token":{},"at":"now"}"#, "at is not a time of RFC 3339.", "at", by: verify)
        try isRefused(#"{"token":{},"at":0}"#, "at is not a string.", "at", by: verify)
    }
}
