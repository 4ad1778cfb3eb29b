import DaemonAPI
import Foundation
import Testing

/// Comparisons of the daemon's answers with fixed text, because scripts and clients parse them. Some answers have null
/// for an unknown value, others omit it.
@Suite("Answers, byte for byte")
struct AnswerBytesTests {
    private static let noon = Date(timeIntervalSince1970: 1_769_860_800)

    private static let bareKey = KeySummary(
        publicKeyHash: "A/8=", merchantIdentifier: nil, algorithm: "EC", state: "pre-activation", notAfter: nil,
        daysLeft: nil, tier: nil, lastUse: nil, uses: 0, condition: "external", remark: nil, tokens: [])
    private static let bareKeyText =
        #"{"algorithm":"EC","condition":"external","cutOff":null,"daysLeft":null,"lastUse":null,"#
        + #""merchantIdentifier":null,"nodes":null,"notAfter":null,"publicKeyHash":"A/8=","remark":null,"#
        + #""state":"pre-activation","tier":null,"tokens":[],"use":"processing","uses":0}"#

    private static let fullKey = KeySummary(
        publicKeyHash: "BBBB", merchantIdentifier: "merchant.com.example", algorithm: "RSA", use: "identity",
        state: "deactivated",
        notAfter: noon, daysLeft: -1, tier: "C", lastUse: noon + 1, uses: 7, condition: "served", remark: "r",
        tokens: ["a", "b"], cutOff: noon + 2, nodes: ["n", "o"])
    private static let fullKeyText =
        #"{"algorithm":"RSA","condition":"served","cutOff":"2026-01-31T12:00:02Z","daysLeft":-1,"#
        + #""lastUse":"2026-01-31T12:00:01Z","merchantIdentifier":"merchant.com.example","#
        + #""nodes":["n","o"],"notAfter":"2026-01-31T12:00:00Z","publicKeyHash":"BBBB","remark":"r","#
        + #""state":"deactivated","tier":"C","#
        + #""tokens":["a","b"],"use":"identity","uses":7}"#

    private static let noRotation = RotationStatus(
        merchantIdentifier: "m", algorithm: "EC", phase: "none", next: "n", newKey: nil, oldKeys: [], steps: [],
        remarks: [])
    private static let noRotationText =
        #"{"algorithm":"EC","merchantIdentifier":"m","newKey":null,"next":"n","oldKeys":[],"phase":"none","#
        + #""remarks":[],"steps":[],"use":"processing"}"#

    private func text(_ answer: some Encodable) throws -> String {
        String(decoding: try JSONCoding.encode(answer), as: UTF8.self)
    }

