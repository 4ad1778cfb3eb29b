import Foundation
import KeyTypes
import PaymentToken
import TestSupport
import Testing
import TokenForge

@testable import MerchantKeys

/// Random renewals against a simulated portal: two operators, lost answers, killed processes, and other people's acts in
/// the portal.
@Suite("Random renewals") struct RenewalWalkTests {
    @Test("request one certificate at most, activate no key before its proof, and end", arguments: UInt64(1)...100)
    func walk(seed: UInt64) throws {
        var walk = try RenewalWalk(seed: seed)
        for _ in 0..<300 { walk.act() }
        #expect(walk.violations == [], "seed \(seed)")
        walk.calmDown()
        #expect(walk.violations == [], "seed \(seed)")
        let isEnded = walk.isEnded
        #expect(isEnded, "seed \(seed) stays at \(walk.step)")
    }

    @Test("reach every change at Apple, lost answers and second attempts among them")
    func coverage() throws {
        var seen: Set<String> = []
        for seed in UInt64(1)...100 {
            var walk = try RenewalWalk(seed: seed)
            for _ in 0..<300 { walk.act() }
            walk.calmDown()
            seen.formUnion(walk.seen)
        }
        let all: Set = [
            "create", "activate", "revoke", "lost answer", "second create", "second activate", "conflict",
            "active before create", "excluded node", "refused",
        ]
        #expect(all.subtracting(seen) == [])
    }
}

/// One random renewal.
private struct RenewalWalk {
    private static let merchant = "merchant.com.example"
    private static let nodes: Set<String> = ["a", "b", "c"]
    private static let start = Date(timeIntervalSince1970: 1_800_000_000)

    private struct Forged {
        let (new, old, other): (ForgedMerchant, ForgedMerchant, ForgedMerchant)

        init() throws {
            func forged(daysLeft: Double) throws -> ForgedMerchant {
                var profile = MerchantCertificateProfile(merchantIdentifier: merchant, now: start)
                profile.notAfter = start.addingTimeInterval(daysLeft * 86_400)
                return try ForgedMerchant(authority: SharedForge.authority, type: .p256, profile: profile)
            }
            (new, old, other) = (try forged(daysLeft: 700), try forged(daysLeft: 40), try forged(daysLeft: 700))
        }
    }

    private static let made = Result { try Forged() }

    /// A request on its way to Apple.
    private struct Request {
        let change: Renewal.Change
        let number: Int
        let id: String?
        let takesEffectAt: Date
        let isAnswered: Bool
    }

    private let forged: Forged
    private var random: SeededGenerator
    private var now = start
    private var portal: SimulatedPortal
    private var renewal: Renewal
    private var here: RenewalCircumstances
    private var requests: [Request] = []
    /// The time of the last act of another person in the portal.
    private var lastForeignAct = Date.distantPast
    private(set) var violations: [String] = []
    private(set) var seen: Set<String> = []

    init(seed: UInt64) throws {
        forged = try Self.made.get()
        random = SeededGenerator(seed: seed)
        let isFirst = Int.random(in: 0..<4, using: &random) == 0
        portal = SimulatedPortal(
            of: Self.merchant, initial: isFirst ? nil : forged.old, at: now, random: &random)
        renewal = Renewal(
            merchantIdentifier: Self.merchant, use: .processing, algorithm: .ec,
            newKey: .of(subjectPublicKeyInfo: forged.new.key.subjectPublicKeyInfo))
        here = RenewalCircumstances(now: now)
        here.keyState = .preActivation
        here.requiredNodes = Self.nodes
        if Int.random(in: 0..<4, using: &random) == 0 {
            here.excludedNodes = ["c"]
            seen.insert("excluded node")
        }
    }

    var step: RenewalStep { renewal.next(here) }
    /// True if the renewal is at its end. It cannot end if the new certificate was revoked by a person in the portal, or with
    /// a person's activation of another one.
    var isEnded: Bool {
        renewal.state == .finished && step == .done
            || portal.certificates.contains { $0.isRevoked && $0.forged.certificate == forged.new.certificate }
    }

    // MARK: Random acts

