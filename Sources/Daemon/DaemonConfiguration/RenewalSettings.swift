import AuditChain
import ConfigurationFile
import PortalRequests

/// The section `renewal`: the team's key for Apple's App Store Connect API.
package struct RenewalSettings: Sendable, Equatable {
    /// The team's issuer and the key's identifier at Apple. The ledger records a service key under the identifier.
    var key: PortalKeyName
    /// The names of the nodes that must have proved a new key before a change at Apple; empty for every node of the ledger.
    package var nodes: Set<String> = []

    package var keyId: String { key.keyId }
}

extension RenewalSettings {
    private static let required = ["issuer", "key_id"]
    static let keys = required + ["nodes"]
    private static let maximumNodes = 1024

    /// Returns nil if the configuration has no such section, or if one of its values has a problem.
    init?(_ root: ConfigurationSection) {
        guard root.node("renewal") != nil else {
            if root.isEmpty("renewal") {
                root.problem("renewal", "has no value; name issuer and key_id, or leave it out")
            }
            return nil
        }
        let section = root.section("renewal", keys: Self.keys)
        for name in Self.required where section.text(name) == nil {
            section.problem(name, "is missing; App Store Connect shows it under Users and Access, Integrations")
        }
        guard let issuer = section.text("issuer"), let keyId = section.text("key_id") else { return nil }
        guard let key = PortalKeyName(issuer: issuer, keyId: keyId) else {
            let isIssuer = PortalKeyName(issuer: issuer, keyId: "A") == nil
            section.problem(isIssuer ? "issuer" : "key_id", "must be 1 to 64 letters, digits and hyphens")
            return nil
        }
        let named = section.texts("nodes")
        let nodes = (named ?? []).map(\.value)
        guard nodes.allSatisfy({ AuditNode($0) != nil }), Set(nodes).count == nodes.count,
            nodes.count <= Self.maximumNodes, named?.isEmpty != true
        else {
            section.problem("nodes", "must have the names of 1 to \(Self.maximumNodes) nodes of the ledger, each once")
            return nil
        }
        self.init(key: key, nodes: Set(nodes))
    }
}
