import Crypto
import Foundation

/// Signs a payment token's content as a detached CMS message, with the recipe's deviations.
struct MessageSigner {
    let authority: ForgeAuthority
    let recipe: TokenRecipe

    /// Returns the CMS message over `content`, in BER or DER.
    func signature(of content: [UInt8]) throws -> [UInt8] {
        if recipe.has(.notCMS) { return Array("not a CMS message".utf8) }
        let chain = try SigningChain(authority: authority, recipe: recipe)
        let digestAlgorithm = SignedDataDraft.algorithm(
            recipe.has(.digestSHA1) ? OID.sha1 : OID.sha256, null: recipe.wire.digestParametersNull)
        // The digest covers the content inside the message if the message has one.
        let signedBytes = recipe.has(.encapsulatedContent) ? Array("another content".utf8) : content
        var signers: [SignerInfoDraft] = []
        if !recipe.has(.noSigner) {
            let signer = try signerInfo(chain, digestAlgorithm, signedBytes)
            signers =
                recipe.has(.twoSigners) ? [signer, try signerInfo(chain, digestAlgorithm, signedBytes)] : [signer]
        }
        let draft = SignedDataDraft(
            version: recipe.has(.signerByKeyIdentifier) ? 3 : 1, digestAlgorithms: [digestAlgorithm],
            encapsulatedContent: recipe.has(.encapsulatedContent) ? signedBytes : nil,
            certificates: certificates(chain), revocationLists: recipe.has(.revocationLists) ? [try emptyList()] : [],
            signerInfos: signers)
        var message = draft.encoded(indefiniteLengths: recipe.wire.indefiniteLengths)
        if recipe.has(.truncatedSignature) { message.removeLast(20) }
        if recipe.has(.trailingBytes) { message += [0x05, 0x00] }
        return message
    }

    private func certificates(_ chain: SigningChain) -> [[UInt8]] {
        if recipe.has(.noCertificates) { return [] }
        if recipe.has(.onlyLeafCertificate) { return [chain.leaf.certificate] }
        var certificates = [chain.leaf.certificate, chain.issuer.certificate]
        if recipe.wire.issuerFirst { certificates.reverse() }
        if recipe.has(.duplicateCertificate) { certificates.append(chain.leaf.certificate) }
        if recipe.has(.rootCertificateIncluded) { certificates.append(authority.root.certificate) }
        if let third = chain.third { certificates.append(third.certificate) }
        return certificates
    }

    private func signerInfo(
        _ chain: SigningChain, _ digestAlgorithm: [UInt8], _ content: [UInt8]
    ) throws -> SignerInfoDraft {
        let signer = chain.third ?? chain.leaf
        let key =
            recipe.has(.signatureByOtherKey) ? try ForgeKey(generating: recipe.isRSA ? .rsa2048 : .p256) : signer.key
        let signatureAlgorithm = signatureAlgorithm(of: signer.key)
        let attributes = attributes(content, digestAlgorithm, signatureAlgorithm)
        let toBeSigned = attributes.map { DEREncoder.set(of: $0) } ?? content
        var signature =
            try recipe.has(.digestSHA1)
            ? key.signatureWithSHA1(of: toBeSigned) : key.signature(of: toBeSigned)
        // Flipping the last bit leaves the signature well formed, but invalid.
        if recipe.has(.flippedSignature) { signature[signature.count - 1] ^= 1 }
        return SignerInfoDraft(
            version: recipe.has(.signerByKeyIdentifier) ? 3 : 1, identifier: identifier(of: signer),
            digestAlgorithm: digestAlgorithm, signedAttributes: attributes, signatureAlgorithm: signatureAlgorithm,
            signature: signature)
    }

    /// Returns the signer's identifier (RFC 5652 §5.3): issuerAndSerialNumber, or subjectKeyIdentifier as [0].
    private func identifier(of signer: CertifiedKey) -> [UInt8] {
        if recipe.has(.signerByKeyIdentifier) { return DEREncoder.element(0x80, signer.key.keyIdentifier) }
        let serial = recipe.has(.signerNotAmongCertificates) ? [0x11] + signer.serialNumber : signer.serialNumber
        return DEREncoder.sequence(signer.issuer.encoded, DEREncoder.integer(serial))
    }

    private func signatureAlgorithm(of key: ForgeKey) -> [UInt8] {
        if case .rsa = key {
            if recipe.wire.rsaEncryptionAlgorithm { return SignedDataDraft.algorithm(OID.rsaEncryption, null: true) }
            if recipe.has(.digestSHA1) { return SignedDataDraft.algorithm(OID.sha1WithRSAEncryption, null: true) }
        } else if recipe.has(.digestSHA1) {
            return SignedDataDraft.algorithm(OID.ecdsaWithSHA1, null: false)
        }
        return key.signatureAlgorithm
    }

