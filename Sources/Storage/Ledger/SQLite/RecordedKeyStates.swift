import AuditChain
import MerchantKeys

/// The state in which a record leaves each key.
///
/// Keys' states are rows, which no hash covers. What changed them is recorded, so a row that lets a key do more was written by
/// somebody else. A key that never changed by a `key_state_change`, and that stands in no `key_states`, is not looked at: its arrival
/// is an event of its own.
struct RecordedKeyStates {
    private var states: [AuditDigest: KeyState] = [:]

    mutating func take(_ entry: AuditEntry) {
        // What the archived records had left them in.
        if let part = KeyStatesPart(entry) {
            for (key, state) in part.states { states[key] = KeyState(rawValue: state.rawValue) }
        }
        guard entry.event == AuditEvent.Name.keyStateChange.rawValue, entry.outcome == AuditOutcome.ok.text,
            let key = entry.publicKeyHash, let state = entry.details["to"]?.stringValue.flatMap(KeyState.init)
        else { return }
        states[key] = state
    }

    /// The first key, by its hash in Base64, whose row lets it do more than its record.
    func contradicted(by rows: [KeyRecord]) -> String? {
        rows.first { row in
            guard let digest = AuditDigest(bytes: row.publicKeyHash.bytes), let recorded = states[digest] else {
                return false
            }
            return Self.freedom(row.state) > Self.freedom(recorded)
        }?.publicKeyHash.base64
    }

    /// The more a key may do now or after one more step, the higher.
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
