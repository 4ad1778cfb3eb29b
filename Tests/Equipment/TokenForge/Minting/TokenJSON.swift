import Foundation

/// The JSON dictionaries of a payment token. They are written member by member, so that duplicate members and unusual
/// notations are possible.
struct TokenJSON {
    let recipe: TokenRecipe
    let parts: TokenParts
    let signature: [UInt8]

    /// The `paymentData` dictionary, with members in the order of Apple's recent payment tokens.
    var paymentData: String {
        var members = [member("data", base64(parts.data)), member("signature", signatureText)]
        if !recipe.has(.headerMissing) { members.append("\"header\":{\(header.joined(separator: ","))}") }
        members.append(member("version", recipe.has(.unsupportedVersion) ? "EC_v2" : recipe.version))
        if recipe.has(.unknownMembers) { members.append("\"forgeNote\":{\"nested\":[1,2,{\"deep\":null}]}") }
        return "{\(members.joined(separator: ","))}"
    }

    /// The PKPaymentToken dictionary.
    var paymentToken: String {
        var outer = parts.transactionIdentifier
        if recipe.has(.outerTransactionIdentifierDiffers) { outer[31] ^= 1 }
        let method = "{\"displayName\":\"Visa 0004\",\"network\":\"Visa\",\"type\":\"debit\"}"
        let note = recipe.has(.unknownMembers) ? ",\"forgeNote\":true" : ""
        return "{\"paymentData\":\(paymentData),\"paymentMethod\":\(method),"
            + "\(member("transactionIdentifier", hex(outer)))\(note)}"
    }

    private var header: [String] {
        var hash = recipe.merchant.publicKeyHash
        if recipe.has(.unknownPublicKeyHash) { hash[0] ^= 1 }
        if recipe.has(.publicKeyHashTooShort) { hash.removeLast() }
        var members = [member("publicKeyHash", base64(hash))]
        if recipe.has(.duplicateHeaderMember) { members.append(member("publicKeyHash", base64(hash))) }
        let ownName = recipe.isRSA ? "wrappedKey" : "ephemeralPublicKey"
        if !recipe.has(.noKeyMaterial) { members.append(member(ownName, base64(parts.keyMaterial))) }
        if recipe.has(.bothKeyMaterials) {
            members.append(member(recipe.isRSA ? "ephemeralPublicKey" : "wrappedKey", base64(parts.keyMaterial)))
        }
        let identifier = hex(parts.transactionIdentifier)
        members.append(
            member(
                "transactionId", recipe.has(.transactionIdentifierNotHex) ? "x" + identifier.dropFirst() : identifier))
        if let hash = parts.applicationDataHash {
            members.append(member("applicationData", recipe.has(.applicationDataBase64) ? base64(hash) : hex(hash)))
        } else if recipe.has(.applicationDataBase64) {
            members.append(member("applicationData", base64([UInt8](repeating: 1, count: 32))))
        }
        if recipe.has(.unknownMembers) { members.append("\"forgeNote\":\"header\"") }
        return members
    }

    private var signatureText: String {
        recipe.has(.signatureNotBase64) ? "*" + base64(signature).dropFirst() : base64(signature)
    }

    private func member(_ name: String, _ value: String) -> String { "\"\(name)\":\(JSONText.string(value))" }

    private func base64(_ bytes: [UInt8]) -> String {
        let text = Data(bytes).base64EncodedString()
        return recipe.wire.unpaddedBase64 ? text.replacing("=", with: "") : text
    }

    private func hex(_ bytes: [UInt8]) -> String {
        bytes.map(recipe.wire.upperCaseHex ? HexCase.upper : HexCase.lower).joined()
    }
}

/// The decoded parts of a payment token that the signature covers.
struct TokenParts {
    var keyMaterial: [UInt8]
    var data: [UInt8]
    var transactionIdentifier: [UInt8]
    var applicationDataHash: [UInt8]?

    var signedContent: [UInt8] { keyMaterial + data + transactionIdentifier + (applicationDataHash ?? []) }
}
