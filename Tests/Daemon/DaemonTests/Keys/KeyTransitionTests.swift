import Foundation
import MerchantKeys
import PaymentToken
import Refusals
import Testing

@testable import Daemon

@Suite("Key records after a change of state")
struct KeyTransitionTests {
    private let noon = Date(timeIntervalSince1970: 1_800_000_000)
    private let day: TimeInterval = 86_400

    private func key(_ state: KeyState, cutOff: Date? = nil) -> KeyRecord {
        KeyRecord(
            publicKeyHash: PublicKeyHash.of(subjectPublicKeyInfo: [1]), merchantIdentifier: "m", algorithm: .ec,
            state: state, cutOff: cutOff, createdAt: noon.addingTimeInterval(-day), origin: .imported)
    }

    private func refusal(_ key: KeyRecord, to state: KeyState, cutOff: Date? = nil) -> Refusal? {
        do throws(KeyTransitionError) {
            _ = try key.changed(to: state, cutOff: cutOff, at: noon)
            return nil
        } catch {
            return error.refusal
        }
    }

    /// Returns true if the key opens payment tokens at any time around noon.
    private func opens(_ key: KeyRecord) -> Bool {
        [-1, 0, 1, 7 * day, 3650 * day].contains { key.serves(at: noon.addingTimeInterval($0)) }
    }

    @Test("keeps a key deactivated that was retired without a cut-off, then suspended and resumed")
    func deactivatedAfterDetour() throws {
        let retired = try key(.active).changed(to: .deactivated, cutOff: nil, at: noon)
        // The key does not even open a payment token that arrived before noon and still waits for the HSM token.
        #expect(!opens(retired))
        let suspended = try retired.changed(to: .suspended, cutOff: nil, at: noon.addingTimeInterval(-2))
        #expect(!opens(suspended))
        let resumed = try suspended.changed(to: .active, cutOff: nil, at: noon)
        #expect(resumed.state == .deactivated && !opens(resumed))
        // A second suspension and resumption have the same result.
        let again = try resumed.changed(to: .suspended, cutOff: nil, at: noon)
        #expect(again.cutOff == suspended.cutOff)
        #expect(try again.changed(to: .active, cutOff: nil, at: noon).state == .deactivated)
    }

    @Test("deactivates a key that was suspended first and then retired, with or without a cut-off")
    func suspendedFirst() throws {
        for start in [key(.active), key(.deactivated, cutOff: noon.addingTimeInterval(day))] {
            let retired = try start.changed(to: .suspended, cutOff: nil, at: noon)
                .changed(to: .deactivated, cutOff: nil, at: noon)
            #expect(retired.state == .deactivated && !opens(retired))
            let resumed = try retired.changed(to: .suspended, cutOff: nil, at: noon.addingTimeInterval(-2))
                .changed(to: .active, cutOff: nil, at: noon)
            #expect(resumed.state == .deactivated && !opens(resumed))
        }
    }

    @Test("resumes an active key as active, and a deactivated one with the rest of its cut-off")
    func resumedState() throws {
        let active = try key(.active).changed(to: .suspended, cutOff: nil, at: noon)
            .changed(to: .active, cutOff: nil, at: noon)
        #expect(active == key(.active))
        let end = noon.addingTimeInterval(day)
        let late = try key(.active).changed(to: .deactivated, cutOff: end, at: noon)
            .changed(to: .suspended, cutOff: nil, at: noon).changed(to: .active, cutOff: nil, at: noon)
        #expect(late == key(.deactivated, cutOff: end))
    }

    @Test("accepts a cut-off in the future, at most 90 days ahead")
    func cutOffLimits() throws {
        let most = noon.addingTimeInterval(90 * day)
        #expect(try key(.active).changed(to: .deactivated, cutOff: most, at: noon).cutOff == most)
        for end in [noon, noon.addingTimeInterval(-1), most.addingTimeInterval(1), .distantFuture] {
            let refused = refusal(key(.active), to: .deactivated, cutOff: end)
            #expect(refused?.code == .malformedRequest && refused?.details == "cutOff", "\(end)")
        }
        let far = refusal(key(.active), to: .deactivated, cutOff: .distantFuture)
        #expect(far?.message == "cutOff must lie at most 90 days ahead.")
        let suspended = refusal(key(.suspended), to: .deactivated, cutOff: most)
        #expect(suspended?.message.contains("A suspended key is retired without a cut-off") == true)
    }

    @Test(
        "refuses an impossible transition and names the possible ones",
        arguments: [
            (KeyState.active, KeyState.destroyed, "suspended, deactivated, compromised"),
            (.suspended, .suspended, "active, deactivated, compromised, destroyed"),
            (
                .preActivation, .suspended,
                "active (with its certificate; a Google Pay key with POST /v1/rotations/added), compromised, destroyed"
            ),
            (.compromised, .active, "destroyed"), (.destroyed, .active, "nothing else"),
        ])
    func possibleTransitionsNamed(from: KeyState, to: KeyState, words: String) {
        let refused = refusal(key(from), to: to)
        #expect(refused?.code == .invalidState)
        #expect(refused?.message == "A key that is \(from.rawValue) cannot become \(to.rawValue).")
        #expect(refused?.details == "from \(from.rawValue) it can become \(words)")
    }

    @Test("refuses an unknown name with key_not_found, and an ambiguous prefix with the number of matches")
    func unknownKeyName() {
        for error in [KeyLookupError.notBase64, .notHexadecimal, .ambiguous(count: 2), .unknown] {
            #expect(error.refusal.code == .keyNotFound)
        }
        #expect(KeyLookupError.ambiguous(count: 2).refusal.message.contains("2 keys"))
        let index = KeyIndex()
        #expect(throws: KeyLookupError.unknown.refusal) { try index.entry(named: "0123456789abcdef") }
    }
}
