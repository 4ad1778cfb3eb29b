import Foundation
import KeyTypes
import Ledger
import PaymentToken
import Refusals
import TestSupport
import Testing
import TokenForge

@testable import Daemon
@testable import MerchantKeys

/// The rotation derived from a merchant's keys, and its text for people.
@Suite("Rotations derived from the keys")
struct RotationTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)

    /// A key with this number, created this many hours ago.
    private func key(
        _ number: UInt8, _ state: KeyState, hoursAgo: Double, origin: KeyRecord.Origin = .imported,
        cutOffIn: TimeInterval? = nil, opened: Int = 0, refused: Int = 0, wasUsed: Bool = false,
        fault: String? = nil, merchant: String = "m", algorithm: KeyAlgorithm = .ec, hsmTokens: [String] = ["primary"]
    ) -> Rotation.Key {
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: [0x30, number])
        let keyRecord = KeyRecord(
            publicKeyHash: hash, merchantIdentifier: merchant, algorithm: algorithm, use: .processing, state: state,
            cutOff: cutOffIn.map { now.addingTimeInterval($0) },
            createdAt: now.addingTimeInterval(-3600 * hoursAgo), origin: origin)
        let entry = KeyEntry(
            publicKeyHash: hash, merchantIdentifier: merchant, algorithm: algorithm, use: .processing, state: state,
            cutOff: keyRecord.cutOff, condition: .served, certificate: nil, hsmTokens: hsmTokens, warnings: [])
        return Rotation.Key(
            keyRecord: keyRecord, entry: entry,
            lastHour: KeyUses(count: opened, last: opened == 0 ? nil : now.addingTimeInterval(-60)),
            refusedLastHour: refused, wasUsed: wasUsed, fault: fault)
    }

    private func rotation(_ keys: Rotation.Key...) throws -> Rotation {
        let all = Rotation.all(among: keys.shuffled(), now: now)
        try #require(all.count == 1)
        return all[0]
    }

    private func current(_ rotation: Rotation) -> RotationStep.Name? {
        rotation.steps.first { $0.status == .next }?.name
    }

    @Test("finds no rotation with one active key, however many inactive ones there are")
    func none() throws {
        let rotation = try rotation(
            key(1, .active, hoursAgo: 1, opened: 9), key(2, .deactivated, hoursAgo: 9),
            key(3, .deactivated, hoursAgo: 9, cutOffIn: -1), key(4, .destroyed, hoursAgo: 9),
            key(5, .compromised, hoursAgo: 2), key(6, .suspended, hoursAgo: 2))
        #expect(rotation.phase == .none && !rotation.isUnderWay && rotation.steps.isEmpty)
        #expect(rotation.newKey?.keyRecord.state == .active)
        #expect(rotation.oldKeys.isEmpty && rotation.endingKeys.isEmpty)
    }

    @Test("takes a generated key without a certificate as the new one, and all active ones as old")
    func waiting() throws {
        let new = key(1, .preActivation, hoursAgo: 30, origin: .generated)
        let old = key(2, .active, hoursAgo: 1, opened: 3)
        let rotation = try rotation(new, old)
        #expect(rotation.phase == .certificate && current(rotation) == .certificate)
        #expect(rotation.newKey == new && rotation.oldKeys == [old])
        #expect(rotation.next.contains("POST /v1/rotations/certificate"))
        #expect(rotation.steps.map(\.status) == [.done, .next, .open, .open, .open, .open])
    }

    @Test("starts no rotation with a key without a certificate that was not generated here")
    func imported() throws {
        let rotation = try rotation(key(1, .preActivation, hoursAgo: 1), key(2, .active, hoursAgo: 9))
        #expect(rotation.phase == .none && rotation.newKey?.keyRecord.state == .active)
    }

    @Test("takes the youngest of several generated keys as the new one, and names the others")
    func several() throws {
        let young = key(1, .preActivation, hoursAgo: 1, origin: .generated)
        let older = key(2, .preActivation, hoursAgo: 2, origin: .generated)
        let rotation = try rotation(young, older, key(3, .active, hoursAgo: 99))
        #expect(rotation.newKey == young && rotation.leftOver == [older])
        #expect(rotation.remarks.contains { $0.contains(older.short) })
    }

    @Test("takes the younger of two active keys as new: not activated, in overlap, ready to finish")
    func phases() throws {
        let quiet = try rotation(
            key(1, .active, hoursAgo: 1, origin: .generated), key(2, .active, hoursAgo: 9, opened: 5))
        #expect(quiet.phase == .activation && current(quiet) == .activate)
        #expect(quiet.next == "Activate the new key's certificate in Apple's developer portal.")
        let overlap = try rotation(
            key(1, .active, hoursAgo: 1, opened: 7), key(2, .active, hoursAgo: 9, opened: 1),
            key(3, .active, hoursAgo: 99, opened: 2))
        #expect(overlap.phase == .overlap && current(overlap) == .drain)
        #expect(
            overlap.oldInLastHour == 3 && overlap.next.hasPrefix("Wait until the old key has opened no payment token"))
        #expect(overlap.oldKeys.map(\.lastHour.count) == [2, 1])
        let ready = try rotation(key(1, .active, hoursAgo: 1, opened: 7), key(2, .active, hoursAgo: 9))
        #expect(ready.phase == .finish && current(ready) == .finish)
        #expect(ready.next.contains("POST /v1/rotations/{merchant}/finish"))
    }

    @Test("counts a new key that was used since the start as activated, even after a silent hour")
    func silentHour() throws {
        let rotation = try rotation(key(1, .active, hoursAgo: 5, wasUsed: true), key(2, .active, hoursAgo: 99))
        #expect(rotation.phase == .finish)
    }

    @Test("ends the rotation with a deactivated key before its cut-off, and finds none afterwards")
    func ending() throws {
        let rotation = try rotation(
            key(1, .active, hoursAgo: 1, opened: 7), key(2, .deactivated, hoursAgo: 9, cutOffIn: 60))
        #expect(rotation.phase == .cutOff && current(rotation) == .cutOff && rotation.endingKeys.count == 1)
        #expect(rotation.next.hasPrefix("Nothing."))
        let over = try self.rotation(
            key(1, .active, hoursAgo: 1, opened: 7), key(2, .deactivated, hoursAgo: 9, cutOffIn: -1))
        #expect(over.phase == .none)
    }

    @Test("separates the rotations of EC and RSA keys, and of merchants")
    func apart() {
        let all = Rotation.all(
            among: [
                key(1, .active, hoursAgo: 1), key(2, .active, hoursAgo: 2, algorithm: .rsa),
                key(3, .active, hoursAgo: 3, merchant: "a"),
            ], now: now)
        #expect(all.map(\.merchantIdentifier) == ["a", "m", "m"])
        #expect(all.map(\.algorithm) == [.ec, .ec, .rsa])
        #expect(all.allSatisfy { $0.phase == .none })
    }

    @Test(
        "does not take a renewed old key for a new one, and retires nothing when the dates contradict each other")
    func certificates() throws {
        let forged = try ForgedPair()
        let renewed = try forged.key(notBeforeDaysAgo: 1, importedHoursAgo: 9000, now: now)
        let rotated = try forged.key(notBeforeDaysAgo: 2, importedHoursAgo: 1, now: now)
        let all = Rotation.all(among: [renewed, rotated], now: now)
        #expect(all.first?.newKey == rotated && all.first?.oldKeys == [renewed])
        for force in [false, true] {
            #expect(all.first.flatMap { refusal($0, force: force) }?.message.contains("Retire the right one") == true)
        }
    }

    @Test("draws no conclusion about activation or use from refused payment tokens")
    func refusedArrivals() throws {
        let unproven = try rotation(key(1, .active, hoursAgo: 1, refused: 1), key(2, .active, hoursAgo: 9))
        #expect(unproven.phase == .activation)
        #expect(refusal(unproven)?.message.contains("The new key has opened no payment token yet") == true)
        let done = try rotation(key(1, .active, hoursAgo: 1, opened: 1), key(2, .active, hoursAgo: 9, refused: 2))
        #expect(done.phase == .finish)
        #expect(refusal(done) == nil)
        // The rotation's text mentions the refused payment tokens.
        #expect(unproven.remarks.contains { $0.contains("1 payment token that named the new key (unverified") })
        #expect(done.remarks.contains { $0.contains("2 payment tokens that named the old key (unverified") })
    }

    @Test("reports a new key that is missing in an HSM token of the old one, and what to do before activation")
    func missingInHSMTokens() throws {
        let new = key(1, .active, hoursAgo: 1, hsmTokens: ["primary"])
        let both = key(2, .active, hoursAgo: 9, hsmTokens: ["primary", "second"])
        let remark = try #require(try rotation(new, both).remarks.first { $0.contains("not in second") })
        #expect(
            remark.contains(new.short) && remark.contains("while primary is unavailable, the new key opens nothing"))
        #expect(remark.contains("cloning") && remark.contains("into each of them"))
        let waiting = key(3, .preActivation, hoursAgo: 1, origin: .generated, hsmTokens: ["second"])
        #expect(try rotation(waiting, both).remarks.contains { $0.contains("not in primary") })
        let alike = try rotation(key(1, .active, hoursAgo: 1, hsmTokens: ["primary", "second"]), both)
        #expect(alike.remarks.isEmpty)
    }

    @Test("is not delayed by a key generated meanwhile once the new key has its certificate")
    func generatedMeanwhile() throws {
        let stray = key(3, .preActivation, hoursAgo: 0.5, origin: .generated)
        let rotation = try rotation(key(1, .active, hoursAgo: 1, opened: 1), key(2, .active, hoursAgo: 9), stray)
        #expect(rotation.phase == .finish && rotation.leftOver == [stray])
        #expect(refusal(rotation) == nil)
    }

    @Test("reports no success when an old key ends before any payment token used the new one")
    func activationMissed() throws {
        let rotation = try rotation(
            key(1, .active, hoursAgo: 1), key(2, .deactivated, hoursAgo: 9, cutOffIn: 60, opened: 4))
        #expect(rotation.phase == .cutOff && current(rotation) == .activate)
        #expect(rotation.next.hasPrefix("Activate the new key's certificate") && rotation.next.contains("before"))
        #expect(rotation.steps.map(\.status) == [.done, .done, .next, .done, .done, .open])
    }

    @Test("treats the retirement of a merchant's only key as the end of its keys, not of a rotation")
    func retiredAlone() throws {
        let rotation = try rotation(key(2, .deactivated, hoursAgo: 9, cutOffIn: 60, opened: 4))
        #expect(rotation.newKey == nil && rotation.steps.isEmpty)
        #expect(rotation.next == "No active key is left; POST /v1/rotations makes one.")
    }

    @Test("names suspended keys and those past their cut-off, with the arrivals that name them")
    func silent() throws {
        let rotation = try rotation(
            key(1, .active, hoursAgo: 1), key(2, .deactivated, hoursAgo: 9, cutOffIn: -1, refused: 3),
            key(3, .suspended, hoursAgo: 7), key(4, .deactivated, hoursAgo: 8, cutOffIn: -1))
        #expect(rotation.phase == .none && rotation.remarks.count == 3)
        #expect(rotation.remarks[0].contains("3 payment tokens named the deactivated key"))
        #expect(rotation.remarks[1].contains("can be destroyed") && rotation.remarks[2].contains("resume or retire"))
    }

    // MARK: Finishing

    private func refusal(_ rotation: Rotation, cutOff: Date? = nil, force: Bool = false) -> Refusal? {
        do throws(RotationFinishError) {
            _ = try rotation.finished(cutOff: cutOff, force: force, now: now)
            return nil
        } catch {
            return rotation.refusal(error)
        }
    }

    @Test("deactivates every old key with the cut-off, and no other, when it finishes")
    func finished() throws {
        let end = now.addingTimeInterval(7 * 86_400)
        let rotation = try rotation(
            key(1, .active, hoursAgo: 1, opened: 7), key(2, .active, hoursAgo: 9), key(3, .active, hoursAgo: 99))
        let records = try rotation.finished(cutOff: end, force: false, now: now)
        #expect(records.map(\.publicKeyHash) == rotation.oldKeys.map(\.publicKeyHash) && records.count == 2)
        #expect(records.allSatisfy { $0.state == .deactivated && $0.cutOff == end })
        #expect(try rotation.finished(cutOff: nil, force: false, now: now).allSatisfy { $0.cutOff == nil })
    }

    @Test("refuses to finish while the old key opens payment tokens, unless forced")
    func inUse() throws {
        let rotation = try rotation(
            key(1, .active, hoursAgo: 1, opened: 7), key(2, .active, hoursAgo: 9, opened: 12))
        let refused = try #require(refusal(rotation))
        #expect(refused.code == .invalidState && refused.message.contains("The old key opened 12 payment tokens"))
        #expect(refused.message.contains("2027-01-15T07:59:00Z") && refused.message.contains("finish with force"))
        #expect(refusal(rotation, force: true) == nil)
    }

    @Test("refuses to finish before the new key has opened a payment token, unless forced")
    func notActivated() throws {
        let rotation = try rotation(key(1, .active, hoursAgo: 1), key(2, .active, hoursAgo: 9))
        let refused = try #require(refusal(rotation))
        #expect(refused.code == .invalidState && refused.message.contains("Activate its certificate"))
        #expect(refusal(rotation, force: true) == nil)
    }

    @Test("refuses to finish while no HSM token shows the new key, even if forced, without asking for its activation")
    func newKeyAway() throws {
        let rotation = try rotation(
            key(1, .active, hoursAgo: 1, fault: "No token shows it."), key(2, .active, hoursAgo: 9))
        #expect(rotation.next.hasPrefix("Repair the new key first.") && rotation.next.contains("No token shows it."))
        #expect(rotation.remarks.contains { $0.contains("No token shows it.") })
        for force in [false, true] {
            #expect(refusal(rotation, force: force)?.message.contains("opens nothing now") == true)
        }
    }

    @Test("accepts a cut-off within 90 days only")
    func farCutOff() throws {
        let rotation = try rotation(key(1, .active, hoursAgo: 1, opened: 7), key(2, .active, hoursAgo: 9))
        let day = 86_400.0
        #expect(refusal(rotation, cutOff: now.addingTimeInterval(90 * day)) == nil)
        #expect(refusal(rotation, cutOff: now.addingTimeInterval(90 * day + 1))?.code == .malformedRequest)
    }

    @Test("refuses to finish, even if forced, when nothing is to be finished or no key would be left")
    func nothingToFinish() throws {
        let one = try rotation(key(1, .active, hoursAgo: 1))
        #expect(refusal(one, force: true)?.code == .invalidState)
        let waiting = try rotation(
            key(1, .preActivation, hoursAgo: 1, origin: .generated), key(2, .active, hoursAgo: 9))
        #expect(refusal(waiting, force: true)?.message.contains("no certificate yet") == true)
        let two = try rotation(key(1, .active, hoursAgo: 1, opened: 1), key(2, .active, hoursAgo: 9))
        #expect(refusal(two, cutOff: now, force: true)?.code == .malformedRequest)
    }
}

