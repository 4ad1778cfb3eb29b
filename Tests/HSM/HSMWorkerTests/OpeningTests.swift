import TestSupport
import Testing
import WorkerProtocol

@Suite struct OpeningTests {
    @Test("describes an open HSM token, and serves both versions at tier C")
    func opens() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 3)
        #expect(description.label == "paytokend")
        #expect(description.serialNumber.count == 16)
        #expect(description.manufacturer == "SoftHSM project")
        #expect(description.sessions == 3)
        #expect(description.tierECv1 == .c)
        #expect(description.tierRSAv1 == .c)
        #expect(description.shortcomings.isEmpty)
        #expect(description.importKey.count == 65 && description.importKey.first == 4)
        #expect(try await worker.call(.probe) == .done)
        #expect(try await worker.end() == 0)
    }

    @Test("loads only the configured PKCS#11 library")
    func linksNone() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        try await worker.open(hsmToken)
        // Short reads are usual in /proc. Foundation would mistake a short read for the end of the file, so `cat` reads
        // the file.
        let maps = try await Program.run(
            Program.installed("cat"), ["/proc/\(worker.processIdentifier)/maps"], environment: [:]
        ).output
        #expect(maps.contains("libsofthsm2.so"))
        #expect(!maps.contains("p11-kit"))
    }

    @Test("does not serve tier C if extractable secrets are forbidden, and explains why")
    func tierCForbidden() async throws {
        let hsmToken = try await TokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, allowExtractableSecret: false)
        #expect(description.tierECv1 == nil && description.tierRSAv1 == nil)
        #expect(description.shortcomings.count == 2)
        #expect(description.shortcomings.allSatisfy { $0.contains("allow_extractable_secret") })
        let merchant = try SharedForge.ecMerchant
        let payment = try EncryptedPayment(ec: merchant.key.subjectPublicKeyInfo)
        #expect(try await worker.call(payment.request).failureKind == .notSupported)
    }

    @Test(
        "serves tiers B and A without extractable secrets on NSS, which keeps the symmetric keys",
        .enabled(if: NSSTokenDirectory.isInstalled, "needs Debian's libnss3 and libnss3-tools"))
    func strongTiers() async throws {
        let hsmToken = try await NSSTokenDirectory()
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, allowExtractableSecret: false)
        #expect(description.tierECv1 == .b && description.tierRSAv1 == .a)
        #expect(description.shortcomings.isEmpty)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        let payment = try EncryptedPayment.ec()
        #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .b))
    }

    @Test("tries a wrong PIN only once, and fails with loginRefused")
    func wrongPIN() async throws {
        let hsmToken = try await TokenDirectory()
        try hsmToken.directory.write("99887766\n", to: "pin")
        let worker = try WorkerUnderTest(hsmToken)
        let failure = await #expect(throws: WorkerFailure.self) { try await worker.open(hsmToken) }
        #expect(failure?.kind == .loginRefused)
        #expect(failure?.message.contains("C_Login: CKR_PIN_INCORRECT") == true)
        #expect(failure?.message.contains("99887766") == false)
        #expect(try await worker.end() == 69)
    }

    @Test("fails with hsmTokenUnavailable for an absent HSM token, library or PIN file, and names it")
    func absent() async throws {
        let hsmToken = try await TokenDirectory()
        for (change, name): (@Sendable (inout HSMTokenOpening) -> Void, String) in [
            ({ $0.tokenURI = "pkcs11:token=elsewhere" }, "elsewhere"),
            ({ $0.modulePath = "/nonexistent.so" }, "/nonexistent.so"),
            ({ $0.pinFile = "/nonexistent-pin" }, "/nonexistent-pin"),
            ({ $0.tokenURI = "pkcs11:token=paytokend?pin-value=1" }, "pin-value"),
        ] {
            let worker = try WorkerUnderTest(hsmToken)
            let failure = await #expect(throws: WorkerFailure.self) { try await worker.open(hsmToken, change) }
            #expect(failure?.kind == .hsmTokenUnavailable)
            #expect(failure?.message.contains(name) == true, "\(failure?.message ?? "")")
        }
    }

    @Test("names the HSM tokens that the library shows if none has the label")
    func otherLabels() async throws {
        let hsmToken = try await TokenDirectory()
        let serialNumber = try await WorkerUnderTest(hsmToken).open(hsmToken).serialNumber
        let failure = await #expect(throws: WorkerFailure.self) {
            try await WorkerUnderTest(hsmToken).open(hsmToken) { $0.tokenURI = "pkcs11:token=elsewhere" }
        }
        #expect(
            failure?.message.hasSuffix("it shows \"paytokend\" (serial number \(serialNumber)).") == true,
            "\(failure?.message ?? "")")
    }

    @Test("asks for the likely cause if the library shows no HSM token at all")
    func noTokens() async throws {
        let hsmToken = try await TokenDirectory(initialized: false)
        let failure = await #expect(throws: WorkerFailure.self) { try await WorkerUnderTest(hsmToken).open(hsmToken) }
        #expect(
            failure?.message.contains("and no other. Does SOFTHSM2_CONF name a file") == true,
            "\(failure?.message ?? "")")
    }

    @Test("reports PINs that the HSM token wants changed, and serves")
    func pinsToBeChanged() async throws {
        // The flags 0x880000 are CKF_SO_PIN_TO_BE_CHANGED and CKF_USER_PIN_TO_BE_CHANGED.
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "token-flags 0x880000")
        let description = try await WorkerUnderTest(hsmToken).open(hsmToken)
        #expect(description.tierECv1 == .c && description.tierRSAv1 == .c)
        #expect(description.shortcomings.count == 2)
        for flag in ["CKF_SO_PIN_TO_BE_CHANGED", "CKF_USER_PIN_TO_BE_CHANGED"] {
            #expect(description.shortcomings.contains { $0.contains(flag) }, "\(description.shortcomings)")
        }
    }

    @Test("refuses to open an HSM token without a user PIN, and explains why")
    func withoutUserPIN() async throws {
        let hsmToken = try await TokenDirectory.withoutUserPIN()
        let worker = try WorkerUnderTest(hsmToken)
        let failure = await #expect(throws: WorkerFailure.self) { try await worker.open(hsmToken) }
        #expect(failure?.kind == .hsmTokenUnavailable)
        #expect(failure?.message.contains("no user PIN") == true, "\(failure?.message ?? "")")
    }

    @Test("refuses a daemon of another version")
    func versions() async throws {
        let hsmToken = try await TokenDirectory()
        for change: @Sendable (inout HSMTokenOpening) -> Void in [
            { $0.protocolVersion += 1 }, { $0.programVersion = "0.0.0-other" },
        ] {
            let worker = try WorkerUnderTest(hsmToken)
            let failure = await #expect(throws: WorkerFailure.self) { try await worker.open(hsmToken, change) }
            #expect(failure?.kind == .protocolViolation)
        }
    }

    @Test("fails with protocolViolation and exits for a request before the opening, and for a second opening")
    func order() async throws {
        let hsmToken = try await TokenDirectory()
        let early = try WorkerUnderTest(hsmToken)
        #expect(try await early.call(.listKeys).failureKind == .protocolViolation)
        #expect(try await early.end() == 70)
        let twice = try WorkerUnderTest(hsmToken)
        try await twice.open(hsmToken)
        let failure = await #expect(throws: WorkerFailure.self) { try await twice.open(hsmToken) }
        #expect(failure?.kind == .protocolViolation)
        #expect(try await twice.end() == 70)
    }

    @Test(
        "exits with status 70 for bytes that are not a frame, before and after the HSM token is open",
        arguments: [
            [0xFF, 0xFF, 0xFF, 0xFF], [0, 0, 0, 0], [0, 0, 0, 9, 99, 0, 0, 0, 0, 0, 0, 0, 1],
            [0, 0, 0, 10, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 9, 3, 0, 0, 0, 0, 0, 0, 0, 1],
        ] as [[UInt8]])
    func hostileFrames(_ bytes: [UInt8]) async throws {
        let hsmToken = try await TokenDirectory()
        for opened in [false, true] {
            let worker = try WorkerUnderTest(hsmToken)
            if opened { try await worker.open(hsmToken) }
            worker.send(bytes)
            #expect(try await worker.receive() == nil)
            #expect(try await worker.end() == 70)
        }
    }

    @Test("exits with status 70 for an input that ends inside a frame")
    func truncatedStream() async throws {
        let worker = try WorkerUnderTest(try await TokenDirectory())
        worker.send([0, 0, 0, 9, 6])
        #expect(try await worker.end() == 70)
    }
}
