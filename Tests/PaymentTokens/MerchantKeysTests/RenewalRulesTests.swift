import Foundation
import KeyTypes
import PaymentToken
import TestSupport
import Testing
import TokenForge

@testable import MerchantKeys

/// The order of a renewal's steps, and what must be so before each change at Apple.
@Suite("Renewal's rules") struct RenewalRulesTests {
    static let merchant = "merchant.com.example"
    static let now = Date(timeIntervalSince1970: 1_800_000_000)
    static let day: TimeInterval = 86_400

    /// Certificates whose keys differ: the new one, and one in use that ends in so many days.
    struct Certificates: Sendable {
        let new: ForgedMerchant
        let old: ForgedMerchant
        let endsInSixDays: ForgedMerchant

        init() throws {
            func forged(daysLeft: Double) throws -> ForgedMerchant {
                var profile = MerchantCertificateProfile(merchantIdentifier: merchant, now: now)
                profile.notAfter = now.addingTimeInterval(daysLeft * day)
                return try ForgedMerchant(authority: SharedForge.authority, type: .p256, profile: profile)
            }
            (new, old, endsInSixDays) = (try forged(daysLeft: 700), try forged(daysLeft: 8), try forged(daysLeft: 6))
        }
    }

    private static let made = Result { try Certificates() }
    let certificates: Certificates
    let newKey: PublicKeyHash

    init() throws {
        certificates = try Self.made.get()
        newKey = .of(subjectPublicKeyInfo: certificates.new.key.subjectPublicKeyInfo)
    }

    func entry(_ forged: ForgedMerchant, _ id: String, isActivated: Bool?, type: String = "APPLE_PAY")
        -> PortalList.Entry
    {
        PortalList.Entry(
            identifier: id, type: type, isActivated: isActivated, of: Self.merchant, content: forged.certificate)
    }

    func renewal(
        _ attempts: [Renewal.Attempt] = [], certificateId: String? = nil, previous: String? = nil,
        state: Renewal.State = .open, use: KeyUse = .processing
    ) -> Renewal {
        Renewal(
            merchantIdentifier: Self.merchant, use: use, algorithm: use == .identity ? .rsa : .ec, newKey: newKey,
            state: state, certificateId: certificateId, previousCertificateId: previous, attempts: attempts)
    }

    func attempt(
        _ change: Renewal.Change, _ outcome: Renewal.Attempt.Outcome, minutesAgo: Double, number: Int = 1
    ) -> Renewal.Attempt {
        Renewal.Attempt(
            change: change, number: number, intendedAt: Self.now.addingTimeInterval(-60 * minutesAgo), outcome: outcome)
    }

    func proof(
        _ node: String, withCertificate: Bool = false, succeeded: Bool = true, hsmToken: String = "primary",
        minutesAgo: Double = 5
    ) -> RenewalCircumstances.Proof {
        RenewalCircumstances.Proof(
            node: node, hsmToken: hsmToken, isWithCertificate: withCertificate,
            at: Self.now.addingTimeInterval(-60 * minutesAgo), succeeded: succeeded)
    }

    /// Circumstances in which nodes a and b have proved the key, and Apple's list was read just now.
    func circumstances(
        _ entries: [PortalList.Entry], keyState: KeyState? = .preActivation, withCertificate: Bool = false
    ) -> RenewalCircumstances {
        var circumstances = RenewalCircumstances(now: Self.now)
        circumstances.keyState = keyState
        circumstances.requiredNodes = ["a", "b"]
        circumstances.proofs = ["a", "b"].map { proof($0, withCertificate: withCertificate) }
        circumstances.hasCertificate = withCertificate
        circumstances.list = PortalList(appleId: "A1", entries: entries, readAt: Self.now)
        circumstances.readBeganAt = Self.now.addingTimeInterval(-10)
        return circumstances
    }

    var oldInUse: PortalList.Entry { entry(certificates.old, "OLD", isActivated: true) }
    var newListed: PortalList.Entry { entry(certificates.new, "NEW", isActivated: false) }

