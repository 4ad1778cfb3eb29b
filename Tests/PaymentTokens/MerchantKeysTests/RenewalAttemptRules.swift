import Foundation
import KeyTypes
import PaymentToken
import TestSupport
import Testing
import TokenForge

@testable import MerchantKeys

// The rules for attempts, and for nodes that a person excludes.
extension RenewalRulesTests {
    @Test("lets one of two operators begin an attempt, and none while its outcome may still appear")
    func begin() throws {
        var renewal = renewal()
        try renewal.begin(.create, number: 1, previous: "OLD", at: Self.now)
        #expect(renewal.previousCertificateId == "OLD")
        #expect(throws: RenewalConflict.unanswered(.create, number: 1)) {
            try renewal.begin(.create, number: 1, at: Self.now)
        }
        // No other change either, since it is not known yet which certificate wallets use.
        #expect(throws: RenewalConflict.unanswered(.create, number: 1)) {
            try renewal.begin(.activate, number: 1, at: Self.now)
        }
        #expect(throws: RenewalConflict.inDoubt(until: Self.now.addingTimeInterval(Renewal.doubtTime))) {
            try renewal.abandon(at: Self.now)
        }
        try renewal.answer(.create, number: 1, .unknown, at: Self.now)
        #expect(throws: RenewalConflict.answered(.unknown)) {
            try renewal.answer(.create, number: 1, .unknown, at: Self.now)
        }
        #expect(throws: RenewalConflict.unknown) { try renewal.answer(.create, number: 2, .unknown, at: Self.now) }
        #expect(throws: RenewalConflict.otherNumber(2)) {
            try renewal.begin(.create, number: 1, at: Self.now.addingTimeInterval(3600))
        }
        #expect(throws: RenewalConflict.inDoubt(until: Self.now.addingTimeInterval(Renewal.doubtTime))) {
            try renewal.begin(.create, number: 2, at: Self.now.addingTimeInterval(Renewal.doubtTime - 1))
        }
        // The answer arrives although the attempt counted as unknown.
        try renewal.answer(.create, number: 1, .accepted, certificateId: "NEW", at: Self.now)
        #expect(renewal.certificateId == "NEW")
        #expect(throws: RenewalConflict.answered(.accepted)) {
            try renewal.answer(.create, number: 1, .refused, at: Self.now)
        }
        // The list may lack the certificate, so that a new renewal of the key would request a second one.
        #expect(throws: RenewalConflict.inDoubt(until: Self.now.addingTimeInterval(Renewal.doubtTime))) {
            try renewal.abandon(at: Self.now.addingTimeInterval(Renewal.doubtTime - 1))
        }
        #expect(throws: RenewalConflict.alreadyAccepted) {
            try renewal.begin(.create, number: 2, at: Self.now.addingTimeInterval(3600))
        }
        #expect(throws: RenewalConflict.notOpen(.open)) {
            try renewal.begin(.revoke, number: 1, at: Self.now.addingTimeInterval(3600))
        }
        let later = Self.now.addingTimeInterval(3600)
        for certificate in [nil, "OLD"] {
            #expect(throws: RenewalConflict.otherCertificate) {
                try renewal.begin(.activate, number: 1, certificate: certificate, at: later)
            }
        }
        try renewal.finish()
        for certificate in [nil, "NEW"] {
            #expect(throws: RenewalConflict.otherCertificate) {
                try renewal.begin(.revoke, number: 1, certificate: certificate, at: later)
            }
        }
        try renewal.begin(.revoke, number: 1, certificate: "OLD", at: later)
        #expect(throws: RenewalConflict.notOpen(.finished)) {
            try renewal.begin(.activate, number: 1, at: Self.now.addingTimeInterval(3600))
        }
    }

    @Test("requests no second certificate if another call has found one since")
    func foundMeanwhile() throws {
        var renewal = renewal([attempt(.create, .unknown, minutesAgo: 31)])
        renewal.found(certificateId: "NEW")
        #expect(throws: RenewalConflict.otherCertificate) { try renewal.begin(.create, number: 2, at: Self.now) }
        try renewal.begin(.activate, number: 1, certificate: "NEW", excludedNodes: ["c"], at: Self.now)
        #expect(renewal.attempts.last?.excludedNodes == ["c"])
    }

    @Test("stops if no node is left that must prove the key, and needs no exclusion of the call after the activation")
    func noNode() {
        for excluded in [["a", "b"], ["a", "b", "c"]] {
            var here = circumstances([oldInUse])
            here.excludedNodes = Set(excluded)
            #expect(renewal().next(here) == .stop(.noRequiredNode))
        }
        var here = circumstances([oldInUse])
        here.requiredNodes = []
        #expect(renewal().next(here) == .stop(.noRequiredNode))
        // A call after the activation excludes no node from the payments: the one that was approved counts.
        let approved = Renewal.Attempt(
            change: .activate, number: 1, intendedAt: Self.now.addingTimeInterval(-60), outcome: .accepted,
            excludedNodes: ["b"])
        here = circumstances([entry(certificates.new, "NEW", isActivated: true)], keyState: .active)
        here.hasCertificate = true
        here.isTestPaymentMade = true
        here.excludedNodes = ["a"]
        #expect(renewal([approved], certificateId: "NEW").next(here) == .watch(nodes: ["a"], isAlarming: false))
        here.nodesWithPayments = ["a"]
        #expect(renewal([approved], certificateId: "NEW").next(here) == .finish)
        // A certificate that wallets used at once, or that a person activated in the portal, was approved when it was created.
        let created = Renewal.Attempt(
            change: .create, number: 1, intendedAt: Self.now.addingTimeInterval(-60), outcome: .accepted,
            excludedNodes: ["b"])
        #expect(renewal([created], certificateId: "NEW").next(here) == .finish)
        let everywhere = attempt(.activate, .accepted, minutesAgo: 1)
        for attempts in [[], [everywhere], [approved, everywhere], [created, everywhere]] {
            here.excludedNodes = ["b"]
            let step = renewal(attempts, certificateId: "NEW").next(here)
            #expect(step == .watch(nodes: ["b"], isAlarming: false))
        }
        // The last change for an identity key is the creation.
        var identity = renewal(
            [.init(change: .create, number: 1, intendedAt: Self.now, outcome: .accepted)], certificateId: "NEW",
            use: .identity)
        here.proofs = [proof("a", withCertificate: true)]
        #expect(identity.next(here) == .prove(nodes: ["b"], withCertificate: false))
        identity = renewal(
            [.init(change: .create, number: 1, intendedAt: Self.now, outcome: .accepted, excludedNodes: ["b"])],
            certificateId: "NEW", use: .identity)
        here.excludedNodes = []
        #expect(identity.next(here) == .find(.create))
    }

    @Test("ends an identity key's renewal with a person's statement, while Apple lists its certificate")
    func identityEnd() throws {
        let new = try ForgedMerchant(
            authority: SharedForge.authority, type: .rsa2048,
            profile: MerchantCertificateProfile(
                merchantIdentifier: Self.merchant, kind: .merchantIdentity, now: Self.now))
        func renewal(createdMinutesAgo minutes: Double) -> Renewal {
            Renewal(
                merchantIdentifier: Self.merchant, use: .identity, algorithm: .rsa,
                newKey: .of(subjectPublicKeyInfo: new.key.subjectPublicKeyInfo), certificateId: "NEW",
                attempts: [attempt(.create, .accepted, minutesAgo: minutes)])
        }
        var here = circumstances(
            [entry(new, "NEW", isActivated: nil, type: "APPLE_PAY_MERCHANT_IDENTITY")], keyState: .active,
            withCertificate: true)
        #expect(renewal(createdMinutesAgo: 1).next(here) == .makeTestPayment)
        here.isTestPaymentMade = true
        #expect(renewal(createdMinutesAgo: 1).next(here) == .finish)
        here.readBeganAt = Self.now.addingTimeInterval(-Renewal.longestReadAge - 1)
        #expect(renewal(createdMinutesAgo: 1).next(here) == .read)
        // Without it in the list, the certificate is too new, or it was revoked in the portal.
        here = circumstances([], keyState: .active, withCertificate: true)
        here.isTestPaymentMade = true
        #expect(renewal(createdMinutesAgo: 1).next(here) == .find(.create))
        #expect(renewal(createdMinutesAgo: 31).next(here) == .stop(.notListed(id: "NEW")))
    }

    @Test("leaves out no node that is up, although a change was approved without it while it was down")
    func excludedAndUp() {
        var here = circumstances([oldInUse])
        here.proofs = [proof("a")]
        (here.excludedNodes, here.upNodes) = (["b"], ["a"])
        #expect(renewal().next(here) == .create(number: 1, previous: "OLD", isUsedAtOnce: false))
        here.upNodes = ["a", "b"]
        #expect(renewal().next(here) == .prove(nodes: ["b"], withCertificate: false))
        let approved = Renewal.Attempt(
            change: .activate, number: 1, intendedAt: Self.now.addingTimeInterval(-60), outcome: .accepted,
            excludedNodes: ["b"])
        here = circumstances([entry(certificates.new, "NEW", isActivated: true)], keyState: .active)
        (here.hasCertificate, here.nodesWithPayments, here.isTestPaymentMade) = (true, ["a"], true)
        here.upNodes = ["a"]
        #expect(renewal([approved], certificateId: "NEW").next(here) == .finish)
        here.upNodes = ["a", "b"]
        #expect(
            renewal([approved], certificateId: "NEW").next(here) == .watch(nodes: ["b"], isAlarming: false))
    }

    @Test("shows a plan that a person follows without the nodes of the call, to its end")
    func excludedFromPlan() {
        var here = circumstances([entry(certificates.new, "NEW", isActivated: true)], keyState: .active)
        (here.hasCertificate, here.isBegun, here.nodesWithPayments) = (true, false, ["a"])
        here.isTestPaymentMade = true
        #expect(renewal().next(here) == .watch(nodes: ["b"], isAlarming: false))
        here.excludedNodes = ["b"]
        #expect(renewal().next(here) == .finish)
    }

    @Test("asks a person about a restored ledger before each attempt to create a certificate, until the fence")
    func restored() {
        var here = circumstances([oldInUse])
        here.restoreFence = Self.now.addingTimeInterval(-60 * 5)
        for attempts in [[], [attempt(.create, .refused, minutesAgo: 9)], [attempt(.create, .notSent, minutesAgo: 9)]] {
            // The copy may lack another attempt after these.
            here.repeatedAttempt = attempts.first.map { ($0.change, $0.number) }
            #expect(renewal(attempts).next(here) == .decideCreation(isRestored: true))
            here.repeatedAttempt = (.create, 0)
            guard case .create(let number, "OLD", false) = renewal(attempts).next(here) else {
                Issue.record("no creation after the decision")
                continue
            }
            #expect(number == attempts.count + 1)
        }
        // An attempt after the fence is in the ledger.
        let later = renewal([attempt(.create, .refused, minutesAgo: 1)])
        #expect(later.next(here) == .decideRepeat(.create, number: 1, .refused))
        // One that may still have an effect is waited for.
        let accepted = renewal([attempt(.create, .accepted, minutesAgo: 9)])
        #expect(accepted.next(here) == .find(.create))
        here.restoreFence = Self.now.addingTimeInterval(60)
        #expect(later.next(here) == .create(number: 2, previous: "OLD", isUsedAtOnce: false))
        // The decision about one with an unknown outcome names it.
        let unknown = renewal([attempt(.create, .unknown, minutesAgo: 31)])
        #expect(unknown.next(here) == .decideRepeat(.create, number: 1, .unknown))
        here.repeatedAttempt = (.create, 1)
        #expect(unknown.next(here) == .create(number: 2, previous: "OLD", isUsedAtOnce: false))
    }

    @Test("counts an attempt of a clock that was far ahead from its answer, and waits no longer than for another")
    func clockAhead() throws {
        var here = circumstances([oldInUse])
        // Four minutes may be the difference of two clocks; an hour is not.
        #expect(
            renewal([attempt(.create, .intended, minutesAgo: -4)]).next(here) == .awaitAnswer(.create, number: 1))
        func ahead(_ outcome: Renewal.Attempt.Outcome, answeredMinutesAgo minutes: Double?) -> Renewal.Attempt {
            Renewal.Attempt(
                change: .create, number: 1, intendedAt: Self.now.addingTimeInterval(3600), outcome: outcome,
                answeredAt: minutes.map { Self.now.addingTimeInterval(-60 * $0) })
        }
        // Until an outcome is stored, no list is new enough.
        #expect(!ahead(.intended, answeredMinutesAgo: nil).mayBeAnswered(at: Self.now))
        #expect(renewal([ahead(.intended, answeredMinutesAgo: nil)]).next(here) == .read)
        for minutes in [nil, 29.0] {
            let doubtful = ahead(minutes == nil ? .intended : .unknown, answeredMinutesAgo: minutes)
            var begun = renewal([doubtful])
            let end = Self.now.addingTimeInterval(60 * (30 - (minutes ?? 0)))
            #expect(throws: RenewalConflict.inDoubt(until: end)) { try begun.begin(.create, number: 2, at: Self.now) }
            #expect(throws: RenewalConflict.inDoubt(until: end)) { try begun.abandon(at: Self.now) }
        }
        here.repeatedAttempt = (.create, 1)
        #expect(renewal([ahead(.unknown, answeredMinutesAgo: 29)]).next(here) == .find(.create))
        let decided = ahead(.unknown, answeredMinutesAgo: 31)
        #expect(renewal([decided]).next(here) == .create(number: 2, previous: "OLD", isUsedAtOnce: false))
        var begun = renewal([decided])
        try begun.begin(.create, number: 2, at: Self.now)
        here.repeatedAttempt = nil
        #expect(renewal([decided]).next(here) == .decideRepeat(.create, number: 1, .unknown))
        // The answer's clock was ahead too, so a person decides at once.
        #expect(
            renewal([ahead(.unknown, answeredMinutesAgo: -60)]).next(here)
                == .decideRepeat(.create, number: 1, .unknown))
        let listed = circumstances([oldInUse, newListed], keyState: .active, withCertificate: true)
        let created = renewal([ahead(.accepted, answeredMinutesAgo: 2)], certificateId: "NEW")
        #expect(created.next(listed) == .activate(id: "NEW", number: 1))
    }

    @Test("asks a person after three attempts of which nothing was sent")
    func notSent() {
        let here = circumstances([oldInUse])
        func unsent(_ count: Int) -> Renewal {
            renewal((1...count).map { attempt(.create, .notSent, minutesAgo: 9, number: $0) })
        }
        #expect(unsent(2).next(here) == .create(number: 3, previous: "OLD", isUsedAtOnce: false))
        #expect(unsent(3).next(here) == .decideRepeat(.create, number: 3, .notSent))
        var named = here
        named.repeatedAttempt = (.create, 3)
        #expect(unsent(3).next(named) == .create(number: 4, previous: "OLD", isUsedAtOnce: false))
    }

    @Test("asks a person, under the number 0, if an abandoned renewal of the key may have led to a certificate")
    func earlierRenewal() throws {
        var here = circumstances([oldInUse])
        here.hasEarlierCreation = true
        #expect(renewal().next(here) == .decideCreation(isRestored: false))
        // The number of an attempt of this renewal says nothing about the earlier one.
        here.repeatedAttempt = (.create, 1)
        #expect(renewal().next(here) == .decideCreation(isRestored: false))
        here.repeatedAttempt = (.create, 0)
        #expect(renewal().next(here) == .create(number: 1, previous: "OLD", isUsedAtOnce: false))
        // This decision is not one about the new attempt.
        let refused = renewal([attempt(.create, .refused, minutesAgo: 1)])
        #expect(refused.next(here) == .decideRepeat(.create, number: 1, .refused))
        // A certificate that the list shows is taken, and no other is requested.
        here.list = PortalList(appleId: "A1", entries: [oldInUse, newListed], readAt: Self.now)
        #expect(renewal().next(here) == .importCertificate(id: "NEW"))

        for outcome in Renewal.Attempt.Outcome.allCases {
            let isPossible = outcome != .refused && outcome != .notSent
            #expect(renewal([attempt(.create, outcome, minutesAgo: 60)]).hasPossibleCreation == isPossible)
            #expect(!renewal([attempt(.activate, outcome, minutesAgo: 60)]).hasPossibleCreation)
        }
    }
}
