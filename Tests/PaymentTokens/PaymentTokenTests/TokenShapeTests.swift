import Encodings
import PaymentToken
import Refusals
import StrictJSON
import TestSupport
import Testing
import TokenForge

@Suite("Payment token shape")
struct TokenShapeTests {
    @Test(
        "Reads a payment token of either version, from the whole dictionary and from its paymentData",
        arguments: PaymentTokenVersion.allCases)
    func wellFormed(version: PaymentTokenVersion) throws {
        let minted = try Minting.minted(version, applicationData: [1, 2, 3])
        let whole = try Minting.paymentToken(minted)
        #expect(whole.version == version)
        #expect(whole.publicKeyHash.bytes == minted.publicKeyHash)
        #expect(whole.transactionIdentifier.hex == minted.transactionIdentifier)
        #expect(whole.signature == minted.signature)
        #expect(whole.signedContent == minted.signedContent)
        #expect(whole.applicationDataHash?.count == 32)
        #expect(try PaymentToken(json: JSONValue(parsing: minted.paymentData)) == whole)
    }

    @Test("Reads base64 without padding and upper-case hexadecimal as the same payment token")
    func otherSpelling() throws {
        var wire = WireForm.since2023
        (wire.unpaddedBase64, wire.upperCaseHex) = (true, true)
        let minted = try Minting.minted(wire: wire, applicationData: [1])
        let paymentToken = try Minting.paymentToken(minted)
        #expect(paymentToken.signedContent == minted.signedContent)
        #expect(paymentToken.transactionIdentifier.hex == minted.transactionIdentifier)
    }

    @Test("Ignores unknown members anywhere")
    func unknownMembers() throws {
        #expect(throws: Never.self) { try Minting.paymentToken(.ecV1, [.unknownMembers]) }
        #expect(throws: Never.self) { try Minting.paymentToken(.rsaV1, [.unknownMembers]) }
    }

    @Test("Treats RSA_v2 as another name for RSA_v1")
    func secondRSAName() throws {
        let json = try JSONValue(parsing: Minting.minted(.rsaV1).paymentData)
        #expect(try PaymentToken(json: json.setting("version", to: .string("RSA_v2"))).version == .rsaV1)
    }

    @Test(
        "Refuses an unknown version before it checks anything else",
        arguments: ["EC_v2", "", "ec_v1", "RSA_v3"])
    func unsupportedVersion(name: String) throws {
        let json = JSONValue.object(try #require(JSONObject([("version", .string(name))])))
        #expect(try code(of: json) == .unsupportedVersion)
        #expect(
            try code(of: JSONValue(parsing: Minting.minted(.ecV1, [.unsupportedVersion]).paymentToken))
                == .unsupportedVersion)
    }

