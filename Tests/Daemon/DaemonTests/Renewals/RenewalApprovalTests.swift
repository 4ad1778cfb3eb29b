import AuditChain
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import PortalRequests
import Refusals
import Testing

@testable import Daemon

/// The facts of a change at Apple that an approval names.
@Suite struct RenewalApprovalTests {
    private static let keys = [1, 2].map { PublicKeyHash.of(subjectPublicKeyInfo: [0x30, $0]) }

    private struct Approved {
        var operation = ApprovalOperation.certificateActivate
        var merchant = "merchant.com.example"
        var renewal = RenewalIdentifier(bytes: [1, 2, 3, 4, 5, 6, 7, 8])
        var newKey = keys[0]
        var kind = Renewal.Change.activate
        var number = 1
        var certificate = "C7"
        var key = keys[0]
        var previous: String?
        var isUsedAtOnce = false
        var repeated: String?
        var excludedNodes: Set<String> = ["host-b"]

        func parameters() throws -> [UInt8] {
            let certificate = try #require(CertificateId(certificate))
            let request: PortalRequest =
                kind == .activate ? .activateCertificate(certificate) : .revokeCertificate(certificate)
            let stored = StoredRenewal(
                identifier: try #require(renewal),
                renewal: Renewal(
                    merchantIdentifier: merchant, use: .processing, algorithm: .ec, newKey: newKey),
                requesterUID: 8, requesterName: "alice", startedAt: Date(timeIntervalSince1970: 1_800_000_000))
            return RenewalSteps.parameters(
                operation,
                RenewalSteps.Change(
                    kind: kind, number: number, request: request, key: key, previous: previous,
                    isUsedAtOnce: isUsedAtOnce, repeated: repeated), stored, newKey, excludedNodes
            ).bytes
        }
    }

    /// The sentence of an approval, with these nodes as the required ones, which have proved the key.
    private func reason(
        _ kind: Renewal.Change, provedBy nodes: [String], without excluded: Set<String> = [],
        merchant: String = "merchant.com.example"
    ) throws -> String {
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        var here = RenewalCircumstances(now: now)
        (here.requiredNodes, here.excludedNodes) = (excluded.union(nodes), excluded)
        here.proofs = nodes.map {
            .init(node: $0, hsmToken: "primary", isWithCertificate: kind == .activate, at: now, succeeded: true)
        }
        let certificate = try #require(CertificateId("C7"))
        let stored = StoredRenewal(
            identifier: try #require(RenewalIdentifier(bytes: [0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x56, 0x78])),
            renewal: Renewal(
                merchantIdentifier: merchant, use: .processing, algorithm: .ec, newKey: Self.keys[0],
                previousCertificateId: "C1"),
            requesterUID: 8, requesterName: "alice", startedAt: now)
        return try RenewalSteps.reason(
            RenewalSteps.Change(
                kind: kind, number: 2,
                request: kind == .activate ? .activateCertificate(certificate) : .revokeCertificate(certificate),
                key: Self.keys[1]), stored, here
        ).text
    }

    @Test("names the renewal and the nodes that proved the key to the second person, and counts them if there are many")
    func reasons() throws {
        #expect(
            try reason(.activate, provedBy: ["host-b", "host-a"], without: ["host-c"])
                == "activation of C7 instead of C1, attempt 2 of renewal 12345678, without host-c, "
                + "proved by host-a,host-b, for merchant.com.example")
        #expect(
            try reason(.activate, provedBy: (10..<40).map { "host-\($0)" })
                == "activation of C7 instead of C1, attempt 2 of renewal 12345678, proved by 30 nodes, "
                + "for merchant.com.example")
        // No proof is needed for a revocation.
        #expect(
            try reason(.revoke, provedBy: ["host-a"])
                == "revocation of C7 of key \(Self.keys[1].hex.prefix(8)), attempt 2 of renewal 12345678, "
                + "for merchant.com.example")
        #expect(throws: Refusal.self) {
            try reason(.activate, provedBy: ["a"], without: Set((0..<9).map { "host-with-a-long-name-\($0)" }))
        }
    }

    @Test(
        "are approved as they are: with any other, the approval is one of another change",
        arguments: [
            "operation", "merchant", "renewal", "new key", "request", "number", "certificate", "key", "previous",
            "used at once", "repeated", "fewer nodes", "more nodes",
        ])
    func facts(fact: String) throws {
        var other = Approved()
        switch fact {
        case "operation": other.operation = .certificateRevoke
        case "merchant": other.merchant = "merchant.com.other"
        case "renewal": other.renewal = RenewalIdentifier(bytes: [1, 2, 3, 4, 5, 6, 7, 9])
        case "new key": other.newKey = Self.keys[1]
        case "request": other.kind = .revoke
        case "number": other.number = 2
        case "certificate": other.certificate = "C8"
        case "key": other.key = Self.keys[1]
        case "previous": other.previous = "C1"
        case "used at once": other.isUsedAtOnce = true
        case "repeated": other.repeated = "activate:1"
        case "fewer nodes": other.excludedNodes = []
        default: other.excludedNodes = ["host-b", "host-c"]
        }
        #expect(try Approved().parameters() == Approved().parameters())
        #expect(try other.parameters() != Approved().parameters())
    }
}