    @Test("writes a key the same alone, in a list and inside other answers")
    func keys() throws {
        #expect(try text(Self.bareKey) == Self.bareKeyText)
        #expect(try text(Self.fullKey) == Self.fullKeyText)
        var googlePay = Self.bareKey
        googlePay.replacementDue = Self.noon
        let googlePayText = Self.bareKeyText.replacing(
            #""remark":null,"#, with: #""remark":null,"replacementDue":"2026-01-31T12:00:00Z","#)
        #expect(try text(googlePay) == googlePayText)
        #expect(
            String(decoding: ListAnswer(items: [googlePay]).json(), as: UTF8.self)
                == #"{"items":[\#(googlePayText)]}"#)
        let list = ListAnswer(items: [Self.bareKey, Self.fullKey], next: "c")
        #expect(
            String(decoding: list.json(), as: UTF8.self)
                == #"{"items":[\#(Self.bareKeyText),\#(Self.fullKeyText)],"next":"c"}"#)
        #expect(String(decoding: ListAnswer<KeySummary>(items: []).json(), as: UTF8.self) == #"{"items":[]}"#)
        #expect(
            try text(RotationImportAnswer(rotation: Self.noRotation, key: Self.bareKey))
                == #"{"key":\#(Self.bareKeyText),"rotation":\#(Self.noRotationText)}"#)
    }

    @Test("writes the answers to a dry run of a key generation and to a certificate request")
    func requests() throws {
        #expect(
            try text(KeyGenerationDryRun(merchantIdentifier: "m", algorithm: "EC", token: "t"))
                == #"{"algorithm":"EC","merchantIdentifier":"m","token":"t","use":"processing"}"#)
        #expect(
            try text(
                CertificateRequestAnswer(publicKeyHash: "AA", merchantIdentifier: nil, algorithm: "EC", csr: nil))
                == #"{"algorithm":"EC","csr":null,"merchantIdentifier":null,"publicKeyHash":"AA"}"#)
        #expect(
            try text(
                CertificateRequestAnswer(publicKeyHash: "AA", merchantIdentifier: "m", algorithm: "EC", csr: "P\nE/M"))
                == #"{"algorithm":"EC","csr":"P\nE/M","merchantIdentifier":"m","publicKeyHash":"AA"}"#)
    }

    @Test("writes rotations with and without keys")
    func rotations() throws {
        #expect(try text(Self.noRotation) == Self.noRotationText)
        let bare = RotationKey(
            publicKeyHash: "AA", state: "pre-activation", condition: "missing", createdAt: Self.noon, notAfter: nil,
            cutOff: nil, tokens: [], openedLastHour: 0, lastUse: nil, refusedLastHour: 0)
        let full = RotationKey(
            publicKeyHash: "BB", state: "deactivated", condition: "served", createdAt: Self.noon, notAfter: Self.noon,
            cutOff: Self.noon, tokens: ["t"], openedLastHour: 1, lastUse: Self.noon, refusedLastHour: 2)
        let rotation = RotationStatus(
            merchantIdentifier: "m", algorithm: "RSA", use: "identity", phase: "overlap", next: "n", newKey: bare,
            oldKeys: [full],
            steps: [.init(name: "generate", status: "done", text: "x")], remarks: ["r"])
        let noon = "2026-01-31T12:00:00Z"
        let rotationText =
            #"{"algorithm":"RSA","merchantIdentifier":"m","newKey":{"condition":"missing","createdAt":"\#(noon)","#
            + #""cutOff":null,"lastUse":null,"notAfter":null,"openedLastHour":0,"publicKeyHash":"AA","#
            + #""refusedLastHour":0,"state":"pre-activation","tokens":[]},"next":"n","oldKeys":["#
            + #"{"condition":"served","createdAt":"\#(noon)","cutOff":"\#(noon)","lastUse":"\#(noon)","#
            + #""notAfter":"\#(noon)","openedLastHour":1,"publicKeyHash":"BB","refusedLastHour":2,"#
            + #""state":"deactivated","tokens":["t"]}],"phase":"overlap","remarks":["r"],"#
            + #""steps":[{"name":"generate","status":"done","text":"x"}],"use":"identity"}"#
        #expect(try text(rotation) == rotationText)
        #expect(
            try text(RotationStartAnswer(rotation: rotation, created: true, csr: nil))
                == #"{"created":true,"csr":null,"rotation":\#(rotationText)}"#)
        #expect(
            try text(RotationStartAnswer(rotation: Self.noRotation, created: false, csr: "c"))
                == #"{"created":false,"csr":"c","rotation":\#(Self.noRotationText)}"#)
        #expect(
            try text(RotationFinishAnswer(rotation: Self.noRotation, retired: ["AA"], cutOff: nil))
                == #"{"cutOff":null,"retired":["AA"],"rotation":\#(Self.noRotationText)}"#)
        #expect(
            try text(RotationFinishAnswer(rotation: Self.noRotation, retired: [], cutOff: Self.noon))
                == #"{"cutOff":"\#(noon)","retired":[],"rotation":\#(Self.noRotationText)}"#)
    }

    @Test("omits unknown members of approvals")
    func approvals() throws {
        let noon = "2026-01-31T12:00:00Z"
        #expect(
            try text(PendingAnswer(approval: "0a", expires: Self.noon))
                == #"{"approval":"0a","expires":"\#(noon)","status":"pending"}"#)
        let approval = ApprovalSummary(
            approval: "0a", operation: "key_destroy", status: "pending", publicKeyHash: nil, merchantIdentifier: nil,
            keyState: nil, reason: "r", requestedBy: "alice", requester: 1, requestedAt: Self.noon, expires: Self.noon,
            decidedBy: nil, decidedAt: nil)
        let approvalText =
            #"{"approval":"0a","expires":"\#(noon)","operation":"key_destroy","reason":"r","requestedAt":"\#(noon)","#
            + #""requestedBy":"alice","requester":1,"status":"pending"}"#
        #expect(try text(ApprovalDecisionAnswer(approval: approval, key: nil)) == #"{"approval":\#(approvalText)}"#)
        #expect(
            try text(ApprovalDecisionAnswer(approval: approval, key: Self.bareKey))
                == #"{"approval":\#(approvalText),"key":\#(Self.bareKeyText)}"#)
    }

    @Test("omits unknown members of the ledger's and the record's answers")
    func ledger() throws {
        let noon = "2026-01-31T12:00:00Z"
        #expect(
            try text(
                AcceptClockAnswer(
                    status: "unchanged", clock: Self.noon, newestRecord: nil, forgottenBefore: nil, servedFrom: nil))
                == #"{"clock":"\#(noon)","status":"unchanged"}"#)
        #expect(
            try text(AcceptRestoreAnswer(ledgerSequence: 0, tokenSequence: nil, servedFrom: nil))
                == #"{"ledgerSequence":0,"status":"accepted"}"#)
        #expect(try text(LedgerBackupDryRun(ledgerSequence: 3)) == #"{"ledgerSequence":3}"#)
        #expect(try text(AuditPublicKeyAnswer(keys: [])) == #"{"keys":[]}"#)
        #expect(try text(AuditKeyChangeAnswer(status: "unchanged", from: "f")) == #"{"from":"f","status":"unchanged"}"#)
        #expect(try text(ReadinessAnswer(ready: true)) == #"{"ready":true}"#)
        #expect(try text(HealthAnswer()) == #"{"healthy":true}"#)
    }

    @Test("writes the requests that paytokenctl sends")
    func sent() throws {
        #expect(
            try text(KeyStateRequest(to: "suspended", reason: "r")) == #"{"reason":"r","to":"suspended"}"#)
        #expect(
            try text(KeyStateRequest(to: "deactivated", reason: "r", cutOff: Self.noon))
                == #"{"cutOff":"2026-01-31T12:00:00Z","reason":"r","to":"deactivated"}"#)
        #expect(
            try text(RotationFinishRequest(cutOff: .now)) == #"{"cutOff":null,"force":false,"reason":"rotated"}"#)
        #expect(try text(RotationFinishRequest()) == #"{"force":false,"reason":"rotated"}"#)
        #expect(try text(RotationStartRequest(merchantIdentifier: "m")) == #"{"merchantIdentifier":"m"}"#)
        #expect(try text(KeyGenerationRequest(merchantIdentifier: "m")) == #"{"merchantIdentifier":"m","type":"EC"}"#)
        #expect(
            try text(CertificateImportRequest(certificate: "AA")) == #"{"allowExpired":false,"certificate":"AA"}"#)
        #expect(
            try text(
                KeyImportRequest(
                    certificate: "AA", sealedKeys: [.init(token: "t", encapsulatedKey: "B", sealedPrivateKey: "C")]))
                == #"{"allowExpired":false,"certificate":"AA","sealedKeys":[{"encapsulatedKey":"B","#
                + #""sealedPrivateKey":"C","token":"t"}]}"#)
        #expect(try text(ApprovalDecisionRequest(decision: "approve")) == #"{"decision":"approve"}"#)
        #expect(try text(LedgerAcceptanceRequest(reason: "r")) == #"{"reason":"r"}"#)
        #expect(try text(AcceptRestoreRequest(reason: "r")) == #"{"reason":"r"}"#)
        #expect(try text(EmptyRequest()) == "{}")
    }
}
