import Crypto
import Foundation
import KeyTypes
import PortalRequests
import StrictJSON
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import HSMWorker

/// JSON Web Tokens for Apple's API: the worker builds them, and no request has a claim.
@Suite struct JWTSigningTests {
    private static let names = (issuer: "57246542-96fe-1a63-e053-0824d011072a", keyId: "2X9R4HXF34")

    private func opened(
        _ hsmToken: any WorkersToken, isConfigured: Bool = true, callTimeout: UInt32 = 10_000
    ) async throws -> (WorkerUnderTest, HSMTokenDescription) {
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 1) { opening in
            opening.callTimeout = callTimeout
            guard isConfigured else { return }
            (opening.portalIssuer, opening.portalKeyId) = Self.names
        }
        return (worker, description)
    }

    private static func hash(_ key: P256.Signing.PrivateKey) -> [UInt8] {
        Array(SHA256.hash(data: key.publicKey.derRepresentation))
    }

    private static func request(_ key: [UInt8], _ name: String = "A1B2C3D4E5") throws -> JWTSigning {
        var signing = JWTSigning(
            publicKeyHash: key,
            request: .listCertificates(merchantResource: try #require(ResourceId("A1B2C3D4E5"))),
            scope: .unversioned)
        signing.name = name
        return signing
    }

    private static func part(_ text: Substring) throws -> [UInt8] {
        var base64 = text.replacing("-", with: "+").replacing("_", with: "/")
        while base64.count % 4 != 0 { base64 += "=" }
        return Array(try #require(Data(base64Encoded: String(base64))))
    }

    /// Requires that the answer is a token with the key's signature, and returns its header and its claims.
    private func verified(
        _ answer: WorkerAnswer, _ key: P256.Signing.PrivateKey
    ) throws -> (header: JSONObject, claims: JSONObject) {
        guard case .jsonWebToken(let token) = answer else {
            throw WorkerUnderTest.Unexpected(description: "\(answer)")
        }
        let parts = String(decoding: token, as: UTF8.self).split(separator: ".")
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: Self.part(parts[2]))
        #expect(key.publicKey.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)))
        return (
            try #require(JSONValue(parsing: Self.part(parts[0])).objectValue),
            try #require(JSONValue(parsing: Self.part(parts[1])).objectValue)
        )
    }

    @Test("signs a token with the configured names and the worker's clock", arguments: TokenKind.installed)
    func signed(_ kind: TokenKind) async throws {
        let hsmToken = try await kind.fresh()
        let (worker, description) = try await opened(hsmToken)
        let key = P256.Signing.PrivateKey()
        #expect(try await worker.importServiceKey(key, description) == .done)
        let before = Int(Date().timeIntervalSince1970)
        let answer = try await worker.call(.signJWT(Self.request(Self.hash(key))))
        let after = Int(Date().timeIntervalSince1970)
        let (header, claims) = try verified(answer, key)
        #expect(header["kid"]?.stringValue == Self.names.keyId && header["alg"]?.stringValue == "ES256")
        #expect(claims["iss"]?.stringValue == Self.names.issuer)
        let begin = try #require(claims["iat"]?.numberValue?.int)
        #expect((before - 10...after - 10).contains(begin))
        #expect(claims["exp"]?.numberValue?.int == begin + 100)
    }

    @Test("builds a token for a write without a scope, and none that mixes a write's right with a scope")
    func writes() async throws {
        let hsmToken = try await TokenDirectory()
        let (worker, description) = try await opened(hsmToken)
        let key = P256.Signing.PrivateKey()
        #expect(try await worker.importServiceKey(key, description) == .done)
        for (kind, name) in [
            (.createCertificate, "A1B2C3D4E5"), (.activateCertificate, "C1"), (.revokeCertificate, "C1"),
        ] as [(PortalRequest.Kind, String)] {
            var request = try Self.request(Self.hash(key), name)
            (request.kind, request.scope) = (kind, nil)
            let (_, claims) = try verified(try await worker.call(.signJWT(request)), key)
            #expect(claims["scope"] == nil && claims["aud"]?.stringValue == "appstoreconnect-v1")
            let begin = try #require(claims["iat"]?.numberValue?.int)
            #expect(claims["exp"]?.numberValue?.int == begin + 100)
            request.scope = .unversioned
            let scoped = try await worker.call(.signJWT(request))
            #expect(scoped.failureKind == .importRefused, "\(scoped)")
            (request.scope, request.name) = (nil, "../merchantIds/A1B2C3D4E5")
            let odd = try await worker.call(.signJWT(request))
            #expect(odd.failureKind == .importRefused, "\(odd)")
        }
        var read = try Self.request(Self.hash(key))
        read.scope = nil
        let unscoped = try await worker.call(.signJWT(read))
        #expect(unscoped.failureKind == .importRefused, "\(unscoped)")
    }

    @Test("signs after a busy HSM token, a lost session or login, a stale handle, or a failed signature")
    func onceFailed() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, description) = try await opened(hsmToken)
        let key = P256.Signing.PrivateKey()
        #expect(try await worker.importServiceKey(key, description) == .done)
        for fault in [
            "C_SignInit nth=1 return=0x31", "C_SignInit nth=1 return=0xB1", "C_SignInit nth=1 return=0xB3",
            "C_SignInit nth=1 close-sessions", "C_SignInit nth=1 logout", "C_SignInit nth=1 return=0x60",
            "C_Sign nth=1 return=0x5", "C_Sign nth=1 return=0x30",
        ] {
            try hsmToken.play("fault \(fault)")
            let answer = try await worker.call(.signJWT(Self.request(Self.hash(key))))
            #expect(throws: Never.self, "\(fault)") { try verified(answer, key) }
        }
    }

    @Test("reports a busy HSM token, one that signs no more, and one that fails with this key alone")
    func failing() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, description) = try await opened(hsmToken, callTimeout: 1_000)
        let key = P256.Signing.PrivateKey()
        #expect(try await worker.importServiceKey(key, description) == .done)
        let request = try Self.request(Self.hash(key))
        // The second attempt fails at C_SignInit, since the first one left a signature unfinished.
        try hsmToken.play((1...4).map { "fault C_Sign nth=\($0) return=0x6" })
        let oneKey = try await worker.call(.signJWT(request))
        #expect(oneKey.failureKind == .overloaded && oneKey.failureMessage.contains("signs with others"), "\(oneKey)")
        try hsmToken.play("fault C_SignInit always return=0x31")
        let busy = try await worker.call(.signJWT(request))
        #expect(busy.failureKind == .overloaded && busy.failureMessage.contains("busy"), "\(busy)")
        try hsmToken.play("fault C_Sign always return=0x30")
        let dead = try await worker.call(.signJWT(request))
        #expect(dead.failureKind == .hsmTokenUnavailable, "\(dead)")
        #expect(dead.failureMessage.contains("CKR_DEVICE_ERROR"), "\(dead)")
        try hsmToken.play("false-signatures")
        let wrong = try await worker.call(.signJWT(request))
        #expect(wrong.failureKind == .hsmTokenUnavailable, "\(wrong)")
        #expect(wrong.failureMessage.contains("does not verify"), "\(wrong)")
        try hsmToken.play()
        _ = try verified(try await worker.call(.signJWT(request)), key)
    }

    @Test("refuses a name that is not one of Apple's, keys of other uses, and unknown keys")
    func refused() async throws {
        let hsmToken = try await TokenDirectory()
        let (worker, description) = try await opened(hsmToken)
        let key = P256.Signing.PrivateKey()
        #expect(try await worker.importServiceKey(key, description) == .done)
        for name in ["", "a/b", "a\"b", "A1B2C3D4E5?limit=1", "..", "A1B2C3D4E", "a1b2c3d4e5"] {
            let answer = try await worker.call(.signJWT(Self.request(Self.hash(key), name)))
            #expect(answer.failureKind == .importRefused, "\(name): \(answer)")
        }
        let merchant = try SharedForge.ecMerchant
        try await worker.mustImport(merchant, description)
        let processing = try await worker.call(.signJWT(Self.request(merchant.merchant.publicKeyHash)))
        #expect(processing.failureKind == .keyNotFound && processing.failureMessage.contains("processing key"))
        let identity = try await worker.generate(.rsa, .identity, for: "merchant.com.example.identity")
        let signed = try await worker.call(.signJWT(Self.request(identity.identifier)))
        #expect(signed.failureKind == .keyNotFound && signed.failureMessage.contains("identity key"))
        let unknown = try await worker.call(.signJWT(Self.request([UInt8](repeating: 1, count: 32))))
        #expect(unknown.failureKind == .keyNotFound)
    }

    @Test("signs nothing where the configuration names no key of Apple's API")
    func notConfigured() async throws {
        let hsmToken = try await TokenDirectory()
        let (worker, description) = try await opened(hsmToken, isConfigured: false)
        let key = P256.Signing.PrivateKey()
        #expect(try await worker.importServiceKey(key, description) == .done)
        let answer = try await worker.call(.signJWT(Self.request(Self.hash(key))))
        #expect(answer.failureKind == .importRefused && answer.failureMessage.contains("names no key"), "\(answer)")
    }
}
