import Foundation
import Testing
import TokenForge

@Suite struct PayloadTests {
    private func object(_ recipe: PayloadRecipe) throws -> [String: Any] {
        try #require(JSONSerialization.jsonObject(with: Data(recipe.json)) as? [String: Any])
    }

    @Test("a 3DSecure payload has the members of Apple's table, the amount as it was written")
    func threeDSecure() throws {
        var recipe = PayloadRecipe()
        recipe.amount = "10.90"
        recipe.cardholderName = "A \"B\" \\ C"
        let payload = try object(recipe)
        #expect(payload["paymentDataType"] as? String == "3DSecure")
        #expect(payload["cardholderName"] as? String == "A \"B\" \\ C")
        #expect(String(decoding: recipe.json, as: UTF8.self).contains("\"transactionAmount\":10.90,"))
        let detail = try #require(payload["paymentData"] as? [String: Any])
        #expect(Set(detail.keys) == ["onlinePaymentCryptogram", "eciIndicator"])
    }

    @Test("an EMV payload has emvData and, if asked for, the encrypted PIN")
    func emv() throws {
        var recipe = PayloadRecipe(.emv)
        recipe.encryptedPINData = "00FF"
        let detail = try #require(try object(recipe)["paymentData"] as? [String: Any])
        #expect(Set(detail.keys) == ["emvData", "encryptedPINData"])
    }

    @Test("merchant tokens and authentication responses are there when asked for")
    func merchantTokens() throws {
        var recipe = PayloadRecipe()
        recipe.merchantTokenIdentifier = "DNITHE001"
        recipe.authenticationResponses = [("sub.one", "Y3J5cHQ=", "5.00"), ("sub.two", "Z3J5cHQ=", "5.99")]
        recipe.extraMembers = ["\"tomorrow\":{\"a\":[1]}"]
        let payload = try object(recipe)
        #expect((payload["authenticationResponses"] as? [Any])?.count == 2)
        #expect(payload["merchantTokenIdentifier"] as? String == "DNITHE001")
        #expect(payload["tomorrow"] != nil)
    }

    @Test("every secret of a payload stands in its bytes, so that a search for leaks can find it")
    func secrets() {
        var recipe = PayloadRecipe(.emv)
        recipe.encryptedPINData = "0123456789ABCDEF"
        recipe.authenticationResponses = [("sub", "Y3J5cHQ=", "5.00")]
        let text = String(decoding: recipe.json, as: UTF8.self)
        for secret in recipe.secrets { #expect(text.contains(secret)) }
        #expect(recipe.secrets.count == 4)
    }
}
