import Foundation
import KeyTypes
import TestSupport
import Testing
import WorkerProtocol

/// The forms of a template. The worker tries them in order until the HSM token accepts one.
@Suite struct KeyProfileTests {
    /// The attribute types CKA_UNWRAP and CKA_SIGN_RECOVER.
    private static let (unwrap, signRecover) = ("0x107", "0x109")

    private func opened(_ hsmToken: ScriptedToken) async throws -> (WorkerUnderTest, HSMTokenDescription) {
        let worker = try WorkerUnderTest(hsmToken)
        return (worker, try await worker.open(hsmToken))
    }

    @Test(
        "imports keys into an HSM token that requires the private key first, or refuses an unnecessary attribute",
        arguments: [
            "private-key-first", "refuse-attribute C_CreateObject \(unwrap)",
            "refuse-attribute C_CreateObject \(signRecover)",
            // The first object is the certificate, and the second is the public key in the first form of the template.
            // The YubiHSM's library refuses attributes with CKR_DATA_INVALID (0x20) and CKR_DEVICE_ERROR (0x30).
            "fault C_CreateObject nth=2 return=0x20", "fault C_CreateObject nth=2 return=0x30",
        ])
    func imports(instruction: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, description) = try await opened(hsmToken)
        try hsmToken.play(instruction)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        try await worker.mustImport(SharedForge.rsaMerchant, description)
        let keys = try await worker.keys()
        #expect(keys.count == 2)
        #expect(keys.allSatisfy { $0.isProtected && $0.inconsistency == nil && $0.use == .processing })
        for payment in [try EncryptedPayment.ec(), try EncryptedPayment.rsa()] {
            #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        }
    }

    @Test("begins with the form of the template that the HSM token accepted for the previous key")
    func remembers() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, description) = try await opened(hsmToken)
        try hsmToken.play("refuse-attribute C_CreateObject \(Self.signRecover)")
        try await worker.mustImport(SharedForge.ecMerchant, description)
        let refused = hsmToken.calls("C_CreateObject").count { $0.value == 0x13 }
        #expect(refused > 0)
        try await worker.mustImport(SharedForge.rsaMerchant, description)
        #expect(hsmToken.calls("C_CreateObject").count { $0.value == 0x13 } == refused)
    }

    @Test("leaves no object, and reports the first refusal, if the HSM token accepts no form of the template")
    func acceptsNoTemplateForm() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, description) = try await opened(hsmToken)
        let before = hsmToken.remainingObjects
        // The attribute 0x162 is CKA_EXTRACTABLE, which every form of the template contains.
        try hsmToken.play("refuse-attribute C_CreateObject 0x162")
        let answer = try await worker.importKey(try SharedForge.ecMerchant, description)
        #expect(answer.failureKind == .importRefused)
        #expect(answer.failureMessage.contains("C_CreateObject: CKR_ATTRIBUTE_VALUE_INVALID"), "\(answer)")
        #expect(hsmToken.remainingObjects == before)
    }

    /// The library of the YubiHSM 2 keeps the CKA_ID of a public key's template only until the process ends, unless
    /// C_SetAttributeValue sets it too. In the second case, the HSM token refuses that call, so the CKA_ID is lost.
    @Test(
        "sets the CKA_ID of an imported public key again, so that a later process finds the key by it",
        arguments: [(nil, true), ("refuse-attribute C_SetAttributeValue 0x102", false)] as [(String?, Bool)])
    func forgottenIdentifier(refusal: String?, isFound: Bool) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, description) = try await opened(hsmToken)
        let instructions = ["private-key-first", "forget-identifiers"]
        try hsmToken.play(instructions + [refusal].compactMap(\.self))
        try await worker.mustImport(SharedForge.ecMerchant, description)
        #expect(try await worker.keys().map(\.inconsistency) == [nil])
        #expect(try await worker.end() == 0)
        try hsmToken.play(instructions)
        let (later, _) = try await opened(hsmToken)
        let key = try #require(try await later.keys().first)
        #expect((key.inconsistency == nil) == isFound, "\(key)")
        let payment = try EncryptedPayment.ec()
        let answer = try await later.call(payment.request)
        #expect((answer == .plaintext(payment.plaintext, tier: .c)) == isFound, "\(answer)")
    }

    @Test("replaces a private key that an interrupted import left without its public key")
    func interrupted() async throws {
        let directory = try await TokenDirectory()
        let hsmToken = try ScriptedToken(directory)
        let (worker, description) = try await opened(hsmToken)
        // The first call creates the certificate. The next three try forms of the public key, which the HSM token
        // refuses. The fifth call creates the private key. The process ends at the sixth, which would create the public
        // key.
        try hsmToken.play("private-key-first", "fault C_CreateObject nth=6 crash once")
        _ = try? await worker.importKey(try SharedForge.ecMerchant, description)
        #expect(try await worker.end() == 128 + SIGKILL)
        try hsmToken.play()
        let (later, next) = try await opened(hsmToken)
        let listed = try await later.keys()
        #expect(listed.count == 1 && listed.first?.inconsistency?.contains("public key") == true, "\(listed)")
        try await later.mustImport(SharedForge.ecMerchant, next)
        #expect(try await later.keys().map(\.inconsistency) == [nil])
    }

    @Test(
        "generates merchants' keys without an attribute that the HSM token refuses",
        arguments: [unwrap, signRecover])
    func generates(attribute: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, _) = try await opened(hsmToken)
        try hsmToken.play("refuse-attribute C_GenerateKeyPair \(attribute)")
        for algorithm in [KeyAlgorithm.ec, .rsa] {
            let generation = KeyGeneration(merchantIdentifier: "merchant.test", algorithm: algorithm)
            guard case .generatedKey(let key) = try await worker.call(.generateKey(generation)) else {
                Issue.record("\(algorithm) was not generated")
                return
            }
            #expect(key.isProtected && key.use == .processing)
        }
    }

    @Test("stores the head as a public data object if the HSM token accepts no private ones")
    func publicHead() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let (worker, _) = try await opened(hsmToken)
        try hsmToken.play("fault C_CreateObject nth=1 return=0x13")
        #expect(try await worker.remember("one", node: "backend-1") == .done)
        #expect(try await worker.heads() == ["one"])
        try hsmToken.play("fault C_CreateObject always return=0x13")
        let answer = try await worker.remember("two", node: "backend-1")
        #expect(answer.failureKind == .auditRefused && answer.failureMessage.contains("CKR_ATTRIBUTE_VALUE_INVALID"))
        #expect(try await worker.heads() == ["one"])
    }
}
