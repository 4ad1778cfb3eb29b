import Foundation

/// The certificates that one token's message carries, with the recipe's deviations.
struct SigningChain {
    /// The certificate of the genuine signer.
    let leaf: CertifiedKey
    /// What stands beside it.
    let issuer: CertifiedKey
    /// The self-made certificate that signs instead.
    let third: CertifiedKey?

    init(authority: ForgeAuthority, recipe: TokenRecipe) throws {
        let authority = recipe.has(.otherRoot) ? try ForgeAuthority(now: recipe.signingTime) : authority
        leaf =
            try Self.leafProfile(recipe).map { try authority.leaf(version: recipe.version, profile: $0) }
            ?? authority.leaf(version: recipe.version)
        issuer =
            if recipe.has(.leafIssuedByRoot) {
                authority.root
            } else {
                try Self.intermediateProfile(recipe).map { try authority.intermediate(profile: $0) }
                    ?? authority.intermediate
            }
        third = recipe.has(.thirdCertificateSigns) ? try Self.selfMade(like: leaf, recipe) : nil
    }

    private static func leafProfile(_ recipe: TokenRecipe) -> LeafProfile? {
        var profile = LeafProfile(now: recipe.signingTime)
        if recipe.has(.leafExpired) {
            profile.notAfter = recipe.signingTime.addingTimeInterval(-1)
        } else if recipe.has(.leafNotYetValid) {
            profile.notBefore = recipe.signingTime.addingTimeInterval(1)
        } else if recipe.has(.leafWithoutDigitalSignature) {
            profile.keyUsage = .keyAgreement
        } else if recipe.has(.leafIsCA) {
            profile.isCA = true
        } else if recipe.has(.leafIssuedByRoot) {
            profile.issuedByRoot = true
        } else if recipe.has(.leafWithForgedIssuerSignature) {
            profile.forgedIssuerSignature = true
        } else if recipe.has(.leafWithUnknownCriticalExtension) {
            profile.unknownCriticalExtension = true
        } else if recipe.has(.leafMarkerMissing) || recipe.has(.leafMarkerOnIntermediate) {
            profile.markers = []
        } else if recipe.has(.markersSwapped) {
            profile.markers = [OID.intermediateMarker]
        } else {
            return nil
        }
        return profile
    }

    private static func intermediateProfile(_ recipe: TokenRecipe) -> IntermediateProfile? {
        var profile = IntermediateProfile(now: recipe.signingTime)
        if recipe.has(.intermediateExpired) {
            profile.notAfter = recipe.signingTime.addingTimeInterval(-1)
        } else if recipe.has(.intermediateNotCA) {
            profile.isCA = false
        } else if recipe.has(.intermediateWithoutKeyCertSign) {
            profile.keyUsage = .cRLSign
        } else if recipe.has(.intermediateMarkerMissing) {
            profile.markers = []
        } else if recipe.has(.markersSwapped) {
            profile.markers = [OID.leafMarker]
        } else if recipe.has(.leafMarkerOnIntermediate) {
            profile.markers = [OID.intermediateMarker, OID.leafMarker]
        } else {
            return nil
        }
        return profile
    }

    /// A certificate that claims everything a leaf has, issued by nobody but itself.
    private static func selfMade(like leaf: CertifiedKey, _ recipe: TokenRecipe) throws -> CertifiedKey {
        let key = try ForgeKey(generating: recipe.isRSA ? .rsa2048 : .p256)
        let profile = LeafProfile(now: recipe.signingTime)
        return try CertifiedKey(
            ForgeAuthority.leafDraft(profile, key: key, issuer: leaf.issuer, issuerKey: key), key: key, signedBy: key)
    }
}
