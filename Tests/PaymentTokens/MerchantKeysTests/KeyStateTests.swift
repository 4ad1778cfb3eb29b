import Foundation
import MerchantKeys
import Testing

@Suite("Key states")
struct KeyStateTests {
    @Test("Permits exactly the transitions of SP 800-57")
    func transitions() {
        let permitted: [KeyState: Set<KeyState>] = [
            .preActivation: [.active, .compromised, .destroyed],
            .active: [.suspended, .deactivated, .compromised],
            .deactivated: [.suspended, .compromised, .destroyed],
            .suspended: [.active, .deactivated, .compromised, .destroyed],
            .compromised: [.destroyed],
            .destroyed: [],
        ]
        for from in KeyState.allCases {
            for to in KeyState.allCases {
                #expect(from.canBecome(to) == permitted[from]?.contains(to), "\(from) to \(to)")
            }
        }
    }

    @Test("Permits decryption with active keys, and with deactivated ones before their cut-off")
    func decrypts() {
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        for state in KeyState.allCases {
            #expect(state.decrypts(at: now, cutOff: nil) == (state == .active), "\(state)")
            #expect(state.decrypts(at: now, cutOff: now + 1) == (state == .active || state == .deactivated), "\(state)")
            #expect(state.decrypts(at: now, cutOff: now) == (state == .active), "\(state)")
        }
    }

    @Test("Names the states as SP 800-57 does")
    func names() {
        #expect(
            KeyState.allCases.map(\.rawValue)
                == ["pre-activation", "active", "deactivated", "suspended", "compromised", "destroyed"])
    }
}
