import AuditChain
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import PortalRequests
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
