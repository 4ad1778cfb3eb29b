// Test equipment, which no installed program links. TokenForge takes the part of Apple and the Secure Element: it
// certifies merchants, and mints genuine payment tokens and ones with exactly one fault. It does so under a separate
// root, which no program trusts by default.
//
// It shares no code with the tested programs. DER, PEM, the KDF, OAEP and JSON are implemented a second time here, so
// that an error in paytokend cannot be hidden by the same error in its tests. Start with `mint` below, which makes a
// payment token from a `TokenRecipe`, with its `Merchant` and `Deviation`s, under a `ForgeAuthority`. `TokenOpener`
// decrypts payment tokens in software.

import Crypto
public import Foundation

/// Makes payment tokens under one authority.
public struct TokenMint: Sendable {
    public let authority: ForgeAuthority

    public init(authority: ForgeAuthority) { self.authority = authority }

    /// Makes the payment token that `recipe` describes.
    public func mint(_ recipe: TokenRecipe) throws -> MintedToken {
        if let unsuitable = recipe.deviations.first(where: { !$0.applies(to: recipe.isRSA ? "RSA_v1" : "EC_v1") }) {
            throw ForgeFailure.recipe(
                "deviation \(unsuitable.rawValue) does not apply to a token of version \(recipe.version)")
        }
        let plaintext = plaintext(recipe)
        let sealed = try seal(plaintext, recipe)
        var parts = TokenParts(
            keyMaterial: sealed.keyMaterial, data: sealed.data, transactionIdentifier: recipe.transactionIdentifier,
            applicationDataHash: recipe.applicationData.map { Array(SHA256.hash(data: $0)) })
        let signedContent = recipe.has(.otherContent) ? parts.signedContent + [0] : parts.signedContent
        let signature = try MessageSigner(authority: authority, recipe: recipe).signature(of: signedContent)
        try changeAfterSigning(&parts, recipe)
        let json = TokenJSON(recipe: recipe, parts: parts, signature: signature)
        return MintedToken(
            version: recipe.version, plaintext: plaintext,
            transactionIdentifier: parts.transactionIdentifier.map(HexCase.lower).joined(),
            publicKeyHash: recipe.merchant.publicKeyHash, signingTime: recipe.signingTime,
            signedContent: parts.signedContent, signature: signature,
            certificates: [authority.leaf(version: recipe.version).certificate, authority.intermediate.certificate],
            paymentData: Array(json.paymentData.utf8), paymentToken: Array(json.paymentToken.utf8))
    }

    private func plaintext(_ recipe: TokenRecipe) -> [UInt8] {
        let payload = recipe.payload
        return if recipe.has(.plaintextEmpty) {
            []
        } else if recipe.has(.plaintextNotJSON) {
            Array("applicationPrimaryAccountNumber=none".utf8)
        } else if recipe.has(.plaintextNotUTF8) {
            // The byte 0x80 is a UTF-8 continuation byte without a first byte. The JSON is otherwise well formed.
            Array(payload.dropLast()) + Array(",\"note\":\"".utf8) + [0x80] + Array("\"}".utf8)
        } else if recipe.has(.plaintextArray) {
            Array("[".utf8) + payload + Array("]".utf8)
        } else if recipe.has(.plaintextDuplicateMember) {
            Array(payload.dropLast()) + Array(",\"transactionAmount\":1}".utf8)
        } else if recipe.has(.plaintextTwoValues) {
            payload + payload
        } else {
            payload
        }
    }

    private func seal(_ plaintext: [UInt8], _ recipe: TokenRecipe) throws -> PaymentSealing.Sealed {
        var sealed: PaymentSealing.Sealed
        if recipe.isRSA {
            sealed = try PaymentSealing.rsaV1(plaintext, merchant: recipe.merchant) { try wrap($0, recipe) }
            if recipe.has(.wrappedKeyTruncated) { sealed.keyMaterial.removeLast() }
        } else {
            let identifier = recipe.merchant.identifier + (recipe.has(.otherMerchantIdentifier) ? ".other" : "")
            sealed = try PaymentSealing.ecV1(
                plaintext, merchant: recipe.merchant, merchantIdentifier: identifier,
                leadingZero: recipe.leadingZeroSharedSecret)
            if let point = deviantPoint(recipe, Array(sealed.keyMaterial.suffix(65))) {
                sealed.keyMaterial = PaymentSealing.ephemeralKeyInfo(point: point)
            }
        }
        if recipe.has(.badTag) { sealed.data[sealed.data.count - 1] ^= 1 }
        if recipe.has(.dataShorterThanTag) { sealed.data = Array(sealed.data.prefix(15)) }
        return sealed
    }

    private func deviantPoint(_ recipe: TokenRecipe, _ point: [UInt8]) -> [UInt8]? {
        if recipe.has(.pointOffCurve) {
            // The only other point of the curve with this x has p − y as its y coordinate. Flipping the lowest bit of y
            // gives p − y only if y is (p ± 1) / 2, which does not happen by chance.
            return Array(point.dropLast()) + [point[64] ^ 1]
        }
        if recipe.has(.pointCompressed) { return [point[64] & 1 == 1 ? 0x03 : 0x02] + point[1..<33] }
        if recipe.has(.pointAtInfinity) { return [0x00] }
        return nil
    }

