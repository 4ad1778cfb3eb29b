import TokenForge

/// A merchant's identity of an authority of its own, which no simulated Apple knows.
enum SelfSignedIdentity {
    static func key() throws -> SoftwareIdentities.Key {
        try SoftwareIdentities.Key(merchant: SoftwareIdentities.merchantIdentifier, authority: ForgeAuthority())
    }
}
