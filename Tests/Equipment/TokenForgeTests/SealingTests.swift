import Crypto
import CryptoExtras
import Foundation
import TestSupport
import Testing

@testable import TokenForge

/// Decrypts minted payment tokens with the openssl command and swift-crypto, by the steps of Apple's "Restoring the
/// symmetric key".
@Suite struct SealingTests {
    /// Returns the header and the data of a payment token's JSON, which Foundation parses.
    private func parts(_ paymentToken: MintedToken) throws -> (header: [String: Any], data: Data) {
        let object = try #require(JSONSerialization.jsonObject(with: Data(paymentToken.paymentData)) as? [String: Any])
        let header = try #require(object["header"] as? [String: Any])
        return (header, try #require((object["data"] as? String).flatMap { Data(base64Encoded: $0) }))
    }

    private func open(_ data: Data, key: SymmetricKey) throws -> [UInt8] {
        let box = try AES.GCM.SealedBox(
            nonce: AES.GCM.Nonce(data: [UInt8](repeating: 0, count: 16)), ciphertext: data.dropLast(16),
            tag: data.suffix(16))
        return Array(try AES.GCM.open(box, using: key))
    }

    @Test("makes an EC_v1 payment token that opens with openssl's shared secret and Apple's KDF")
    func opensEC() async throws {
        let merchant = try SharedForge.ecMerchant
        let paymentToken = try SharedForge.paymentToken(for: merchant.merchant)
        let (header, data) = try parts(paymentToken)
        let ephemeral = try #require((header["ephemeralPublicKey"] as? String).flatMap { Data(base64Encoded: $0) })
        let files = try FreshDirectory()
        try files.write(merchant.key.pem, to: "key.pem")
        try files.write(ForgePEM.text(Array(ephemeral), label: "PUBLIC KEY"), to: "peer.pem")
        let derived = try await Program.run(
            Program.installed("openssl"),
            ["pkeyutl", "-derive", "-inkey", files.path("key.pem"), "-peerkey", files.path("peer.pem")])
        #expect(derived.outputBytes.count == 32)
        let info = Array("\u{0d}id-aes256-GCMApple".utf8) + SHA256.hash(data: Array(merchant.merchant.identifier.utf8))
        let key = SymmetricKey(data: SHA256.hash(data: [0, 0, 0, 1] + derived.outputBytes + info))
        #expect(try open(data, key: key) == paymentToken.plaintext)
    }

    @Test("makes an RSA_v1 payment token that opens with the key that openssl unwraps")
    func opensRSA() async throws {
        let merchant = try SharedForge.rsaMerchant
        let paymentToken = try SharedForge.paymentToken(for: merchant.merchant)
        let (header, data) = try parts(paymentToken)
        let wrapped = try #require((header["wrappedKey"] as? String).flatMap { Data(base64Encoded: $0) })
        let unwrapped = try await unwrap(Array(wrapped), merchant)
        #expect(unwrapped.outputBytes.count == 16)
        #expect(try open(data, key: SymmetricKey(data: unwrapped.outputBytes)) == paymentToken.plaintext)
    }

    private func unwrap(
        _ wrapped: [UInt8], _ merchant: ForgedMerchant, digest: String = "sha256", mask: String = "sha256",
        label: [UInt8] = []
    ) async throws -> ProgramResult {
        let files = try FreshDirectory()
        try files.write(merchant.key.pem, to: "key.pem")
        var options = ["rsa_padding_mode:oaep", "rsa_oaep_md:\(digest)", "rsa_mgf1_md:\(mask)"]
        if !label.isEmpty { options.append("rsa_oaep_label:\(label.map(HexCase.lower).joined())") }
        return try await Program.run(
            Program.installed("openssl"),
            ["pkeyutl", "-decrypt", "-inkey", files.path("key.pem")] + options.flatMap { ["-pkeyopt", $0] },
            input: wrapped)
    }

    @Test("writes OAEP that openssl opens only with the same label and digests")
    func oaepParameters() async throws {
        let merchant = try SharedForge.rsaMerchant
        let message = Array("sixteen bytes ok".utf8)
        let spki = merchant.key.subjectPublicKeyInfo
        var oaep = RSAOAEP()
        #expect(try await unwrap(oaep.encrypt(message, to: spki), merchant).outputBytes == message)
        oaep.label = [1, 2, 3]
        let labelled = try oaep.encrypt(message, to: spki)
        #expect(try await unwrap(labelled, merchant, label: [1, 2, 3]).outputBytes == message)
        #expect(try await unwrap(labelled, merchant).status != 0)
        oaep = RSAOAEP(digest: .sha256, maskDigest: .sha1)
        let mixed = try oaep.encrypt(message, to: spki)
        #expect(try await unwrap(mixed, merchant, mask: "sha1").outputBytes == message)
        #expect(try await unwrap(mixed, merchant).status != 0)
        oaep = RSAOAEP(firstOctet: 1)
        #expect(try await unwrap(oaep.encrypt(message, to: spki), merchant).status != 0)
    }

    @Test("makes a point off the curve with the right length and prefix")
    func offCurve() throws {
        let merchant = try SharedForge.ecMerchant.merchant
        let paymentToken = try SharedForge.mint.mint(TokenRecipe(merchant: merchant, deviations: [.pointOffCurve]))
        let point = paymentToken.signedContent.prefix(91).suffix(65)
        #expect(point.first == 0x04)
        #expect(throws: (any Error).self) { try P256.KeyAgreement.PublicKey(x963Representation: point) }
    }

    @Test("makes a shared secret that begins with a zero byte on request")
    func leadingZero() throws {
        let merchant = try SharedForge.ecMerchant
        var recipe = TokenRecipe(merchant: merchant.merchant)
        recipe.leadingZeroSharedSecret = true
        let paymentToken = try SharedForge.mint.mint(recipe)
        let peer = try P256.KeyAgreement.PublicKey(x963Representation: paymentToken.signedContent.prefix(91).suffix(65))
        guard case .p256(let key) = merchant.key else { throw ForgeFailure.key("not P-256") }
        let secret = try P256.KeyAgreement.PrivateKey(rawRepresentation: key.rawRepresentation)
            .sharedSecretFromKeyAgreement(with: peer)
        let first = unsafe secret.withUnsafeBytes { unsafe $0.first }
        #expect(first == 0)
    }
}

@Suite struct PayloadTests {
    private func object(_ recipe: PayloadRecipe) throws -> [String: Any] {
        try #require(JSONSerialization.jsonObject(with: Data(recipe.json)) as? [String: Any])
    }

    @Test("writes a 3DSecure payload with the members of Apple's table, and the amount as given")
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

    @Test("writes an EMV payload with emvData and, on request, the encrypted PIN")
    func emv() throws {
        var recipe = PayloadRecipe(.emv)
        recipe.encryptedPINData = "00FF"
        let detail = try #require(try object(recipe)["paymentData"] as? [String: Any])
        #expect(Set(detail.keys) == ["emvData", "encryptedPINData"])
    }

    @Test("writes merchant tokens and authentication responses on request")
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

    @Test("finds every secret of a payload with the search for leaks")
    func secrets() {
        var recipe = PayloadRecipe(.emv)
        recipe.encryptedPINData = "0123456789ABCDEF"
        recipe.authenticationResponses = [("sub", "Y3J5cHQ=", "5.00")]
        let text = String(decoding: recipe.json, as: UTF8.self)
        for secret in recipe.secrets { #expect(text.contains(secret)) }
        #expect(recipe.secrets.count == 4)
    }
}
