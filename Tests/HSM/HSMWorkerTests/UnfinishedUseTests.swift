import Foundation
import KeyTypes
import TestSupport
import Testing
import WorkerProtocol

/// The use of a key whose generation was interrupted. The worker never finishes the generation for the other use.
@Suite struct UnfinishedUseTests {
    private static let merchant = "merchant.com.example.unfinished"

    /// The calls at which the tests interrupt a generation, for each use of the key. Each of these calls changes the
    /// HSM token or uses the key.
    private static var steps: [(KeyUse, String)] {
        [KeyUse.processing, .identity].flatMap { use in
            [
                "C_SetAttributeValue nth=1", "C_SetAttributeValue nth=2", "C_SignInit nth=1",
                use == .processing ? "C_DecryptInit nth=1" : "C_Sign nth=1",
                use == .processing ? "C_CopyObject nth=1" : "C_SignInit nth=2",
            ].map { (use, $0) }
        }
    }

    private func generation(_ use: KeyUse, onlyFinishes: Bool) -> WorkerRequest {
        .generateKey(
            KeyGeneration(merchantIdentifier: Self.merchant, algorithm: .rsa, use: use, onlyFinishes: onlyFinishes))
    }

    @Test(
        "finishes a key only for its original use after the worker was killed at any step of its generation",
        arguments: steps)
    func killed(_ use: KeyUse, at step: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try WorkerUnderTest(hsmToken)
        try await worker.open(hsmToken, sessions: 1)
        try hsmToken.play("fault \(step) crash once")
        worker.send(try generation(use, onlyFinishes: false).encoded(identifier: 7))
        #expect(try await worker.receive() == nil)
        try #require(hsmToken.hasFired, "the step does not occur")
        try hsmToken.play()
        let later = try await WorkerUnderTest.serving(hsmToken)
        let other: KeyUse = use == .identity ? .processing : .identity
        #expect(try await later.call(generation(other, onlyFinishes: true)).failureKind == .keyNotFound)
        let left = try #require(try await later.keys().first)
        #expect(left.use == use)
        // A generation for the other use makes a different key.
        let made = try await later.generate(.rsa, other, for: Self.merchant)
        #expect(made.use == other && made.subjectPublicKeyInfo != left.subjectPublicKeyInfo)
        let finished = try await later.generate(.rsa, use, for: Self.merchant, onlyFinishes: true)
        #expect(finished.use == use)
        // If the killed worker had already changed the private key's CKA_ID, the next worker lists the key without its
        // public key.
        #expect(
            left.subjectPublicKeyInfo.isEmpty
                ? finished.identifier == left.identifier : finished.subjectPublicKeyInfo == left.subjectPublicKeyInfo)
        #expect(hsmToken.calls("C_GenerateKeyPair").count == 2)
        let keys = try await later.keys()
        #expect(keys.count == 2 && keys.allSatisfy { $0.inconsistency == nil })
    }

    @Test("finishes a pair of one wallet never for the other", arguments: [KeyUse.processing, .googlePay])
    func otherWallet(_ use: KeyUse) async throws {
        func generation(_ use: KeyUse) -> WorkerRequest {
            .generateKey(
                KeyGeneration(merchantIdentifier: Self.merchant, algorithm: .ec, use: use, onlyFinishes: true))
        }
        let hsmToken = try await TokenDirectory()
        let key = try await WorkerUnderTest.serving(hsmToken).generate(.ec, use, for: Self.merchant)
        try await setIdentifier(KeyGeneration.makeUnfinishedIdentifier(for: use), of: key, ["pubkey"], hsmToken)
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let other: KeyUse = use == .googlePay ? .processing : .googlePay
        #expect(try await worker.call(generation(other)).failureKind == .keyNotFound)
        #expect(try await worker.call(generation(use)) == .generatedKey(key))
    }

    private func setIdentifier(
        _ identifier: [UInt8], of key: KeyDescription, _ types: [String], _ hsmToken: TokenDirectory
    ) async throws {
        for type in types {
            let changed = try await hsmToken.tool([
                "--set-id", identifier.hexadecimal, "--type", type, "--id", key.identifier.hexadecimal,
            ])
            try #require(changed.status == 0, "\(changed)")
        }
    }

    @Test("finishes a key that an earlier version left unfinished, as a processing key")
    func earlierVersion() async throws {
        let hsmToken = try await TokenDirectory()
        let key = try await WorkerUnderTest.serving(hsmToken).generate(.rsa, for: Self.merchant)
        // In earlier versions, eight random bytes followed the common beginning of an unfinished CKA_ID. They did not
        // state a use.
        try await setIdentifier(
            KeyGeneration.unfinishedIdentifier + Array("identity".utf8), of: key, ["pubkey", "privkey"], hsmToken)
        let worker = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await worker.call(generation(.identity, onlyFinishes: true)).failureKind == .keyNotFound)
        #expect(try await worker.generate(.rsa, for: Self.merchant, onlyFinishes: true) == key)
    }

    @Test(
        "refuses to finish a key if its unfinished CKA_ID and its attributes state different uses",
        arguments: [KeyUse.processing, .identity])
    func disagreeing(_ use: KeyUse) async throws {
        let hsmToken = try await TokenDirectory()
        let key = try await WorkerUnderTest.serving(hsmToken).generate(.rsa, use, for: Self.merchant)
        let other: KeyUse = use == .identity ? .processing : .identity
        let identifier = KeyGeneration.makeUnfinishedIdentifier(for: other)
        try await setIdentifier(identifier, of: key, ["pubkey", "privkey"], hsmToken)
        let worker = try await WorkerUnderTest.serving(hsmToken)
        for either in [KeyUse.processing, .identity] {
            #expect(try await worker.call(generation(either, onlyFinishes: true)).failureKind == .keyNotFound)
        }
        // The key stays unchanged, so that an operator can inspect it.
        let left = try #require(try await worker.keys().first)
        #expect(left.use == use && left.subjectPublicKeyInfo == key.subjectPublicKeyInfo)
        #expect(left.inconsistency != nil)
    }

    @Test(
        "removes a public key without a private key only at a generation for the same use",
        arguments: [KeyUse.processing, .identity])
    func publicKeyAlone(_ use: KeyUse) async throws {
        let hsmToken = try await TokenDirectory()
        let key = try await WorkerUnderTest.serving(hsmToken).generate(.rsa, use, for: Self.merchant)
        try await setIdentifier(KeyGeneration.makeUnfinishedIdentifier(for: use), of: key, ["pubkey"], hsmToken)
        let deleted = try await hsmToken.tool([
            "--delete-object", "--type", "privkey", "--id", key.identifier.hexadecimal,
        ])
        try #require(deleted.status == 0, "\(deleted)")
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let other: KeyUse = use == .identity ? .processing : .identity
        for (asked, remains) in [(other, true), (use, false)] {
            #expect(try await worker.call(generation(asked, onlyFinishes: true)).failureKind == .keyNotFound)
            let left = try await hsmToken.tool(["--list-objects", "--type", "pubkey"])
            #expect(left.output.contains(Self.merchant) == remains)
        }
    }
}
