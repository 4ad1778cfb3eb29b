import AccessControl
import Ledger

extension PeerCredentials {
    /// The identities by which approvals tell persons apart; nil for an unknown person, who can neither request nor approve.
    var person: PersonIdentities? {
        switch loginUID {
        case .set(let loginUID): PersonIdentities(uid: uid, loginUID: loginUID)
        case .unset: PersonIdentities(uid: uid)
        case .unreadable: nil
        }
    }
}
