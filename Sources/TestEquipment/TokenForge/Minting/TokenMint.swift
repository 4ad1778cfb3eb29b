import Crypto
import Foundation

/// Makes tokens under one authority.
public struct TokenMint: Sendable {
    public let authority: ForgeAuthority

    public init(authority: ForgeAuthority) { self.authority = authority }

    /// A token after `recipe`.
    public func mint(_ recipe: TokenRecipe) throws -> MintedToken {
        if let unfit = recipe.deviations.first(where: { !$0.applies(to: recipe.isRSA ? "RSA_v1" : "EC_v1") }) {
            throw ForgeFailure.recipe(
                "deviation \(unfit.rawValue) cannot be done to a token of version \(recipe.version)")
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
            // A lone continuation byte inside a string that is otherwise well formed.
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
            // For one x there are two y; neither is the other with its lowest bit flipped, whose sum p would be even.
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

/// The decoded parts that are signed together.
struct TokenParts {
    var keyMaterial: [UInt8]
    var data: [UInt8]
    var transactionIdentifier: [UInt8]
    var applicationDataHash: [UInt8]?

    var signedContent: [UInt8] { keyMaterial + data + transactionIdentifier + (applicationDataHash ?? []) }
}
