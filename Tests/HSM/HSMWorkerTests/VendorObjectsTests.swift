import KeyTypes
import TestSupport
import Testing
import WorkerProtocol

/// Searches for objects and reads of their attributes, as ``VendorBehaviour``.
@Suite("Vendors' objects, as reported in public")
struct VendorObjectsTests {
    // MARK: Searches

    @Test("searches for no object while it decrypts, since each search may take seconds")
    func noSearch() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.withMerchantKeys(hsmToken, sessions: 1)
        _ = try await worker.call(try EncryptedPayment.ec().request)
        _ = try await worker.call(try EncryptedPayment.rsa().request)
        let searches = hsmToken.calls("C_FindObjectsInit").count
        try hsmToken.play(VendorBehaviourTests.slow.instructions)
        for payment in [try EncryptedPayment.ec(), try EncryptedPayment.rsa()] {
            #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        }
        #expect(hsmToken.calls("C_FindObjectsInit").count == searches)
    }

    /// Some libraries return wrong objects if another call interrupts a search
    /// (https://github.com/openssl-projects/pkcs11-provider/issues/148).
    @Test("makes no other call between the beginning and the end of a search")
    func uninterruptedSearches() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.withMerchantKeys(hsmToken, sessions: 1)
        #expect(try await worker.keys().count == 2)
        var isSearching = false
        var searches = 0
        for call in hsmToken.calls().map(\.function) {
            switch call {
            case "C_FindObjectsInit":
                #expect(!isSearching)
                isSearching = true
                searches += 1
            case "C_FindObjectsFinal": isSearching = false
            default: #expect(!isSearching || call == "C_FindObjects", "\(call)")
            }
        }
        #expect(searches > 2)
    }

    /// Separate searches for each key would take a time that grows with the square of the number of keys
    /// (https://github.com/opendnssec/opendnssec/pull/834: 13 minutes for 311 keys).
    @Test("makes as many searches to open, list and import with twelve keys as with two")
    func searchesByNumberOfKeys() async throws {
        func searches(_ hsmToken: ScriptedToken, _ body: () async throws -> Void) async throws -> Int {
            let before = hsmToken.calls("C_FindObjectsInit").count
            try await body()
            return hsmToken.calls("C_FindObjectsInit").count - before
        }
        func measure(keys: Int) async throws -> [Int] {
            let hsmToken = try ScriptedToken(try await TokenDirectory())
            let first = try WorkerUnderTest(hsmToken)
            let opened = try await first.open(hsmToken)
            try await first.mustImport(SharedForge.rsaMerchant, opened)
            for _ in 1..<keys {
                let generation = KeyGeneration(merchantIdentifier: "merchant.test", algorithm: .ec)
                guard case .generatedKey = try await first.call(.generateKey(generation)) else {
                    throw WorkerUnderTest.Unexpected(description: "no key was generated")
                }
            }
            let worker = try WorkerUnderTest(hsmToken)
            var description = opened
            return [
                try await searches(hsmToken) {
                    description = try await worker.open(hsmToken)
                    #expect(try await worker.keys().count == keys)
                },
                try await searches(hsmToken) { try await worker.mustImport(SharedForge.ecMerchant, description) },
            ]
        }
        #expect(try await measure(keys: 12) == measure(keys: 2))
    }

    @Test("takes an object once, even if the library returns it twice")
    func repeatedObjects() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "repeat-objects")
        let worker = try await WorkerUnderTest.withMerchantKeys(hsmToken)
        let key = try await worker.createAuditKey([UInt8](1...16))
        for worker in [worker, try await .serving(hsmToken)] {
            let keys = try await worker.keys()
            #expect(keys.count == 2 && Set(keys.map(\.identifier)).count == 2)
            #expect(keys.allSatisfy { $0.inconsistency == nil && $0.certificates.count == 1 }, "\(keys)")
            #expect(try await worker.auditKeys() == [key])
            for payment in [try EncryptedPayment.ec(), try EncryptedPayment.rsa()] {
                #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
            }
        }
    }

    /// In PKCS#11 2.40, such an object cannot be told from two objects with equal attributes.
    @Test("serves the keys of a library that shows each object under two handles, and warns of second objects")
    func twoHandles() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "two-handles")
        let first = try await WorkerUnderTest.withMerchantKeys(hsmToken)
        let auditKey = try await first.createAuditKey([UInt8](1...16))
        #expect(try await first.remember("one", node: "backend-1") == .done)
        let worker = try await WorkerUnderTest.serving(hsmToken)
        let keys = try await worker.keys()
        let payments = [try EncryptedPayment.ec(), try EncryptedPayment.rsa()]
        for payment in payments {
            let shown = keys.filter { $0.identifier == payment.publicKeyHash }.map(\.inconsistency)
            #expect(shown.count == 2 && shown.contains(nil))
            #expect(shown.contains("Another private key in the HSM token has the same CKA_ID."), "\(shown)")
            #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        }
        #expect(try await worker.auditKeys() == [auditKey])
        // The first call of a process searches for the node's objects, and finds the same one twice.
        #expect(try await worker.remember("one", node: "backend-1") == .done)
        #expect(try await Set(worker.heads()) == ["one"])
        let later = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await later.remember("two", node: "backend-1") == .done)
        #expect(try await Set(later.heads()) == ["two"])
        for payment in payments {
            #expect(try await later.call(.destroyKey(publicKeyHash: payment.publicKeyHash)) == .done)
        }
        #expect(try await later.keys().isEmpty)
    }

    // MARK: Attributes

    /// The attributes are CKA_SENSITIVE (0x103) and CKA_EXTRACTABLE (0x162). Microchip's CryptoAuthentication library
    /// returns CKR_ATTRIBUTE_TYPE_INVALID for CKA_EXTRACTABLE
    /// (https://github.com/MicrochipTech/cryptoauthlib/issues/133). AWS CloudHSM returns it for an attribute that the
    /// report does not name (https://github.com/letsencrypt/pkcs11key/issues/20).
    @Test(
        "refuses a key whose protection cannot be read, says so, and does not advise to destroy it",
        arguments: ["0x103", "0x162"])
    func unreadableProtection(_ attribute: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        try await worker.mustImport(SharedForge.rsaMerchant, description)
        let before = hsmToken.remainingObjects
        let words = "does not show whether the private key is protected"
        try hsmToken.play("refuse-attribute C_GetAttributeValue \(attribute)")
        let imported = try await worker.importKey(try SharedForge.ecMerchant, description)
        #expect(imported.failureKind == .importRefused && imported.failureMessage.contains(words), "\(imported)")
        let generation = KeyGeneration(merchantIdentifier: "merchant.test", algorithm: .ec)
        let generated = try await worker.call(.generateKey(generation))
        #expect(generated.failureKind == .importRefused && generated.failureMessage.contains(words), "\(generated)")
        #expect(hsmToken.remainingObjects == before)
        let key = try #require(try await worker.keys().first)
        #expect(!key.isProtected && key.inconsistency?.contains(words) == true)
        #expect(key.inconsistency?.contains("destroy") == false)
        try hsmToken.play()
        #expect(try await worker.keys().map(\.inconsistency) == [nil])
    }
}