    @Test("takes the steps in order while wallets use the old certificate")
    func order() {
        var here = circumstances([oldInUse])
        let keyless = Renewal(merchantIdentifier: Self.merchant, use: .processing, algorithm: .ec, newKey: nil)
        #expect(keyless.next(here) == .generateKey)
        here.hsmTokensWithoutKey = ["spare"]
        #expect(renewal().next(here) == .distribute(hsmTokens: ["spare"]))
        here.hsmTokensWithoutKey = []
        here.proofs = [proof("a")]
        #expect(renewal().next(here) == .prove(nodes: ["b"], withCertificate: false))
        here.proofs.append(proof("b"))
        #expect(renewal().next(here) == .create(number: 1, previous: "OLD", isUsedAtOnce: false))

        here = circumstances([oldInUse, newListed])
        #expect(renewal().next(here) == .importCertificate(id: "NEW"))
        (here.hasCertificate, here.keyState) = (true, .active)
        #expect(renewal().next(here) == .prove(nodes: ["a", "b"], withCertificate: true))
        here.proofs = [proof("a", withCertificate: true), proof("b", withCertificate: true)]
        #expect(renewal().next(here) == .activate(id: "NEW", number: 1))

        let activated = renewal([attempt(.activate, .accepted, minutesAgo: 9)], certificateId: "NEW", previous: "OLD")
        here.nodesWithPayments = ["a"]
        #expect(activated.next(here) == .watch(nodes: ["b"], isAlarming: false))
        here.nodesWithPayments = ["a", "b"]
        #expect(activated.next(here) == .makeTestPayment)
        here.isTestPaymentMade = true
        // The end also needs a recent list that shows the certificate in use.
        #expect(activated.next(here) == .find(.activate))
        let inUse = entry(certificates.new, "NEW", isActivated: true)
        here.list = PortalList(appleId: "A1", entries: [oldInUse, inUse], readAt: Self.now)
        #expect(activated.next(here) == .finish)
        here.readBeganAt = Self.now.addingTimeInterval(-Renewal.longestReadAge - 1)
        #expect(activated.next(here) == .read)
    }

    @Test("takes the identity certificate that ends last, since Apple accepts each that it lists")
    func identityInUse() {
        let type = "APPLE_PAY_MERCHANT_IDENTITY"
        let entries = [
            entry(certificates.old, "LAST", isActivated: false, type: type),
            entry(certificates.endsInSixDays, "FIRST", isActivated: nil, type: type), oldInUse,
        ]
        let list = PortalList(appleId: "A1", entries: entries, readAt: Self.now)
        #expect(renewal(use: .identity).certificateInUse(in: list)?.identifier == "LAST")
        #expect(renewal(use: .identity).certificateInUse(in: nil) == nil)
    }