/// Active keys of one merchant, with certificates of the given ages.
private struct ForgedPair {
    private let authority: ForgeAuthority

    init() throws { authority = try SharedForge.authority }

    func key(notBeforeDaysAgo days: Double, importedHoursAgo hours: Double, now: Date) throws -> Rotation.Key {
        var profile = MerchantCertificateProfile(merchantIdentifier: "m", now: now)
        profile.notBefore = now.addingTimeInterval(-86_400 * days)
        let forged = try ForgedMerchant(authority: authority, type: .p256, profile: profile)
        let certificate = try MerchantCertificate(der: forged.certificate)
        let keyRecord = KeyRecord(
            publicKeyHash: certificate.publicKeyHash, merchantIdentifier: "m", algorithm: .ec, use: .processing,
            state: .active,
            createdAt: now.addingTimeInterval(-3600 * hours), origin: .imported)
        return Rotation.Key(
            keyRecord: keyRecord,
            entry: KeyEntry(
                publicKeyHash: certificate.publicKeyHash, merchantIdentifier: "m", algorithm: .ec, use: .processing,
                state: .active,
                cutOff: nil, condition: .served, certificate: certificate, hsmTokens: ["primary"], warnings: []))
    }
}

/// A rotation read from the ledger while no HSM token serves.
@Suite struct UnavailableHSMTokenTests {
    @Test(
        "reports a fault of a key whose HSM tokens are all unavailable, and names them",
        arguments: [
            (["north"], "The only HSM token that holds it is not available now: north."),
            (["north", "south"], "None of the HSM tokens that hold it is available now: north, south."),
        ])
    func unavailable(names: [String], fault: String) async throws {
        let directory = try FreshDirectory()
        let fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken())
        let description = try await SoftwareKeyToken().generateKey(
            .ec, use: .processing, merchantIdentifier: "m", known: [])
        let keyRecord = KeyRecord(
            publicKeyHash: try #require(PublicKeyHash(bytes: description.identifier)), merchantIdentifier: "m",
            algorithm: .ec, state: .active, createdAt: RecordFixture.noon, origin: .imported)
        try await fixture.ledger.apply(AdministrativeChange(at: RecordFixture.noon, key: keyRecord, records: []))
        let (index, clock) = (KeyIndex(), WallClock { RecordFixture.noon })
        index.rebuild(hsmTokens: names.map { ($0, [description]) }, keyRecords: [keyRecord])
        let administration = KeyAdministration(
            catalogue: KeyCatalogue(
                index: index, ledger: fixture.ledger, hsmTokens: [], clock: clock, logger: RecordFixture.quiet),
            hsmTokens: names.map { SoftwareKeyToken($0, isServing: false) }, ledger: fixture.ledger,
            gate: fixture.gate, recorder: fixture.recorder, rule: TwoPersonRule(people: 1, expire: .seconds(60)),
            clock: clock)
        let rotations = KeyRotations(administration: administration, arrivals: RefusedPaymentTokenCounts())
        #expect(try await rotations.rotations(of: "m").map(\.newKey?.fault) == [fault])
        await fixture.ledger.close()
    }
}
