import DaemonConfiguration
import MerchantKeys

/// The insecure setting `portal_key_beside_merchant_keys`: this node can use the key of Apple's API, and merchants'
/// keys too. A person in control of the node then has both.
///
/// It depends on the keys that the HSM tokens show, so it is known only while the daemon runs.
struct PortalKeyPlace: Sendable {
    static let setting = "portal_key_beside_merchant_keys"

    /// The warning for the status; nil if the setting is not in force.
    let warning: String?

    init(_ keys: some Collection<KeyEntry>, _ access: AccessPolicy) {
        func isHere(_ key: KeyEntry) -> Bool { !key.hsmTokens.isEmpty && key.state.canStillDecrypt }
        guard keys.contains(where: { $0.use == .service && isHere($0) }) else {
            warning = nil
            return
        }
        if keys.contains(where: { $0.use != .service && isHere($0) }) {
            warning =
                "The key of Apple's API is on a node whose HSM tokens hold merchants' keys; import it on a node without any."
        } else if access.permitsDecryption {
            warning =
                "The key of Apple's API is on a node whose access rules give the role decrypt; leave such rules out there."
        } else {
            warning = nil
        }
    }
}