    mutating func act() {
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<4: pass(.random(in: 1...60, using: &random))
        case 4..<7: pass(.random(in: 60...1800, using: &random))
        case 7: pass(.random(in: 3600...86_400, using: &random))
        case 8:
            for node in Self.nodes { prove(node, succeeded: Int.random(in: 0..<9, using: &random) > 0) }
        case 9: openPayments()
        case 10: actInPortal()
        case 11:
            if case .decideRepeat(let change, let number, _) = step {
                here.repeatedAttempt = (change, number + Int.random(in: 0...1, using: &random))
            }
        case 12: read()
        case 13, 14:
            // Two operators decide on the same facts.
            let step = step
            perform(step)
            perform(step)
        default:
            if Bool.random(using: &random) { read() }
            perform(step)
        }
    }

    /// Lets everything succeed, until the renewal ends.
    mutating func calmDown() {
        pass(3600)
        portal.limit = 100
        for _ in 0..<60 where !isEnded {
            if here.activatedAt != nil, let id = renewal.certificateId, portal.inUse(at: now)?.id != id {
                _ = portal.activate(id, at: now, delay: 0)
            }
            for node in Self.nodes { prove(node, succeeded: true) }
            openPayments()
            here.isTestPaymentMade = true
            read()
            if case .decideRepeat(let change, let number, _) = step { here.repeatedAttempt = (change, number) }
            perform(step, succeeds: true)
            pass(600)
        }
    }

    private mutating func pass(_ seconds: TimeInterval) {
        let end = now + seconds
        let due = requests.filter { $0.takesEffectAt <= end }.sorted { $0.takesEffectAt < $1.takesEffectAt }
        requests.removeAll { $0.takesEffectAt <= end }
        for request in due {
            now = request.takesEffectAt
            takeEffect(request)
        }
        now = end
        here.now = now
    }

    private mutating func read() {
        (here.readBeganAt, here.list) = (now, portal.list(at: now))
    }

    private mutating func prove(_ node: String, succeeded: Bool) {
        here.proofs.append(
            RenewalCircumstances.Proof(
                node: node, hsmToken: "primary", isWithCertificate: here.hasCertificate, at: now, succeeded: succeeded))
    }

    /// Payments arrive with the certificate that wallets use.
    private mutating func openPayments() {
        guard portal.inUse(at: now)?.forged.certificate == forged.new.certificate, here.keyState == .active else {
            return
        }
        here.nodesWithPayments.formUnion(Self.nodes)
    }

    /// Another person acts in the portal.
    private mutating func actInPortal() {
        lastForeignAct = now
        switch Int.random(in: 0..<4, using: &random) {
        case 0: _ = portal.create(forged.other, at: now, delay: portal.delay(&random))
        case 1:
            guard let one = portal.certificates.randomElement(using: &random) else { return }
            _ = portal.activate(one.id, at: now, delay: portal.delay(&random))
        case 2:
            guard let one = portal.certificates.randomElement(using: &random) else { return }
            _ = portal.revoke(one.id, at: now)
        default: break
        }
    }

    // MARK: Steps

    private mutating func perform(_ step: RenewalStep, succeeds: Bool = false) {
        switch step {
        case .read: read()
        case .create(let number, let previous, let isUsedAtOnce):
            requireProofs(withCertificate: false)
            if isUsedAtOnce { seen.insert("active before create") }
            request(.create, number, previous: previous, isUsedAtOnce: isUsedAtOnce, succeeds)
        case .activate(let id, let number):
            requireProofs(withCertificate: true)
            if here.keyState != .active { violations.append("activation of a key that is not active here") }
            request(.activate, number, id: id, succeeds)
        case .revoke(let id, let number):
            if lastForeignAct < now - 1800, portal.inUse(at: now)?.id == id {
                violations.append("revocation of the certificate in use")
            }
            request(.revoke, number, id: id, succeeds)
        case .importCertificate(let id):
            renewal.found(certificateId: id)
            (here.hasCertificate, here.keyState) = (true, .active)
        case .finish:
            if !here.nodesWithPayments.isSuperset(of: Self.nodes.subtracting(here.excludedNodes)) {
                violations.append("end before payments on every node")
            }
            try? renewal.finish()
            here.isRevocationWanted = renewal.previousCertificateId != nil
            // The old certificate may have been revoked with the activation, or used again by a person.
            if case .stop = self.step { here.isRevocationWanted = false }
        case .stop(.notRevocable): here.isRevocationWanted = false
        default: break
        }
    }

    private mutating func requireProofs(withCertificate: Bool) {
        for node in Self.nodes.subtracting(here.excludedNodes) {
            let newest = here.proofs.last { $0.node == node }
            if newest?.succeeded != true || withCertificate && newest?.isWithCertificate != true {
                violations.append("change at Apple without a proof of node \(node)")
            }
        }
    }

    /// Begins an attempt. Its process may be killed before the request, or before the answer.
    private mutating func request(
        _ change: Renewal.Change, _ number: Int, previous: String? = nil, id: String? = nil,
        isUsedAtOnce: Bool = false, _ succeeds: Bool
    ) {
        do {
            try renewal.begin(
                change, number: number, certificate: id, previous: previous, excludedNodes: here.excludedNodes, at: now)
        } catch {
            seen.insert("conflict")
            return
        }
        // The transaction that stores the attempt makes the key active.
        if isUsedAtOnce { here.keyState = .active }
        seen.insert(change.rawValue)
        if number > 1 { seen.insert("second \(change.rawValue)") }
        let fate = succeeds ? 0 : Int.random(in: 0..<8, using: &random)
        switch fate {
        // Apple takes the request at once or late, and the answer arrives or is lost.
        case 0..<5:
            if fate == 4 { seen.insert("lost answer") }
            requests.append(
                Request(
                    change: change, number: number, id: id,
                    takesEffectAt: now + (fate < 3 ? 0 : .random(in: 0...150, using: &random)),
                    isAnswered: fate != 4))
            pass(0)
        case 5: try? renewal.answer(change, number: number, .notSent, at: now)
        case 6: try? renewal.answer(change, number: number, .refused, at: now)
        default: break
        }
    }

    private mutating func takeEffect(_ request: Request) {
        let outcome: Renewal.Attempt.Outcome
        var created: String?
        switch request.change {
        case .create:
            let wasInUse = portal.inUse(at: now) != nil
            created = portal.create(forged.new, at: now, delay: portal.delay(&random))
            outcome = created == nil ? .refused : .accepted
            if portal.count(of: forged.new) > 1 { violations.append("two certificates of the new key") }
            if created != nil, !wasInUse, here.keyState != .active, lastForeignAct < now - 1800 {
                violations.append("wallets use a key that is not active here")
            }
        case .activate:
            outcome = portal.activate(request.id ?? "", at: now, delay: portal.delay(&random)) ? .accepted : .refused
        case .revoke: outcome = portal.revoke(request.id ?? "", at: now) ? .accepted : .refused
        }
        if outcome == .refused { seen.insert("refused") }
        guard request.isAnswered else { return }
        try? renewal.answer(request.change, number: request.number, outcome, certificateId: created, at: now)
        if request.change == .activate, outcome == .accepted { here.activatedAt = now }
    }
}
