import Foundation
import PortalSimulator
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// `rotate renew` with lost answers, killed programs, refusals by Apple, and two people.
@Suite struct RenewalFaultTests {
    /// Returns the result of each answer in the record, and the steps without one.
    private func results(_ merchant: ForgedMerchant, _ portal: Portal) async throws -> [String] {
        try await portal.renewalSteps(merchant).compactMap {
            $0["result"]?.stringValue ?? $0["step"]?.stringValue
        }
    }

    private func outcomes(_ state: JSONObject) -> [String] {
        (state["attempts"]?.arrayValue ?? []).compactMap { $0.objectValue?["outcome"]?.stringValue }
    }

    @Test(
        "goes on by Apple's list if the answer to a change was lost, and makes each change once",
        arguments: [PortalSimulator.Interruption.lostAfter, .cutShort, .answer(status: 500, text: "")])
    func lostAnswers(interruption: PortalSimulator.Interruption) async throws {
        let merchant = try Portal.forged("lost")
        let portal = try await Portal.renewing(merchant)
        let hasEffect = interruption == .lostAfter || interruption == .cutShort
        try await portal.reach("create", of: merchant)
        portal.simulator.change { $0.interruptions = [interruption] }
        try await portal.approve(merchant)
        guard hasEffect else {
            // A fault of the server leaves open if the request had an effect, too.
            let state = try await portal.reach("find", of: merchant)
            #expect(outcomes(state) == ["unknown"] && portal.writes == ["POST"])
            return
        }
        var state = try await portal.reach("activate", of: merchant)
        #expect(outcomes(state) == ["unknown"])
        #expect(state["certificateId"]?.stringValue == portal.certificates.last?.id)
        portal.simulator.change { $0.interruptions = [interruption] }
        try await portal.approve(merchant)
        state = try await portal.reach("watch", of: merchant)
        #expect(outcomes(state) == ["unknown", "unknown"])
        #expect(portal.writes == ["POST", "PATCH"] && portal.certificates.map(\.isActivated) == [false, true])
        let new = try Merchant(certificate: portal.certificates[1].content)
        #expect(portal.simulator.certificateCount(of: new.publicKeyHash) == 1)
        #expect(
            try await results(merchant, portal) == ["start", "create", "unknown", "find", "activate", "unknown"])
    }

    @Test("only reads for half an hour after a lost answer, and requests again only if a person names it", .everyEngine)
    func unknown() async throws {
        let merchant = try Portal.forged("doub")
        let portal = try await Portal.renewing(merchant)
        try await portal.reach("create", of: merchant)
        portal.simulator.change { $0.interruptions = [.lostBefore] }
        try await portal.approve(merchant)
        try await portal.reach("find", of: merchant)
        let repeating = #","repeatAttempt":{"change":"create","number":1}"#
        for members in ["", repeating] {
            #expect(try await portal.approve(merchant, members)["step"]?.stringValue != "create")
        }
        let abandoned = try await portal.renew(merchant, ["--abandon"])
        #expect(
            abandoned.status == 1 && abandoned.error.hasPrefix("invalid_state: Apple may have taken"), "\(abandoned)")
        #expect(portal.writes == ["POST"])

        try await portal.letAttemptsAge()
        try await portal.reach("decide_repeat", of: merchant)
        try await portal.approve(merchant)
        let asked = try await portal.renew(merchant, ["--yes"])
        #expect(asked.status == 75 && asked.error.contains("--repeat-attempt create:1"), "\(asked)")
        #expect(portal.writes == ["POST"])
        try await portal.reach("create", of: merchant, repeating)
        try await portal.approve(merchant, repeating)
        let state = try await portal.reach("activate", of: merchant)
        #expect(outcomes(state) == ["unknown", "accepted"] && portal.writes == ["POST", "POST"])
        #expect(portal.certificates.count == 2)
    }

    @Test("shows Apple's refusal with its code, and requests again only if a person says so")
    func refused() async throws {
        let merchant = try Portal.forged("limi")
        let portal = try await Portal.renewing(merchant)
        portal.simulator.change { $0.maximumCertificates = 1 }
        try await portal.reach("create", of: merchant)
        try await portal.approve(merchant)
        let state = try await portal.reach("decide_repeat", of: merchant)
        let attempt = try #require(state["attempts"]?.arrayValue?.first?.objectValue)
        #expect(attempt["outcome"]?.stringValue == "refused")
        #expect(attempt["code"]?.stringValue == "409 ENTITY_ERROR.ATTRIBUTE.INVALID")
        try await portal.approve(merchant)
        #expect(portal.writes == ["POST"])
        // Nothing can appear any more, so the renewal may be abandoned at once.
        let abandoned = try await portal.renew(merchant, ["--abandon"])
        #expect(abandoned.status == 0, "\(abandoned)")
        #expect(try await results(merchant, portal) == ["start", "create", "refused", "abandon"])
    }

    @Test("does not make a change that was begun before the daemon was killed, not even for another renewal")
    func killed() async throws {
        let merchant = try Portal.forged("kill", isDue: true)
        let portal = try await Portal.renewing(merchant)
        try await portal.reach("create", of: merchant)
        portal.outbound.signal(SIGKILL)
        _ = try await portal.outbound.result()
        let begun = try await portal.approve(merchant)
        #expect(begun["step"]?.stringValue == "await_answer" && outcomes(begun) == ["intended"])
        try portal.harness.daemon.signal(SIGKILL)
        _ = try await portal.harness.daemon.result()
        try await portal.harness.start()
        let outbound = try portal.startOutbound()
        defer { withExtendedLifetime(outbound) {} }
        #expect(try await portal.approve(merchant)["step"]?.stringValue == "await_answer")
        try await portal.letAttemptsAge()
        try await portal.reach("decide_repeat", of: merchant)
        #expect(portal.writes == [])
        // The process that would have stored the answer has ended, so the record says that it is unknown.
        #expect(try await results(merchant, portal) == ["start", "create", "unknown"])

        let abandoned = try await portal.renew(merchant, ["--abandon"])
        #expect(abandoned.status == 0, "\(abandoned)")
        let asked = try await portal.renew(merchant, ["--yes"])
        #expect(asked.status == 75 && asked.error.contains("--repeat-attempt create:0"), "\(asked)")
        #expect(portal.writes == [])
        let repeating = #","repeatAttempt":{"change":"create","number":0}"#
        try await portal.reach("create", of: merchant, repeating)
        try await portal.approve(merchant, repeating)
        try await portal.reach("activate", of: merchant)
        #expect(portal.writes == ["POST"] && portal.certificates.count == 2)
    }

    @Test("asks a person before it requests a certificate after a restore, which may have lost an attempt")
    func restored() async throws {
        let merchant = try Portal.forged("back")
        let portal = try await Portal.renewing(merchant)
        let shown = try await portal.reach("create", of: merchant)
        let harness = portal.harness
        let copy = harness.directory.path("backup.sqlite")
        #expect(try await harness.paytokenctl(["ledger", "backup", copy]).status == 0)
        portal.outbound.signal(SIGKILL)
        _ = try await portal.outbound.result()
        #expect(outcomes(try await portal.approve(merchant)) == ["intended"])
        #expect(try await harness.stop().status == 0)

        let restored = try await harness.paytokenctl([
            "ledger", "restore", copy, "--to", "sqlite:" + harness.directory.path("ledger.sqlite"),
        ])
        try #require(restored.status == 0, "\(restored)")
        try await harness.start(["--await-restore"], untilReady: false)
        try await wait(for: "the finding") {
            try await Curl.request("/readyz", socket: harness.socket).body.holds(Array("accept-restore".utf8))
        }
        let held = try await portal.post(merchant)
        #expect(held.status == 503 && held.code == "ledger_unavailable", "\(held)")
        let accepted = try await harness.paytokenctl(["ledger", "accept-restore", "--reason", "disk lost"])
        try #require(accepted.status == 0, "\(accepted)")
        let outbound = try portal.startOutbound()
        defer { withExtendedLifetime(outbound) {} }

        let state = try await portal.reach("decide_repeat", of: merchant)
        #expect(state["renewal"] == shown["renewal"] && outcomes(state) == [])
        #expect(state["next"]?.stringValue?.contains("ledger was restored") == true)
        #expect(state["repeatable"]?.objectValue?["number"]?.numberValue?.int == 0)
        try await portal.approve(merchant)
        #expect(portal.writes == [])
        let repeating = #","repeatAttempt":{"change":"create","number":0}"#
        try await portal.reach("create", of: merchant, repeating)
        try await portal.approve(merchant, repeating)
        try await portal.reach("activate", of: merchant)
        #expect(portal.writes == ["POST"])
    }

    @Test("begins only the change that was shown, and none of another renewal")
    func shownChange() async throws {
        let merchant = try Portal.forged("show")
        let portal = try await Portal.renewing(merchant)
        let shown = try await portal.reach("create", of: merchant)
        let change = String(decoding: try #require(shown["nextChange"]).compact, as: UTF8.self)
        let renewal = try #require(shown["renewal"]?.stringValue)
        func isRefused(_ change: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
            let answer = try await portal.post(merchant, #","approve":"# + change)
            #expect(answer.status == 409 && answer.code == "invalid_state", "\(answer)", sourceLocation: sourceLocation)
        }
        for (part, other) in [
            (#""number":1"#, #""number":2"#), (#""usedAtOnce":false"#, #""usedAtOnce":true"#),
            (renewal, "0102030405060708"), (#""create""#, #""activate""#),
        ] {
            let changed = change.replacing(part, with: other)
            try #require(changed != change)
            try await isRefused(changed)
        }
        #expect(portal.writes == [])
        try await portal.approve(merchant)
        try await portal.reach("activate", of: merchant)
        // A person who was asked about the first change has not been asked about this one.
        try await isRefused(change)
        #expect(portal.writes == ["POST"])
    }

    @Test("revokes no certificate whose key the ledger does not have")
    func foreignCertificate() async throws {
        let (merchant, other) = (try Portal.forged("fore"), try Portal.forged("fore"))
        let portal = try await Portal([merchant])
        portal.simulator.set([
            Portal.listed(merchant, [.init(id: "C1", content: other.certificate, isActivated: true)])
        ])
        for step in ["create", "activate"] {
            try await portal.reach(step, of: merchant)
            try await portal.approve(merchant)
        }
        try await portal.reach("watch", of: merchant)
        let new = try Merchant(certificate: portal.certificates[1].content)
        #expect(try await portal.harness.decrypt(SharedForge.paymentToken(for: new)).status == 200)
        try await portal.reach("make_test_payment", of: merchant)
        let done = try await portal.renew(merchant, ["--test-payment-made"])
        #expect(done.status == 0, "\(done)")
        // A renewal that has begun since is another one.
        let started = try await portal.harness.paytokenctl([
            "rotate", "start", merchant.merchant.identifier, "--out", portal.files.path("next.csr"),
        ])
        try #require(started.status == 0, "\(started)")
        #expect(try await portal.post(merchant).status == 201)
        let shown = try await portal.reach("revoke", of: merchant, #","revokeOld":true"#)
        #expect(shown["state"]?.stringValue == "finished")
        let change = String(decoding: try #require(shown["nextChange"]).compact, as: UTF8.self)
        let answer = try await portal.post(merchant, #","revokeOld":true,"approve":"# + change)
        #expect(answer.status == 409 && answer.text.contains("another party"), "\(answer)")
        #expect(portal.writes == ["POST", "PATCH"])
    }

    @Test("goes on after the daemon was killed between Apple's answer and the activation")
    func killedAfterAnswer() async throws {
        let merchant = try Portal.forged("rest")
        let portal = try await Portal.renewing(merchant)
        try await portal.reach("create", of: merchant)
        try await portal.approve(merchant)
        try await portal.reach("activate", of: merchant)
        try portal.harness.daemon.signal(SIGKILL)
        _ = try await portal.harness.daemon.result()
        try await portal.harness.start()
        try await portal.reach("activate", of: merchant)
        try await portal.approve(merchant)
        try await portal.reach("watch", of: merchant)
        #expect(portal.writes == ["POST", "PATCH"])
    }

    /// Has alice ask for the approval of the next change, and returns its identifier.
    private func asked(
        _ merchant: ForgedMerchant, _ portal: Portal, _ options: [String] = ["--yes"]
    ) async throws -> String {
        let asked = try await portal.renew(merchant, options, as: .alice)
        try #require(asked.status == 75 && asked.error.contains("a second person must permit this"), "\(asked)")
        let words = asked.error.split(whereSeparator: \.isWhitespace).map(String.init)
        let approval = try #require(words.firstIndex(of: "approve").map { words[$0 + 1] })
        #expect(words.suffix(2) == ["--approval", approval], "\(asked)")
        return approval
    }

    private static func twoPeople(_ merchant: ForgedMerchant) async throws -> Portal {
        // The outbound program runs as root here.
        let portal = try await Portal.renewing(
            merchant,
            configuration: Staff.configuration([
                "{ name: everything, user: \"\(geteuid())\", roles: [decrypt, admin, audit, portal-read] }"
            ]))
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o711], ofItemAtPath: portal.harness.directory.path)
        return portal
    }

    @Test(
        "uses no approval of one renewal for another, and takes one request for each change",
        .enabled(Staff.needsRoot) { try await Staff.canAct() })
    func approvalOfAnother() async throws {
        let merchant = try Portal.forged("anot", isDue: true)
        let portal = try await Self.twoPeople(merchant)
        let first = try await asked(merchant, portal)
        // Alice asks again, and so does bob.
        #expect(try await asked(merchant, portal) == first)
        let second = try await portal.renew(merchant, ["--yes"], as: .bob)
        #expect(second.status == 1 && second.error.contains("Another person has requested approval"), "\(second)")
        let approved = try await portal.harness.paytokenctl(["approval", "approve", first], as: Staff.bob.identity)
        #expect(approved.status == 0, "\(approved)")
        let abandoned = try await portal.renew(merchant, ["--abandon"])
        #expect(abandoned.status == 0, "\(abandoned)")
        // An approval starts no renewal.
        let none = try await portal.renew(merchant, ["--yes", "--approval", first], as: .alice)
        #expect(none.status == 1 && none.error.contains("No renewal of this merchant is open"), "\(none)")
        #expect(try await asked(merchant, portal) != first)
        let used = try await portal.renew(merchant, ["--yes", "--approval", first], as: .alice)
        #expect(used.status == 1 && used.error.contains("The approval was given for another operation"), "\(used)")
        #expect(portal.writes == [])
    }

    @Test(
        "changes something at Apple only with two people, who agree on that change",
        .everyEngine, .enabled(Staff.needsRoot) { try await Staff.canAct() })
    func twoPeople() async throws {
        let merchant = try Portal.forged("twop", isDue: true)
        let portal = try await Self.twoPeople(merchant)
        let approval = try await asked(merchant, portal)
        let using = ["--yes", "--approval", approval]
        func isRefused(_ who: Staff, saying sentence: String) async throws {
            let used = try await portal.renew(merchant, using, as: who)
            #expect(used.status == 1 && used.error.contains("approval_invalid: \(sentence)"), "\(used)")
        }
        try await isRefused(.alice, saying: "The operation is not approved yet")
        let alone = try await portal.harness.paytokenctl(["approval", "approve", approval], as: Staff.alice.identity)
        #expect(alone.status == 1 && alone.error.contains("a second person must"), "\(alone)")
        let listed = try await portal.harness.paytokenctl(["approval", "list"])
        let state = try await portal.state(merchant, "")
        let renewal = try #require(state["renewal"]?.stringValue)
        let node = try #require(state["nodes"]?.arrayValue?.first?.objectValue?["node"]?.stringValue)
        #expect(
            listed.output.contains(
                "new certificate, attempt 1 of renewal \(renewal.prefix(8)), proved by \(node), for "
                    + merchant.merchant.identifier), "\(listed)")
        let approved = try await portal.harness.paytokenctl(["approval", "approve", approval], as: Staff.bob.identity)
        #expect(approved.status == 0, "\(approved)")
        try await isRefused(.bob, saying: "Only the person who asked")
        #expect(portal.writes == [])

        // The command goes on to the activation, where it asks in a terminal only.
        let created = try await portal.renew(merchant, using, as: .alice)
        #expect(created.status == 75 && created.error.contains("Go on in a terminal"), "\(created)")
        #expect(portal.writes == ["POST"])
        // The approval of the first change is not one of the next.
        try await isRefused(.alice, saying: "The approval is done")
        let shown = try await portal.reach("activate", of: merchant)
        let change = String(decoding: try #require(shown["nextChange"]).compact, as: UTF8.self)
        let activation = try await portal.post(merchant, #","approve":\#(change),"approval":"\#(approval)""#)
        #expect(activation.code == "approval_invalid", "root acts alone, so no approval answers for it: \(activation)")
        #expect(portal.writes == ["POST"])
        let steps = try await portal.renewalSteps(merchant).filter { $0["step"]?.stringValue == "create" }
        #expect(steps.last?["approval"]?.stringValue == approval && steps.last?["outcome"]?.stringValue == "ok")
    }

    @Test(
        "activates and revokes a certificate with an approval of that change, and not with the one before",
        .everyEngine, .enabled(Staff.needsRoot) { try await Staff.canAct() })
    func approvedActivation() async throws {
        let merchant = try Portal.forged("appr")
        let portal = try await Self.twoPeople(merchant)
        /// Has alice, who acts with a second person only, begin the next change without the command's question.
        func begin(_ members: String = "", approval: String?) async throws -> CurlAnswer {
            let shown = try await portal.state(merchant, members)
            let change = String(decoding: try #require(shown["nextChange"]).compact, as: UTF8.self)
            return try await portal.post(
                merchant, members + #","approve":\#(change)"# + (approval.map { #","approval":"\#($0)""# } ?? ""),
                as: .alice)
        }
        /// Has alice ask and bob approve.
        func approved(_ text: String, _ members: String = "") async throws -> String {
            let pending = try await begin(members, approval: nil)
            try #require(pending.status == 202, "\(pending)")
            let approval = try #require(try JSONValue(parsing: pending.body).objectValue?["approval"]?.stringValue)
            let listed = try await portal.harness.paytokenctl(["approval", "list"])
            #expect(listed.output.contains(text), "\(listed)")
            let bob = try await portal.harness.paytokenctl(["approval", "approve", approval], as: Staff.bob.identity)
            try #require(bob.status == 0, "\(bob)")
            return approval
        }
        try await portal.reach("create", of: merchant)
        #expect(try await begin(approval: try await approved("new certificate")).status == 200)
        try await portal.reach("activate", of: merchant)
        let id = portal.certificates[1].id
        let activation = try await approved("activation of \(id) instead of C1, attempt 1")
        #expect(portal.writes == ["POST"])
        let done = try await begin(approval: activation)
        #expect(done.status == 200, "\(done)")
        try await portal.reach("watch", of: merchant)
        #expect(portal.writes == ["POST", "PATCH"] && portal.certificates.map(\.isActivated) == [false, true])
        // The same approval activates nothing again, and revokes nothing.
        let new = try Merchant(certificate: portal.certificates[1].content)
        #expect(try await portal.harness.decrypt(SharedForge.paymentToken(for: new)).status == 200)
        try await portal.reach("done", of: merchant, #","testPaymentMade":true"#)
        try await portal.reach("revoke", of: merchant, #","revokeOld":true"#)
        let again = try await begin(#","revokeOld":true"#, approval: activation)
        #expect(again.code == "approval_invalid", "\(again)")
        let revocation = try await approved("revocation of C1", #","revokeOld":true"#)
        let revoked = try await begin(#","revokeOld":true"#, approval: revocation)
        #expect(revoked.status == 200, "\(revoked)")
        try await portal.reach("done", of: merchant, #","revokeOld":true"#)
        #expect(portal.writes == ["POST", "PATCH", "DELETE"])
        let approvals = try await portal.renewalSteps(merchant).compactMap { $0["approval"]?.stringValue }
        #expect(Set(approvals).isSuperset(of: [activation, revocation]))
    }
}
