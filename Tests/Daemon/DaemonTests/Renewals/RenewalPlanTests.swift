import DaemonAPI
import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import TestSupport
import Testing
import TokenForge

@testable import Daemon

/// The plan of a renewal as the API returns it.
@Suite struct RenewalPlanTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)

    private func status(
        _ step: RenewalStep, use: KeyUse = .processing, _ change: (inout RenewalCircumstances) -> Void = { _ in }
    ) -> RenewalPlanStatus {
        let renewal = Renewal(
            merchantIdentifier: "m", use: use, algorithm: use == .identity ? .rsa : .ec,
            newKey: .of(subjectPublicKeyInfo: [0x30, 1]))
        var circumstances = RenewalCircumstances(now: Self.now)
        circumstances.requiredNodes = ["b", "a"]
        change(&circumstances)
        var plan = RenewalPlans.Plan(renewal: renewal, step: step, circumstances: circumstances)
        plan.nodes = [
            .init(name: "a", isRequired: true, lastSeen: Self.now), .init(name: "b", isRequired: true, isUp: true),
            .init(name: "portal", isRequired: false, isUp: true),
        ]
        return RenewalPlanStatus(plan)
    }

    private func names(_ status: RenewalPlanStatus, _ mark: String) -> [String] {
        status.steps.filter { $0.status == mark }.map(\.name)
    }

    @Test("lists the steps before the next one as done, and the others as open")
    func order() {
        let prove = status(.prove(nodes: ["b"], withCertificate: false))
        #expect(prove.step == "prove" && prove.next.contains(" on b before "))
        #expect(names(prove, "done") == ["generate", "distribute"] && names(prove, "next") == ["prove"])
        #expect(
            names(prove, "open") == ["create", "import", "prove_with_certificate", "activate", "watch", "finish"])
        // A test payment follows the first payment, and comes before the end.
        #expect(names(status(.makeTestPayment), "next") == ["finish"])
    }

    @Test("marks the change for which Apple's list must be read")
    func read() {
        #expect(names(status(.read), "next") == ["create"])
        let certified = status(.read) { $0.hasCertificate = true }
        #expect(certified.step == "read" && names(certified, "next") == ["activate"])
    }

    @Test("lists no activation of an identity certificate")
    func identity() {
        let steps = status(.finish, use: .identity).steps.map(\.name)
        #expect(steps == ["generate", "distribute", "prove", "create", "import", "prove_with_certificate", "finish"])
    }

    @Test("lists no steps, and says why, if something must be repaired first")
    func stopped() {
        for (obstacle, word) in [
            (RenewalObstacle.keyState(.suspended), "suspended"), (.merchantNotListed, "no such merchant identifier"),
            (.notListed(id: nil), "Read the list again"), (.notActivatable(id: "C7", .activationUnknown), "C7"),
            (.noRequiredNode, "No node is left"),
        ] {
            let stopped = status(.stop(obstacle))
            #expect(stopped.step == "stop" && stopped.steps.isEmpty && stopped.next.contains(word))
        }
    }

    @Test("says that wallets may use a new certificate at once, unless exactly one is in use")
    func certificates() {
        let safe = status(.create(number: 1, previous: "C1", isUsedAtOnce: false)).next
        #expect(safe.contains("certificate C1") && !safe.contains("at once"))
        for previous in [nil, "C1"] {
            #expect(status(.create(number: 1, previous: previous, isUsedAtOnce: true)).next.contains("at once"))
        }
    }

    @Test("says from which day on the certificate in use is renewed: 60 days before its end")
    func renewFrom() throws {
        let forged = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "m"))
        let entry = PortalList.Entry(
            identifier: "C1", type: "APPLE_PAY", isActivated: true, of: "m", content: forged.certificate)
        let shown = status(.read) {
            $0.list = PortalList(appleId: "A1", entries: [entry], readAt: Self.now)
        }.certificateInUse
        let end = try #require(entry.notAfter)
        #expect(
            shown == .init(certificateId: "C1", notAfter: end, renewFrom: end.addingTimeInterval(-60 * 24 * 60 * 60)))
        #expect(status(.read).certificateInUse == nil)
    }

    @Test("requires the nodes of the setting, and those that serve the merchant now; without the setting every node")
    func required() {
        func required(_ named: Set<String>, serving: Set<String> = [], portal: String? = "portal") -> Set<String> {
            RenewalPlans.required(
                named: named, known: ["host-a", "host-b", "gone", "portal", "portal-2"], serving: serving,
                portal: portal)
        }
        #expect(required([]) == ["host-a", "host-b", "gone", "portal-2"])
        #expect(required([], portal: nil) == ["host-a", "host-b", "gone", "portal", "portal-2"])
        // A host that was removed is left out, and one that has not started yet is not.
        #expect(required(["host-a", "new"]) == ["host-a", "new"])
        #expect(required(["host-a"], serving: ["host-b", "portal"]) == ["host-a", "host-b"])
        #expect(required(["host-a"], serving: ["portal"], portal: nil) == ["host-a", "portal"])
    }

    @Test("counts proofs from the start of a renewal on, unless a clock that was ahead gave its time")
    func firstProof() {
        func first(startedMinutesAgo minutes: Double?) -> TimeInterval {
            let stored = minutes.map { minutes in
                StoredRenewal(
                    identifier: .random(),
                    renewal: Renewal(merchantIdentifier: "m", use: .processing, algorithm: .ec, newKey: nil),
                    requesterUID: 0, requesterName: "root", startedAt: Self.now.addingTimeInterval(-60 * minutes))
            }
            return Self.now.timeIntervalSince(stored.firstProof(at: Self.now, longestAge: 3600))
        }
        #expect(first(startedMinutesAgo: nil) == 3600 && first(startedMinutesAgo: 61) == 3600)
        #expect(first(startedMinutesAgo: 59) == 59 * 60 && first(startedMinutesAgo: -4) == -4 * 60)
        #expect(first(startedMinutesAgo: -6) == 3600)
    }

    @Test("names the attempt that may be repeated")
    func repeatable() {
        #expect(status(.decideCreation(isRestored: true)).repeatable == .init(change: "create", number: 0))
        let refused = status(.decideRepeat(.activate, number: 2, .refused))
        #expect(refused.repeatable == .init(change: "activate", number: 2) && refused.step == "decide_repeat")
        #expect(status(.read).repeatable == nil)
    }

    @Test("says of each node if it has proved the key, and if with the certificate, and if it is up")
    func nodes() {
        let status = status(.read) { circumstances in
            circumstances.proofs = [("a", true, true), ("b", false, true)].map { node, withCertificate, succeeded in
                .init(
                    node: node, hsmToken: "primary", isWithCertificate: withCertificate, at: Self.now,
                    succeeded: succeeded)
            }
        }
        #expect(
            status.nodes == [
                .init(
                    node: "a", proved: true, provedWithCertificate: true, required: true, up: false, lastSeen: Self.now),
                .init(node: "b", proved: true, provedWithCertificate: false, required: true, up: true),
                .init(node: "portal", proved: false, provedWithCertificate: false, required: false, up: true),
            ])
    }
}
