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
        let result = try await portal.renew(merchant, options)
        try #require(result.status == status, "\(result)")
        return (try? JSONValue(parsing: result.outputBytes))?.objectValue ?? JSONObject()
    }

    @Test("renews a certificate from the new key to the end of the old one, with one certificate", .everyEngine)
    func renewal() async throws {
        let merchant = try Portal.forged("thin", isDue: true)
        let portal = try await Portal.renewing(merchant)

        // Without a terminal the command asks nothing: --yes answers before the request, and never before the activation.
        _ = try await renew(merchant, portal, status: 75)
        #expect(portal.writes == [])
        _ = try await renew(merchant, portal, "--yes", status: 75)
        #expect(portal.writes == ["POST"])
        let listed = try #require(portal.simulator.merchants.first?.certificates)
        try #require(listed.map(\.isActivated) == [true, false])
        let new = try Merchant(certificate: listed[1].content)
        let kinds = try await portal.records(merchant).map { $0["event"]?.stringValue ?? "" }
        let proofs = kinds.indices.filter { kinds[$0] == "key_proof" }
        let created = try #require(
            try await portal.records(merchant).firstIndex { $0["step"]?.stringValue == "create" })
        #expect(proofs.count == 2 && proofs[0] < created && created < proofs[1], "\(kinds)")

        var state = try await portal.approve(merchant)
        #expect(state["previousCertificateId"]?.stringValue == "C1")
        state = try await renew(merchant, portal, status: 75)
        #expect(state["step"]?.stringValue == "watch" && state["certificateId"]?.stringValue == listed[1].id)
        #expect(portal.simulator.inUse(merchant.merchant.identifier).map(\.id) == [listed[1].id])
        // The end needs a payment with the new key on every node, and a person's statement.
        state = try await renew(merchant, portal, "--test-payment-made", status: 75)
        #expect(state["step"]?.stringValue == "watch")
        #expect(try await portal.harness.decrypt(SharedForge.paymentToken(for: new)).status == 200)
        state = try await renew(merchant, portal, status: 75)
        #expect(state["step"]?.stringValue == "make_test_payment")
        #expect(try await portal.keyState(merchant.hex) == "active")

        state = try await renew(merchant, portal, "--test-payment-made", status: 0)
        #expect(state["step"]?.stringValue == "done" && state["state"]?.stringValue == "finished")
        #expect(try await portal.keyState(merchant.hex) == "deactivated")
        // Late payment tokens for the old key are still opened.
        #expect(try await portal.harness.decrypt(SharedForge.paymentToken(for: merchant.merchant)).status == 200)
        #expect(portal.simulator.certificateCount(of: new.publicKeyHash) == 1)

        // A late repetition of the last command starts no other renewal.
        state = try await renew(merchant, portal, "--test-payment-made", status: 0)
        #expect(state["state"]?.stringValue == "finished")

        _ = try await renew(merchant, portal, "--revoke-old", status: 75)
        _ = try await portal.approve(merchant, #","revokeOld":true"#)
        _ = try await renew(merchant, portal, "--revoke-old", status: 0)
        #expect(portal.writes == ["POST", "PATCH", "DELETE"])
        #expect(portal.simulator.merchants.first?.certificates.map(\.id) == [listed[1].id])

        let steps = try await portal.renewalSteps(merchant)
        #expect(
            steps.map { $0["step"]?.stringValue } == [
                "start", "create", "answer", "activate", "answer", "finish", "revoke", "answer",
            ])
        #expect(steps.compactMap { $0["result"]?.stringValue } == ["accepted", "accepted", "accepted"])
        let verified = try await portal.harness.paytokenctl(["audit", "verify"])
        #expect(verified.status == 0, "\(verified)")
    }

    @Test("ends although a person has retired the old key by hand, and has made another key")
    func leftOverKey() async throws {
        let merchant = try Portal.forged("left")
        let portal = try await Portal.renewing(merchant)
        for step in ["create", "activate"] {
            try await portal.reach(step, of: merchant)
            try await portal.approve(merchant)
        }
        let state = try await portal.reach("watch", of: merchant)
        let new = try Merchant(certificate: portal.certificates[1].content)
        #expect(try await portal.harness.decrypt(SharedForge.paymentToken(for: new)).status == 200)
        for command in [
            ["key", "retire", merchant.hex, "--reason", "by hand"],
            ["rotate", "start", merchant.merchant.identifier, "--out", portal.files.path("next.csr")],
        ] {
            let result = try await portal.harness.paytokenctl(command)
            try #require(result.status == 0, "\(result)")
        }
        try await portal.reach("make_test_payment", of: merchant)
        let done = try await renew(merchant, portal, "--test-payment-made", status: 0)
        #expect(done["state"]?.stringValue == "finished")
        #expect(try await portal.keyState(try #require(state["publicKeyHash"]?.stringValue)) == "active")
    }

    @Test("makes the key active before the first certificate, which wallets use at once")
    func firstCertificate() async throws {
        let merchant = try Portal.forged("first")
        let portal = try await Portal([merchant])
        portal.simulator.set([Portal.listed(merchant, [])])
        let state = try await portal.reach("create", of: merchant)
        #expect(state["next"]?.stringValue?.contains("at once") == true)
        let key = try #require(state["publicKeyHash"]?.stringValue)
        #expect(try await portal.keyState(key) == "pre-activation")
        // No person is asked by --yes, so it does not make wallets use a certificate.
        let asked = try await portal.renew(merchant, ["--yes"])
        #expect(asked.status == 75 && asked.error.contains("Go on in a terminal") && portal.writes == [], "\(asked)")
        try await portal.approve(merchant)
        #expect(try await portal.keyState(key) == "active")
        let activated = try await portal.records(merchant).last { $0["event"]?.stringValue == "key_state_change" }
        #expect(activated?["from"]?.stringValue == "pre-activation" && activated?["to"]?.stringValue == "active")
        #expect(activated?["reason"]?.stringValue == "renewed")
        try await portal.reach("watch", of: merchant)
        #expect(portal.writes == ["POST"] && portal.certificates.map(\.isActivated) == [true])
        let new = try Merchant(certificate: portal.certificates[0].content)
        #expect(try await portal.harness.decrypt(SharedForge.paymentToken(for: new)).status == 200)
        try await portal.reach("make_test_payment", of: merchant)
        let done = try await portal.renew(merchant, ["--test-payment-made"])
        #expect(done.status == 0, "\(done)")
        // Wallets used no certificate before, so none is revoked.
        let revoked = try await portal.renew(merchant, ["--revoke-old"])
        #expect(revoked.status == 1 && portal.writes == ["POST"], "\(revoked)")
    }

    @Test("renews an RSA key, and an identity key, which nothing activates", arguments: [false, true])
    func otherKeys(isIdentity: Bool) async throws {
        let merchant = try Portal.forged(
            isIdentity ? "idnt" : "rsak", .rsa2048, kind: isIdentity ? .merchantIdentity : .paymentProcessing)
        let portal = try await Portal.renewing(
            merchant, type: isIdentity ? "APPLE_PAY_MERCHANT_IDENTITY" : "APPLE_PAY_RSA")
        let use = isIdentity ? #","use":"identity""# : ""
        // A certificate that ends in two years is not due.
        let early = try await portal.renew(merchant, ["--yes"] + (isIdentity ? ["--use", "identity"] : []))
        #expect(early.status == 0 && early.output.contains(#""renewFrom""#), "\(early)")
        #expect(try await portal.renewalSteps(merchant).isEmpty)
        try await portal.reach("create", of: merchant, use)
        try await portal.approve(merchant, use)
        try await portal.reach(isIdentity ? "make_test_payment" : "activate", of: merchant, use)
        #expect(portal.writes == ["POST"] && portal.certificates.count == 2)
        #expect(portal.certificates.map(\.type) == [portal.certificates[0].type, portal.certificates[0].type])
        if isIdentity {
            let done = try await portal.renew(merchant, ["--use", "identity", "--test-payment-made"])
            #expect(done.status == 0, "\(done)")
            #expect(try await portal.keyState(merchant.hex) == "deactivated")
        } else {
            try await portal.approve(merchant)
            try await portal.reach("watch", of: merchant)
            #expect(portal.writes == ["POST", "PATCH"])
            #expect(try await portal.keyState(merchant.hex) == "active")
        }
    }
}
