import TokenForge

/// A merchant's identity from its own authority, which no simulated Apple knows.
enum SelfSignedIdentity {
    static func key() throws -> SoftwareIdentities.Key {
        try SoftwareIdentities.Key(merchant: SoftwareIdentities.merchantIdentifier, authority: ForgeAuthority())
    }
}
