import AuditChain
import MerchantKeys

/// The last recorded state of each key.
///
/// Key states are rows, which no hash covers. Every change is recorded, so a row that permits more than the record was
/// written by another program. A key without a `key_state_change`, and missing from all `key_states`, is not checked:
/// its arrival is another event.
struct RecordedKeyStates {
    private var states: [AuditDigest: KeyState] = [:]

    mutating func take(_ entry: AuditEntry) {
        // The states that the archived records had left.
        if let part = KeyStatesPart(entry) {
            for (key, state) in part.states { states[key] = KeyState(rawValue: state.rawValue) }
        }
        guard entry.event == AuditEvent.Name.keyStateChange.rawValue, entry.outcome == AuditOutcome.ok.text,
            let key = entry.publicKeyHash, let state = entry.details["to"]?.stringValue.flatMap(KeyState.init)
        else { return }
        states[key] = state
    }

    /// Returns the first key, in Base64, whose row permits more than its record; nil if there is none.
    func contradicted(by rows: [KeyRecord]) -> String? {
        rows.first { row in
            guard let digest = AuditDigest(bytes: row.publicKeyHash.bytes), let recorded = states[digest] else {
                return false
            }
            return Self.freedom(row.state) > Self.freedom(recorded)
        }?.publicKeyHash.base64
    }

    /// Ranks a state: higher if the key may do more, now or after one more step.
    private static func freedom(_ state: KeyState) -> Int {
        switch state {
        case .destroyed: 0
        case .compromised: 1
        case .preActivation, .suspended: 2
        case .deactivated: 3
        case .active: 4
        }
    }
}