    @Test(
        "Refuses a payment token of the wrong shape as malformed, and names the member",
        arguments: [
            (["paymentData"], JSONValue.string("e30="), "paymentData"), (["paymentData"], .null, "paymentData"),
            (["paymentData", "version"], nil, "version"),
            (["paymentData", "version"], .number(JSONNumber(1)), "version"),
            (["paymentData", "header"], nil, "header"), (["paymentData", "header"], .string("x"), "header"),
            (["paymentData", "header"], .array([]), "header"),
            (["paymentData", "data"], nil, "data"), (["paymentData", "data"], .null, "data"),
            (["paymentData", "data"], .string(""), "data"), (["paymentData", "data"], .string("*"), "data"),
            (["paymentData", "data"], .string(Base64.encode([UInt8](repeating: 1, count: 16))), "data"),
            (["paymentData", "data"], .string(Base64.encode([UInt8](repeating: 1, count: 65_537))), "data"),
            (["paymentData", "signature"], nil, "signature"), (["paymentData", "signature"], .string(""), "signature"),
            (["paymentData", "signature"], .string("AAA_"), "signature"),
            (["paymentData", "signature"], .string(Base64.encode([UInt8](repeating: 1, count: 16_385))), "signature"),
            (["paymentData", "header", "publicKeyHash"], nil, "publicKeyHash"),
            (
                ["paymentData", "header", "publicKeyHash"], .string(Base64.encode([UInt8](repeating: 1, count: 31))),
                "publicKeyHash"
            ),
            (
                ["paymentData", "header", "publicKeyHash"], .string(Base64.encode([UInt8](repeating: 1, count: 33))),
                "publicKeyHash"
            ),
            (["paymentData", "header", "transactionId"], nil, "transactionId"),
            (["paymentData", "header", "transactionId"], .string(String(repeating: "a", count: 62)), "transactionId"),
            (["paymentData", "header", "transactionId"], .string(String(repeating: "a", count: 63)), "transactionId"),
            (["paymentData", "header", "transactionId"], .string(String(repeating: "a", count: 66)), "transactionId"),
            (["paymentData", "header", "transactionId"], .string(String(repeating: "g", count: 64)), "transactionId"),
            (["paymentData", "header", "applicationData"], .null, "applicationData"),
            (["paymentData", "header", "applicationData"], .string(""), "applicationData"),
            (
                ["paymentData", "header", "applicationData"], .string(String(repeating: "a", count: 62)),
                "applicationData"
            ),
            (["paymentData", "header", "ephemeralPublicKey"], nil, "ephemeralPublicKey"),
            (["paymentData", "header", "ephemeralPublicKey"], .null, "ephemeralPublicKey"),
            (
                ["paymentData", "header", "wrappedKey"], .string(Base64.encode([UInt8](repeating: 1, count: 256))),
                "both"
            ),
            (["transactionIdentifier"], .null, "transactionIdentifier"),
            (["transactionIdentifier"], .string("00"), "transactionIdentifier"),
            (["transactionIdentifier"], .string(String(repeating: "0", count: 64)), "differs"),
        ] as [([String], JSONValue?, String)])
    func malformed(path: [String], value: JSONValue?, named: String) throws {
        let json = try JSONValue(parsing: Minting.minted().paymentToken)
        let changed =
            switch path.count {
            case 1: json.setting(path[0], to: value)
            case 2: json.setting(path[0], path[1], to: value)
            default: json.setting(path[0], path[1], path[2], to: value)
            }
        let refusal = try #require(try refusal { _ = try PaymentToken(json: changed) })
        #expect(refusal.code == .malformedToken)
        #expect(refusal.details?.contains(named) == true, "\(refusal.details ?? "")")
    }

    @Test(
        "Refuses anything but an object as a payment token",
        arguments: ["null", "1", "\"x\"", "[]", "[{}]", "{}", "{\"paymentData\":{}}"])
    func notAnObject(text: String) throws {
        #expect(try code(of: JSONValue(parsing: text)) == .malformedToken)
    }

