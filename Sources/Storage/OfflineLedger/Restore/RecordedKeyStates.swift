import AuditChain
import Ledger
import MerchantKeys
import PostgreSQLLedger
import SQLiteLedger

/// The last recorded state of each key.
///
/// Key states are rows, which no hash covers. Every change is recorded, so if a row permits more than the record,
/// another program wrote it. A key without a `key_state_change` or `key_states` record is not checked, since records of
/// its import or generation contain no state. Google Pay keys are the exception: each of them arrives waiting.
struct RecordedKeyStates {
    private var states: [AuditDigest: KeyState] = [:]

    mutating func take(_ entry: AuditEntry) {
        // A `key_states` record contains the states that resulted from archived records.
        if let part = KeyStatesPart(entry) {
            for (key, state) in part.states { states[key] = KeyState(rawValue: state.rawValue) }
        }
        guard entry.outcome == AuditOutcome.ok.text, let key = entry.publicKeyHash else { return }
        switch AuditEvent.Name(rawValue: entry.event) {
        case .keyStateChange:
            if let state = entry.details["to"]?.stringValue.flatMap(KeyState.init) { states[key] = state }
        case .certificateImport: activate(key)
        case .keyGenerate, .keyImport, .keyAdopt:
            if entry.namesGooglePay {
                states[key] = states[key] ?? .preActivation
            } else if entry.details["certificateSha256"] != nil {
                activate(key)
            }
        default: break
        }
    }

    /// An import of a certificate makes a waiting key active in the transaction of its record, which does not name the
    /// state.
    private mutating func activate(_ key: AuditDigest) {
        if states[key] == .preActivation { states[key] = .active }
    }

    /// Returns the first key, in Base64, whose row permits more than its record; nil if there is none.
    func contradicted(by rows: [KeyRecord]) -> String? {
        rows.first { row in
            guard let digest = AuditDigest(bytes: row.publicKeyHash.bytes), let recorded = states[digest] else {
                return false
            }
            return Self.permissiveness(row.state) > Self.permissiveness(recorded)
        }?.publicKeyHash.base64
    }

    /// Returns the state's rank. A higher rank permits more operations with the key, now or after one further change of
    /// state.
    private static func permissiveness(_ state: KeyState) -> Int {
        switch state {
        case .destroyed: 0
        case .compromised: 1
        case .preActivation, .suspended: 2
        case .deactivated: 3
        case .active: 4
        }
    }
}