    @Test("says that a certificate may be used at once, unless exactly one with a week left is in use")
    func oneInUse() {
        let waiting = entry(certificates.endsInSixDays, "UNUSED", isActivated: false)
        let doubtful = entry(certificates.endsInSixDays, "DOUBTFUL", isActivated: nil)
        let ending = entry(certificates.endsInSixDays, "ENDING", isActivated: true)
        let ofOtherType = entry(certificates.old, "OLD", isActivated: true, type: "APPLE_PAY_RSA")
        let cases: [(entries: [PortalList.Entry], previous: String?, isUsedAtOnce: Bool)] = [
            ([oldInUse], "OLD", false), ([oldInUse, waiting], "OLD", false),
            ([], nil, true), ([waiting], nil, true), ([ending], "ENDING", true), ([oldInUse, ending], nil, true),
            ([oldInUse, doubtful], nil, true), ([doubtful], nil, true), ([ofOtherType], nil, true),
        ]
        for (entries, previous, isUsedAtOnce) in cases {
            let list = PortalList(appleId: "A1", entries: entries, readAt: Self.now)
            #expect(renewal().certificateInUse(in: list)?.identifier == previous)
            // Also after two people have made the key active: the approving person must know that wallets may follow.
            for state in [KeyState.preActivation, .active] {
                #expect(
                    renewal().next(circumstances(entries, keyState: state))
                        == .create(number: 1, previous: previous, isUsedAtOnce: isUsedAtOnce))
            }
        }
    }

    @Test("decides a change only on a list whose read is recent, and began after the last attempt")
    func freshList() {
        var here = circumstances([oldInUse])
        here.list = nil
        #expect(renewal().next(here) == .read)
        here = circumstances([oldInUse])
        here.readBeganAt = Self.now.addingTimeInterval(-Renewal.longestReadAge - 1)
        #expect(renewal().next(here) == .read)
        here.readBeganAt = Self.now.addingTimeInterval(-100)
        let notSent = renewal([attempt(.create, .notSent, minutesAgo: 1)])
        #expect(notSent.next(here) == .read)
        here.readBeganAt = Self.now.addingTimeInterval(-50)
        #expect(notSent.next(here) == .create(number: 2, previous: "OLD", isUsedAtOnce: false))

        here = circumstances([oldInUse, newListed], keyState: .active, withCertificate: true)
        here.readBeganAt = Self.now.addingTimeInterval(-Renewal.longestReadAge - 1)
        #expect(renewal(certificateId: "NEW").next(here) == .read)
    }

    @Test("only reads for half an hour after an unknown answer, then waits for a person who names the attempt")
    func unknownAnswer() {
        let intended = renewal([attempt(.create, .intended, minutesAgo: 2)])
        #expect(intended.next(circumstances([oldInUse])) == .awaitAnswer(.create, number: 1))
        for outcome in [Renewal.Attempt.Outcome.intended, .unknown] {
            var here = circumstances([oldInUse])
            here.repeatedAttempt = (.create, 1)
            #expect(renewal([attempt(.create, outcome, minutesAgo: 29)]).next(here) == .find(.create))
            let old = renewal([attempt(.create, outcome, minutesAgo: 31)])
            #expect(old.next(here) == .create(number: 2, previous: "OLD", isUsedAtOnce: false))
            for named in [nil, (.create, 2), (.activate, 1)] as [(Renewal.Change, Int)?] {
                here.repeatedAttempt = named
                #expect(old.next(here) == .decideRepeat(.create, number: 1, .unknown))
            }
            // The certificate has appeared, so no second one is requested.
            here = circumstances([oldInUse, newListed])
            here.repeatedAttempt = (.create, 1)
            #expect(old.next(here) == .importCertificate(id: "NEW"))
        }
        let twice = renewal([
            attempt(.create, .unknown, minutesAgo: 90), attempt(.create, .unknown, minutesAgo: 31, number: 2),
        ])
        var here = circumstances([oldInUse])
        here.repeatedAttempt = (.create, 1)
        #expect(twice.next(here) == .decideRepeat(.create, number: 2, .unknown))
    }

    @Test("repeats a refused attempt at once if a person names it")
    func refused() {
        var here = circumstances([oldInUse])
        let refused = renewal([attempt(.create, .refused, minutesAgo: 1)])
        #expect(refused.next(here) == .decideRepeat(.create, number: 1, .refused))
        here.repeatedAttempt = (.create, 1)
        #expect(refused.next(here) == .create(number: 2, previous: "OLD", isUsedAtOnce: false))
    }

    @Test("counts a node as proved if the newest proof of each of its HSM tokens succeeded within a day")
    func proofs() {
        let cases: [(proofs: [RenewalCircumstances.Proof], isProved: Bool)] = [
            ([], false), ([proof("a")], true), ([proof("b")], false),
            ([proof("a", succeeded: false)], false),
            ([proof("a", succeeded: false, minutesAgo: 9), proof("a", minutesAgo: 5)], true),
            ([proof("a", succeeded: false, minutesAgo: 5), proof("a", minutesAgo: 9)], false),
            ([proof("a"), proof("a", succeeded: false, hsmToken: "spare")], false),
            ([proof("a"), proof("a", succeeded: false, hsmToken: "spare", minutesAgo: 9)], false),
            // An HSM token without a result of the node's last proof was removed.
            ([proof("a"), proof("a", succeeded: false, hsmToken: "spare", minutesAgo: 11)], true),
            ([proof("a", minutesAgo: 24 * 60 + 1)], false),
            // The clock of another node is ahead, so its proof would outweigh later failures.
            ([proof("a", minutesAgo: -6)], false), ([proof("a", minutesAgo: -4)], true),
        ]
        for (proofs, isProved) in cases {
            var here = circumstances([oldInUse])
            (here.proofs, here.requiredNodes) = (proofs, ["a"])
            #expect((renewal().next(here) == .prove(nodes: ["a"], withCertificate: false)) == !isProved)
        }
    }

    @Test("goes on without a node that a person excludes by name")
    func excludedNode() {
        var here = circumstances([oldInUse])
        here.proofs = [proof("a")]
        here.excludedNodes = ["c"]
        #expect(renewal().next(here) == .prove(nodes: ["b"], withCertificate: false))
        here.excludedNodes = ["b"]
        #expect(renewal().next(here) == .create(number: 1, previous: "OLD", isUsedAtOnce: false))
    }

    @Test("activates no certificate that is another's, has ended, or may be in use")
    func activation() throws {
        var here = circumstances([oldInUse, newListed], keyState: .active, withCertificate: true)
        here.list = PortalList(appleId: "A1", entries: [oldInUse], readAt: Self.now)
        for (minutes, step) in [(29.0, RenewalStep.find(.create)), (30, .stop(.notListed(id: "NEW")))] {
            let created = attempt(.create, .accepted, minutesAgo: minutes)
            #expect(renewal([created], certificateId: "NEW").next(here) == step)
        }
        let listed: [(entry: PortalList.Entry, step: RenewalStep)] = [
            (entry(certificates.old, "NEW", isActivated: false), .stop(.notActivatable(id: "NEW", .otherKey))),
            (
                entry(certificates.new, "NEW", isActivated: false, type: "APPLE_PAY_RSA"),
                .stop(.notActivatable(id: "NEW", .otherType("APPLE_PAY_RSA")))
            ),
            (entry(certificates.new, "NEW", isActivated: nil), .stop(.notActivatable(id: "NEW", .activationUnknown))),
            (newListed, .activate(id: "NEW", number: 1)),
        ]
        for (entry, step) in listed {
            here.list = PortalList(appleId: "A1", entries: [entry], readAt: Self.now)
            #expect(renewal(certificateId: "NEW").next(here) == step)
        }
        here.list = PortalList(appleId: "A1", entries: [newListed], readAt: Self.now)
        let later = 701 * Self.day
        here.now += later
        here.readBeganAt? += later
        here.proofs = ["a", "b"].map {
            RenewalCircumstances.Proof(
                node: $0, hsmToken: "primary", isWithCertificate: true, at: here.now, succeeded: true)
        }
        let end = try #require(newListed.notAfter)
        #expect(renewal(certificateId: "NEW").next(here) == .stop(.notActivatable(id: "NEW", .ended(end))))
    }

    @Test("raises the alarm half an hour after the activation if no node has opened a payment token")
    func alarm() {
        let activated = renewal([attempt(.activate, .accepted, minutesAgo: 31)], certificateId: "NEW")
        var here = circumstances([newListed], keyState: .active, withCertificate: true)
        for (minutes, nodes, isAlarming) in [(29.0, [], false), (30, [], true), (30, ["a"], false)] {
            here.activatedAt = Self.now.addingTimeInterval(-60 * minutes)
            here.nodesWithPayments = Set(nodes)
            let silent = nodes.isEmpty ? ["a", "b"] : ["b"]
            #expect(activated.next(here) == .watch(nodes: silent, isAlarming: isAlarming))
        }
    }

    @Test("imports at once a certificate that wallets already use, proved or not")
    func activatedByItself() {
        var here = circumstances([entry(certificates.new, "NEW", isActivated: true)])
        here.proofs = []
        #expect(renewal().next(here) == .importCertificate(id: "NEW"))
        (here.hasCertificate, here.keyState) = (true, .active)
        #expect(renewal().next(here) == .watch(nodes: ["a", "b"], isAlarming: false))
    }

    @Test("stops for a key that must not be used, and for a merchant identifier that the team does not have")
    func obstacles() {
        for state in [KeyState?.none, .suspended, .deactivated, .compromised, .destroyed] {
            #expect(renewal().next(circumstances([oldInUse], keyState: state)) == .stop(.keyState(state)))
        }
        // The key has Apple's certificate here already, which a person may have revoked in the portal.
        let certified = circumstances([oldInUse], keyState: .active, withCertificate: true)
        #expect(renewal().next(certified) == .stop(.notListed(id: nil)))
        var here = circumstances([])
        here.list = PortalList(appleId: nil, entries: [], readAt: Self.now)
        #expect(renewal().next(here) == .stop(.merchantNotListed))
    }

    @Test("revokes the previous certificate after the end only, on request, and if wallets do not use it")
    func revocation() {
        let oldUnused = entry(certificates.old, "OLD", isActivated: false)
        var here = circumstances([oldUnused, entry(certificates.new, "NEW", isActivated: true)])
        let finished = renewal(certificateId: "NEW", previous: "OLD", state: .finished)
        #expect(finished.next(here) == .done)
        here.isRevocationWanted = true
        for state in [KeyState?.none, .preActivation, .suspended, .compromised] {
            here.keyState = state
            #expect(finished.next(here) == .stop(.keyState(state)))
        }
        here.keyState = .active
        #expect(finished.next(here) == .revoke(id: "OLD", number: 1))
        for entries in [[], [oldInUse], [entry(certificates.old, "OLD", isActivated: nil)], [oldUnused, oldUnused]] {
            here.list = PortalList(appleId: "A1", entries: entries, readAt: Self.now)
            #expect(finished.next(here) == .stop(.notRevocable(id: "OLD")))
        }
        let ownCertificate = renewal(certificateId: "NEW", previous: "NEW", state: .finished)
        #expect(ownCertificate.next(here) == .stop(.notRevocable(id: "NEW")))
    }

    @Test("takes the known one of two listed certificates of the new key")
    func twoCertificates() {
        let list = PortalList(
            appleId: "A1", entries: [newListed, entry(certificates.new, "SECOND", isActivated: false)],
            readAt: Self.now)
        #expect(renewal().certificate(in: list)?.identifier == "NEW")
        #expect(renewal(certificateId: "SECOND").certificate(in: list)?.identifier == "SECOND")
        #expect(renewal(certificateId: "THIRD").certificate(in: list) == nil)
    }
}