    private func attributes(
        _ content: [UInt8], _ digestAlgorithm: [UInt8], _ signatureAlgorithm: [UInt8]
    ) -> [[UInt8]]? {
        if recipe.has(.noSignedAttributes) { return nil }
        let type = DEREncoder.objectIdentifier(recipe.has(.wrongContentType) ? OID.signedData : OID.data)
        let right = digest(content)
        let wrong = digest(content + [1])
        // The wrong digest sorts after the right one in the SET OF, so a reader that uses only the first value accepts
        // it.
        let second = DEREncoder.octetString([UInt8](repeating: 0xff, count: 32))
        func attribute(_ time: Date) -> [UInt8] {
            SignedDataDraft.attribute(
                OID.signingTime,
                recipe.has(.generalizedSigningTime) ? DEREncoder.generalizedTime(time) : DEREncoder.time(time))
        }
        var attributes: [[UInt8]] = []
        if !recipe.has(.missingContentType) { attributes.append(SignedDataDraft.attribute(OID.contentType, type)) }
        if recipe.has(.duplicateContentType) { attributes.append(SignedDataDraft.attribute(OID.contentType, type)) }
        if !recipe.has(.missingSigningTime) { attributes.append(attribute(recipe.signingTime)) }
        if recipe.has(.duplicateSigningTime) {
            attributes.append(attribute(recipe.signingTime.addingTimeInterval(3600)))
        }
        if recipe.wire.algorithmProtection || recipe.has(.algorithmProtectionMismatch) {
            let protected =
                recipe.has(.algorithmProtectionMismatch)
                ? SignedDataDraft.algorithm(OID.sha1, null: recipe.wire.digestParametersNull) : digestAlgorithm
            // CMSAlgorithmProtection has the digest's AlgorithmIdentifier, and the signature's as [1] IMPLICIT (RFC
            // 6211 §2).
            let tagged = [0xa1] + signatureAlgorithm.dropFirst()
            attributes.append(
                SignedDataDraft.attribute(OID.algorithmProtection, DEREncoder.sequence(protected, tagged)))
        }
        if recipe.has(.twoMessageDigestValues) {
            attributes.append(SignedDataDraft.attribute(OID.messageDigest, right, second))
        } else if !recipe.has(.missingMessageDigest) {
            attributes.append(
                SignedDataDraft.attribute(OID.messageDigest, recipe.has(.wrongMessageDigest) ? wrong : right))
        }
        if recipe.has(.duplicateMessageDigest) {
            attributes.append(SignedDataDraft.attribute(OID.messageDigest, second))
        }
        return attributes
    }

    private func digest(_ bytes: [UInt8]) -> [UInt8] {
        DEREncoder.octetString(
            recipe.has(.digestSHA1)
                ? Array(Insecure.SHA1.hash(data: bytes)) : Array(SHA256.hash(data: bytes)))
    }

    /// Returns a CertificateList without entries (RFC 5280 §5.1), signed by the intermediate.
    private func emptyList() throws -> [UInt8] {
        let key = authority.intermediate.key
        let toBeSigned = DEREncoder.sequence(
            DEREncoder.integer(1), key.signatureAlgorithm, authority.intermediate.subject.encoded,
            DEREncoder.time(recipe.signingTime))
        return DEREncoder.sequence(
            toBeSigned, key.signatureAlgorithm, DEREncoder.bitString(try key.signature(of: toBeSigned)))
    }
}

/// The certificates in the message of a payment token, with the recipe's deviations.
struct SigningChain {
    /// The certificate of the genuine signer.
    let leaf: CertifiedKey
    /// The issuer's certificate, which is the other one in the message.
    let issuer: CertifiedKey
    /// The self-signed certificate whose key signs instead of the leaf's; nil without such a deviation.
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

    /// Returns a self-signed certificate with the same attributes as `leaf`.
    private static func selfMade(like leaf: CertifiedKey, _ recipe: TokenRecipe) throws -> CertifiedKey {
        let key = try ForgeKey(generating: recipe.isRSA ? .rsa2048 : .p256)
        let profile = LeafProfile(now: recipe.signingTime)
        return try CertifiedKey(
            ForgeAuthority.leafDraft(profile, key: key, issuer: leaf.issuer, issuerKey: key), key: key, signedBy: key)
    }
}