    @Test("Accepts outer and inner transaction identifiers that differ in case")
    func outerIdentifierCase() throws {
        let minted = try Minting.minted()
        let json = try JSONValue(parsing: minted.paymentToken)
        let upper = minted.transactionIdentifier.uppercased()
        #expect(throws: Never.self) {
            try PaymentToken(json: json.setting("transactionIdentifier", to: .string(upper)))
        }
        #expect(throws: Never.self) { try PaymentToken(json: json.setting("transactionIdentifier", to: nil)) }
    }

    @Test("Accepts only the key material that belongs to the version")
    func keyMaterialOfTheOtherVersion() throws {
        let ec = try JSONValue(parsing: Minting.minted(.ecV1).paymentData)
        let rsa = try JSONValue(parsing: Minting.minted(.rsaV1).paymentData)
        #expect(try code(of: ec.setting("version", to: .string("RSA_v1"))) == .malformedToken)
        #expect(try code(of: rsa.setting("version", to: .string("EC_v1"))) == .malformedToken)
        for size in [0, 16, 255, 257, 512] {
            let key = JSONValue.string(Base64.encode([UInt8](repeating: 1, count: size)))
            #expect(try code(of: rsa.setting("header", "wrappedKey", to: key)) == .malformedToken)
        }
    }

    @Test(
        "Refuses with malformed_token every malformed payment token that TokenForge can make",
        arguments: PaymentTokenVersion.allCases)
    func forgedShapes(version: PaymentTokenVersion) throws {
        for deviation in Deviation.allCases
        where deviation.refusal == "malformed_token" && deviation.applies(to: version.rawValue)
            && deviation != .duplicateHeaderMember
        {
            let json = try JSONValue(parsing: Minting.minted(version, [deviation]).paymentToken)
            #expect(try code(of: json) == .malformedToken, "\(deviation)")
        }
    }

    /// The signature covers data ‖ transactionId ‖ applicationData without separators. It stays valid if bytes move
    /// from one member to the next.
    @Test(
        "Refuses a payment token in which bytes have moved from one signed member to the next",
        arguments: PaymentTokenVersion.allCases)
    func shiftedMembers(version: PaymentTokenVersion) throws {
        let minted = try Minting.minted(version, applicationData: [1])
        let paymentToken = try Minting.paymentToken(minted)
        let hash = try #require(paymentToken.applicationDataHash)
        let content = paymentToken.encryptedData + paymentToken.transactionIdentifier.bytes + hash
        // `first` and `second` are the positions at which transactionId and applicationData begin in the signed
        // content. `places` contains wrong positions.
        let (first, second) = (paymentToken.encryptedData.count, paymentToken.encryptedData.count + 32)
        var places = (1...40).flatMap { [(first - $0, second - $0), (first + $0, second + $0)] }
        places += (1...31).flatMap { [(first - $0, second), (first + $0, second), (first, second - $0)] }
        places += [(first, second + 1), (first - 32, second), (first + 32, second), (first, second + 32)]
        for (start, end) in places where start <= end && end <= content.count {
            var json = try JSONValue(parsing: minted.paymentData)
            json = json.setting("data", to: .string(Base64.encode(content[..<start])))
            json = json.setting(
                "header", "transactionId", to: .string(Hexadecimal.encode(content[start..<end])))
            let rest = content[end...]
            json = json.setting(
                "header", "applicationData", to: rest.isEmpty ? nil : .string(Hexadecimal.encode(rest)))
            if rest.isEmpty, end - start == 32 {
                // This payment token has a valid shape and a valid signature. Only the decryption detects the change,
                // by its tag.
                let shifted = try PaymentToken(json: json)
                #expect(shifted.signedContent == paymentToken.signedContent)
                #expect(shifted.transactionIdentifier.bytes == hash)
                #expect(throws: Never.self) { try SignatureEvidence(of: shifted) }
            } else {
                #expect(try code(of: json) == .malformedToken, "\(start) \(end)")
            }
        }
    }

    @Test("Accepts the shape of a payment token with a point off the curve, and fails its decryption")
    func pointOffCurve() throws {
        let paymentToken = try Minting.paymentToken(.ecV1, [.pointOffCurve])
        #expect(try refusal { _ = try paymentToken.restorationInput() }?.code == .decryptionFailed)
    }

    @Test("Passes the 65-byte point or the 256-byte wrapped key to the key restoration")
    func restorationInput() throws {
        let ec = try Minting.paymentToken(.ecV1)
        #expect(try ec.restorationInput() == Array(ec.keyMaterial.encoded.suffix(65)))
        let rsa = try Minting.paymentToken(.rsaV1)
        #expect(try rsa.restorationInput() == rsa.keyMaterial.encoded)
        #expect(rsa.keyMaterial.encoded.count == 256)
    }

    private func code(of json: JSONValue) throws -> RefusalCode? {
        try refusal { _ = try PaymentToken(json: json) }?.code
    }
}

@Suite("publicKeyHash and OtherInfo")
struct PublicKeyHashTests {
    @Test("Computes publicKeyHash as the SHA-256 of the SubjectPublicKeyInfo's bytes")
    func publicKeyHash() throws {
        // FIPS 180-2, appendix B.1: the digest of "abc".
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: Array("abc".utf8))
        #expect(hash.hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        #expect(PublicKeyHash(hex: hash.hex.uppercased()) == hash)
        #expect(PublicKeyHash(base64: hash.base64) == hash)
        #expect(hash.base64.count == 44)
        #expect(PublicKeyHash(base64: String(hash.base64.dropLast())) == hash)
        #expect(PublicKeyHash(bytes: hash.bytes.dropLast()) == nil)
        #expect(PublicKeyHash(hex: hash.hex + "00") == nil)
    }

    @Test("Builds OtherInfo from the length-prefixed algorithm identifier, Apple, and the merchant identifier's hash")
    func otherInfo() {
        let info = OtherInfo.ecV1(merchantIdentifier: "abc")
        #expect(
            Hexadecimal.encode(info) == "0d69642d6165733235362d47434d4170706c65"
                + "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }
}
