import Foundation
import PortalSimulator
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// `rotate renew` end to end: paytokenctl, the daemon, the worker with SoftHSM, the outbound program, and a simulator of
/// Apple's API. A test of a person's answers uses the API, since the command asks in a terminal only.
@Suite struct RenewalTests {
    private func renew(
        _ merchant: ForgedMerchant, _ portal: Portal, _ options: String..., status: Int32
    ) async throws -> JSONObject {
        let result = try await portal.harness.paytokenctl(
            ["rotate", "renew", merchant.merchant.identifier, "--output", "json"] + options)
        try #require(result.status == status, "\(result)")
        return (try? JSONValue(parsing: result.outputBytes))?.objectValue ?? JSONObject()
    }

    /// Begins the next change at Apple, as a person does who has answered the command's question.
    private func approve(
        _ merchant: ForgedMerchant, _ portal: Portal, _ members: String = "", status: Int = 200
    ) async throws -> JSONObject {
        let body = #"{"merchantIdentifier":"\#(merchant.merchant.identifier)","approve":true\#(members)}"#
        let answer = try await portal.harness.admin("/v1/renewals", body: Array(body.utf8))
        try #require(answer.status == status, "\(answer)")
        return try #require(try JSONValue(parsing: answer.body).objectValue)
    }

    private func records(_ merchant: ForgedMerchant, _ portal: Portal) async throws -> [JSONObject] {
        let list = try await portal.harness.paytokenctl([
            "audit", "list", "--merchant", merchant.merchant.identifier, "--limit", "1000", "--output", "json",
        ])
        return try (JSONValue(parsing: list.outputBytes).arrayValue ?? []).compactMap(\.objectValue)
            .sorted { ($0["sequence"]?.numberValue?.int ?? 0) < ($1["sequence"]?.numberValue?.int ?? 0) }
    }

    @Test("renews a certificate from the new key to the end of the old one, with one certificate", .everyEngine)
    func renewal() async throws {
        let merchant = try Portal.forged("thin")
        let portal = try await Portal([merchant])
        portal.simulator.set([
            Portal.listed(merchant, [.init(id: "C1", content: merchant.certificate, isActivated: true)])
        ])

        // Without a terminal the command asks nothing: --yes answers before the request, and never before the activation.
        _ = try await renew(merchant, portal, status: 75)
        #expect(portal.simulator.requests.allSatisfy { $0.method == "GET" })
        _ = try await renew(merchant, portal, "--yes", status: 75)
        #expect(portal.simulator.requests.filter { $0.method != "GET" }.map(\.method) == ["POST"])
        let listed = try #require(portal.simulator.merchants.first?.certificates)
        try #require(listed.map(\.isActivated) == [true, false])
        let new = try Merchant(certificate: listed[1].content)
        let kinds = try await records(merchant, portal).map { $0["event"]?.stringValue ?? "" }
        let proofs = kinds.indices.filter { kinds[$0] == "key_proof" }
        let created = try #require(
            try await records(merchant, portal).firstIndex { $0["step"]?.stringValue == "create" })
        #expect(proofs.count == 2 && proofs[0] < created && created < proofs[1], "\(kinds)")

        var state = try await approve(merchant, portal)
        #expect(state["previousCertificateId"]?.stringValue == "C1")
        state = try await renew(merchant, portal, status: 75)
        #expect(state["step"]?.stringValue == "watch" && state["certificateId"]?.stringValue == listed[1].id)
        #expect(portal.simulator.inUse(merchant.merchant.identifier).map(\.id) == [listed[1].id])
        // The end needs a payment with the new key on every node, and a person's word.
        state = try await renew(merchant, portal, "--test-payment-made", status: 75)
        #expect(state["step"]?.stringValue == "watch")
        #expect(try await portal.harness.decrypt(SharedForge.paymentToken(for: new)).status == 200)
        state = try await renew(merchant, portal, status: 75)
        #expect(state["step"]?.stringValue == "make_test_payment")
        #expect(try await keyState(merchant.hex, portal) == "active")

        state = try await renew(merchant, portal, "--test-payment-made", status: 0)
        #expect(state["step"]?.stringValue == "done" && state["state"]?.stringValue == "finished")
        #expect(try await keyState(merchant.hex, portal) == "deactivated")
        // Late payment tokens for the old key are still opened.
        #expect(try await portal.harness.decrypt(SharedForge.paymentToken(for: merchant.merchant)).status == 200)
        #expect(portal.simulator.certificateCount(of: new.publicKeyHash) == 1)

        _ = try await renew(merchant, portal, "--revoke-old", status: 75)
        _ = try await approve(merchant, portal, #","revokeOld":true"#)
        _ = try await renew(merchant, portal, "--revoke-old", status: 0)
        #expect(portal.simulator.requests.filter { $0.method != "GET" }.map(\.method) == ["POST", "PATCH", "DELETE"])
        #expect(portal.simulator.merchants.first?.certificates.map(\.id) == [listed[1].id])

        let steps = try await records(merchant, portal).filter { $0["event"]?.stringValue == "renewal_step" }
        #expect(
            steps.map { $0["step"]?.stringValue } == [
                "start", "create", "answer", "activate", "answer", "finish", "revoke", "answer",
            ])
        #expect(steps.compactMap { $0["result"]?.stringValue } == ["accepted", "accepted", "accepted"])
        let verified = try await portal.harness.paytokenctl(["audit", "verify"])
        #expect(verified.status == 0, "\(verified)")
    }

    private func keyState(_ key: String, _ portal: Portal) async throws -> String? {
        let shown = try await portal.harness.paytokenctl(["key", "show", key, "--output", "json"])
        return try JSONValue(parsing: shown.outputBytes).objectValue?["state"]?.stringValue
    }
}