    private func wrap(_ key: [UInt8], _ recipe: TokenRecipe) throws -> [UInt8] {
        let spki = recipe.merchant.subjectPublicKeyInfo
        var oaep = RSAOAEP()
        if recipe.has(.wrappedKeyWithLabel) {
            oaep.label = Array("Apple".utf8)
        } else if recipe.has(.wrappedKeyWithSHA1) {
            (oaep.digest, oaep.maskDigest) = (.sha1, .sha1)
        } else if recipe.has(.wrappedKeyWithMaskSHA1) {
            oaep.maskDigest = .sha1
        } else if recipe.has(.wrappedKeyWithFirstOctet) {
            oaep.firstOctet = 1
        } else if recipe.has(.wrappedKeyOf32Bytes) {
            return try PaymentSealing.wrap(key + key, to: recipe.merchant)
        } else if recipe.has(.wrappedKeyWithPKCS1) {
            return try PaymentSealing.wrapWithPKCS1(key, to: recipe.merchant)
        } else if recipe.has(.wrappedKeyForOtherKey) {
            let other = Merchant(identifier: "", subjectPublicKeyInfo: authority.leafRSA.key.subjectPublicKeyInfo)
            return try PaymentSealing.wrap(key, to: other)
        } else {
            return try PaymentSealing.wrap(key, to: recipe.merchant)
        }
        return try oaep.encrypt(key, to: spki)
    }

    private func changeAfterSigning(_ parts: inout TokenParts, _ recipe: TokenRecipe) throws {
        if recipe.has(.dataChanged) { parts.data[0] ^= 1 }
        if recipe.has(.keyMaterialChanged) { parts.keyMaterial = try seal(plaintext(recipe), recipe).keyMaterial }
        if recipe.has(.transactionIdentifierChanged) { parts.transactionIdentifier[0] ^= 1 }
        if recipe.has(.applicationDataAdded) { parts.applicationDataHash = Array(SHA256.hash(data: [1])) }
        if recipe.has(.applicationDataRemoved) {
            guard parts.applicationDataHash != nil else {
                throw ForgeFailure.recipe("application-data-removed needs a recipe with applicationData")
            }
            parts.applicationDataHash = nil
        }
        if recipe.has(.applicationDataChanged) { parts.applicationDataHash = Array(SHA256.hash(data: [2])) }
    }
}

/// A minted payment token: its parts, and the JSON as a device sends it.
public struct MintedToken: Sendable {
    public let version: String
    /// The plaintext that a decryption must return.
    public let plaintext: [UInt8]
    /// The transactionId in 64 lower-case hexadecimal digits.
    public let transactionIdentifier: String
    /// The publicKeyHash, 32 bytes.
    public let publicKeyHash: [UInt8]
    public let signingTime: Date
    /// The bytes that the signature covers: (ephemeralPublicKey | wrappedKey) ‖ data ‖ transactionId ‖ applicationData.
    public let signedContent: [UInt8]
    /// The CMS message.
    public let signature: [UInt8]
    /// The certificates of a genuine message in DER: leaf, then intermediate.
    public let certificates: [[UInt8]]
    /// The `paymentData` dictionary.
    public let paymentData: [UInt8]
    /// The complete PKPaymentToken: paymentData, paymentMethod, transactionIdentifier.
    public let paymentToken: [UInt8]

    /// Returns a body for `POST /v1/decrypt`.
    ///
    /// - Parameters:
    ///   - expected: the member `expected` as JSON text; nil to omit it.
    ///   - reference: the caller's reference.
    ///   - attempt: the caller's name for this attempt.
    ///   - after: the names of the attempts that this one may follow; nil to omit the member.
    ///   - whole: true to send the complete PKPaymentToken; false to send only its paymentData.
    public func decryptBody(
        expected: String? = nil, reference: String? = nil, attempt: String? = nil, after: [String]? = nil,
        merchants: [String]? = nil, whole: Bool = true
    ) -> [UInt8] {
        var body = Array("{\"token\":".utf8) + (whole ? paymentToken : paymentData)
        if let expected { body += Array(",\"expected\":\(expected)".utf8) }
        if let reference { body += Array(",\"reference\":\(JSONText.string(reference))".utf8) }
        if let attempt { body += Array(",\"attempt\":\(JSONText.string(attempt))".utf8) }
        if let after { body += Array(",\"after\":[\(after.map(JSONText.string).joined(separator: ","))]".utf8) }
        if let merchants {
            body += Array(",\"merchants\":[\(merchants.map(JSONText.string).joined(separator: ","))]".utf8)
        }
        return body + [UInt8(ascii: "}")]
    }

    /// Returns a body for `POST /v1/verify`. `time` is in RFC 3339; nil to omit it.
    public func verifyBody(at time: String? = nil) -> [UInt8] {
        var body = Array("{\"token\":".utf8) + paymentToken
        if let time { body += Array(",\"at\":\(JSONText.string(time))".utf8) }
        return body + [UInt8(ascii: "}")]
    }
}

/// The reason why a payment token or a certificate could not be made.
public enum ForgeFailure: Error, Equatable, CustomStringConvertible {
    /// A file that cannot be read or written, or has unexpected content.
    case file(path: String, reason: String)
    /// A key that is neither P-256, P-384 nor RSA.
    case key(String)
    /// A certificate or certificate request that cannot be read, or names no merchant.
    case certificate(String)
    /// A recipe that cannot be followed, such as an EC_v1 payment token for an RSA key.
    case recipe(String)

    public var description: String {
        switch self {
        case .file(let path, let reason): "\(path): \(reason)"
        case .key(let reason), .certificate(let reason), .recipe(let reason): reason
        }
    }
}
