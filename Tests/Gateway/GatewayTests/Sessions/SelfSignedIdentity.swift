import TokenForge

/// A merchant's identity whose certificate a new authority has issued, so that no simulated Apple accepts it.
enum SelfSignedIdentity {
    static func key() throws -> SoftwareIdentities.Key {
        try SoftwareIdentities.Key(merchant: SoftwareIdentities.merchantIdentifier, authority: ForgeAuthority())
    }
}
