import Foundation
import KeyTypes
import PaymentToken
import Refusals
import Testing

@testable import Daemon
@testable import MerchantKeys

/// The rotation of a merchant's Google Pay keys, and its sentences.
@Suite("Rotations of Google Pay keys")
struct GooglePayRotationPhasesTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)

    private func key(
        _ number: UInt8, _ state: KeyState, daysOld: Double, origin: KeyRecord.Origin = .generated,
        lastUse: Double? = nil, quiet: Double = 30, unproved: [String] = [], refused: Int = 0, fault: String? = nil
    ) -> Rotation.Key {
        let keyRecord = KeyRecord(
            publicKeyHash: .of(subjectPublicKeyInfo: [0x30, number]), merchantIdentifier: "BCR2DN4TEXAMPLE",
            algorithm: .ec, use: .googlePay, state: state, createdAt: now.addingTimeInterval(-daysOld * 86_400),
            origin: origin)
        var entry = KeyEntry(
            publicKeyHash: keyRecord.publicKeyHash, merchantIdentifier: keyRecord.merchantIdentifier, algorithm: .ec,
            use: .googlePay, state: state, cutOff: nil, condition: .served, certificate: nil, hsmTokens: ["primary"],
            warnings: [])
        entry.createdAt = keyRecord.createdAt
        var key = Rotation.Key(
            keyRecord: keyRecord, entry: entry, refusedLastHour: refused, wasUsed: lastUse != nil, fault: fault)
        key.unprovedNodes = unproved
        key.unusedFrom = GooglePayRotation.unused(
            watchedFrom: keyRecord.createdAt, lastUse: lastUse.map { now.addingTimeInterval(-$0 * 86_400) },
            quiet: quiet * 86_400)
        return key
    }

    private func rotation(_ keys: Rotation.Key...) throws -> Rotation {
        let all = Rotation.all(among: keys.shuffled(), now: now)
        try #require(all.count == 1)
        return all[0]
    }

    private func refusal(_ rotation: Rotation, only: Rotation.Key? = nil, force: Bool = false) -> Refusal? {
        do throws(RotationFinishError) {
            _ = try rotation.finished(
                only: only?.publicKeyHash, cutOff: now.addingTimeInterval(864_000), force: force, now: now)
            return nil
        } catch {
            return rotation.refusal(error)
        }
    }

    @Test(
        "waits for the proofs of every node, then for Google's console, whatever the key's origin",
        arguments: KeyRecord.Origin.allCases)
    func waiting(origin: KeyRecord.Origin) throws {
        let old = key(1, .active, daysOld: 400)
        let unproved = try rotation(
            old, key(2, .preActivation, daysOld: 1, origin: origin, unproved: ["host-1", "host-2"]))
        #expect(unproved.phase == .proof && unproved.oldKeys == [old])
        #expect(unproved.next == "Prove the new key on host-1, host-2: POST /v1/keys/{key}/proofs.")
        #expect(
            unproved.steps.map(\.name) == [.generate, .prove, .console, .activate, .drain, .finish, .cutOff])
        #expect(unproved.steps.map(\.status) == [.done, .next, .open, .open, .open, .open, .open])
        let proved = try rotation(old, key(2, .preActivation, daysOld: 1, origin: origin))
        #expect(proved.phase == .console && proved.next.contains("POST /v1/rotations/added"))
        #expect(proved.steps.first { $0.status == .next }?.name == .console)
        #expect(refusal(proved)?.code == .invalidState)
    }

    @Test("shows no step of an old key for a merchant's first key")
    func firstKey() throws {
        let first = try rotation(key(1, .preActivation, daysOld: 1))
        #expect(first.phase == .console && first.steps.map(\.name) == [.generate, .prove, .console, .activate])
    }

    @Test("says of refused messages which key opened them, since that is certain")
    func refusedMessages() throws {
        let rotation = try rotation(
            key(1, .active, daysOld: 400, lastUse: 1, refused: 2), key(2, .active, daysOld: 90, lastUse: 0, refused: 1))
        #expect(
            rotation.remarks.contains(
                "Refused within the last hour and not counted: 1 payment token that the new key opened, 2 payment tokens "
                    + "that the old key opened."), "\(rotation.remarks)")
        let suspended = key(1, .suspended, daysOld: 400, refused: 2)
        #expect(
            try self.rotation(suspended, key(2, .active, daysOld: 90)).remarks.contains(
                "2 payment tokens that the suspended key \(suspended.short) opened were refused within the last hour."))
    }

    @Test("waits for the new key's first message, then for the old key's quiet time, then for its removal")
    func phases() throws {
        let unused = try rotation(key(1, .active, daysOld: 400, lastUse: 1), key(2, .active, daysOld: 1))
        #expect(unused.phase == .activation && unused.next == "Have site and apps send the new public key.")
        #expect(refusal(unused, force: false)?.message.contains("counts as unused from") == true)
        let overlap = try rotation(
            key(1, .active, daysOld: 400, lastUse: 29), key(2, .active, daysOld: 90, lastUse: 0))
        #expect(overlap.phase == .overlap)
        #expect(
            overlap.next == "Wait: the old key counts as unused from 2027-01-16T08:00:00Z, if no payment comes before.")
        #expect(refusal(overlap)?.message.contains("2027-01-16T08:00:00Z") == true)
        #expect(refusal(overlap, force: true) == nil)
        let quiet = try rotation(
            key(1, .active, daysOld: 400, lastUse: 31), key(2, .active, daysOld: 90, lastUse: 0))
        #expect(quiet.phase == .finish && quiet.next.contains("POST /v1/rotations/removed"))
        #expect(refusal(quiet) == nil)
    }

    @Test("does not take a key for unused that it has watched for less than the quiet time")
    func youngOldKey() throws {
        let rotation = try rotation(key(1, .active, daysOld: 10), key(2, .active, daysOld: 5, lastUse: 0))
        #expect(rotation.phase == .overlap)
    }

    @Test("retires the named old key alone, and never the newest")
    func named() throws {
        let (first, second) = (key(1, .active, daysOld: 400), key(2, .active, daysOld: 200))
        let newest = key(3, .active, daysOld: 90, lastUse: 0)
        let rotation = try rotation(first, second, newest)
        let retired = try rotation.finished(
            only: second.publicKeyHash, cutOff: now.addingTimeInterval(864_000), force: false, now: now)
        #expect(retired.map(\.publicKeyHash) == [second.publicKeyHash])
        #expect(retired.map(\.state) == [.deactivated])
        for force in [false, true] {
            #expect(refusal(rotation, only: newest, force: force)?.message.contains("is not an active key") == true)
        }
        let broken = try self.rotation(first, key(3, .active, daysOld: 90, lastUse: 0, fault: "No token shows it."))
        #expect(refusal(broken, only: first, force: true)?.details == "No token shows it.")
    }

    @Test("reminds of a key that will be a year old, until a newer one is active")
    func reminder() throws {
        let old = key(1, .active, daysOld: 340, lastUse: 0)
        #expect(try rotation(old).remarks.contains { $0.contains("is a year old at 2027-02-09T08:00:00Z") })
        #expect(
            try !rotation(old, key(2, .active, daysOld: 1)).remarks.contains { $0.contains("a year old") })
    }

    @Test("warns in the status by the days that are left, and names at most five keys of each")
    func warnings() {
        let entries = (1...6).compactMap { key(UInt8($0), .active, daysOld: 355).entry }.enumerated().map {
            place, entry in
            var own = KeyEntry(
                publicKeyHash: entry.publicKeyHash, merchantIdentifier: "M\(place)", algorithm: .ec, use: .googlePay,
                state: .active, cutOff: nil, condition: .served, certificate: nil, hsmTokens: [], warnings: [])
            own.createdAt = entry.createdAt
            return own
        }
        var due = key(9, .active, daysOld: 366).entry
        due?.createdAt = now.addingTimeInterval(-366 * 86_400)
        let warnings = ExpiryWarnings.of(entries + [due].compactMap { $0 }, now: now)
        #expect(warnings.count == 2)
        #expect(warnings.first?.hasPrefix("The Google Pay key of BCR2DN4TEXAMPLE (") == true)
        #expect(warnings.first?.contains("is more than a year old. This stops nothing") == true)
        #expect(warnings.last?.contains("and 1 more will be a year old within 15 days") == true)
    }
}
