import Foundation
import TestSupport
import Testing
import TokenForge

/// Compares the structure of minted CMS messages, as `openssl asn1parse` lists it, with that of real ones.
@Suite struct WireShapeTests {
    @Test("mints a message with indefinite lengths at five levels, and definite signerInfos")
    func indefiniteLevels() async throws {
        let lines = try await listing(of: mint("EC_v1").signature)
        let indefinite = lines.filter { $0.contains("l=inf") }
        // These are the depths of ContentInfo, its [0], SignedData, encapContentInfo and certificates.
        #expect(indefinite.map(depth) == [0, 1, 2, 3, 3])
        #expect(lines.filter { $0.contains(": EOC") || $0.contains("EOC") }.count == 5)
        let signerInfos = try #require(lines.last { depth($0) == 3 && $0.contains("SET") })
        #expect(!signerInfos.contains("l=inf"))
    }

    @Test("mints the DER form without indefinite lengths")
    func distinguishedForm() async throws {
        let lines = try await listing(of: mint("EC_v1", wire: .distinguished).signature)
        #expect(!lines.contains { $0.contains("l=inf") })
    }

    @Test("includes cmsAlgorithmProtection and SHA-256's NULL only in the forms of the years that had them")
    func forms() async throws {
        for (wire, protection, null) in [
            (WireForm.since2014, false, true), (.since2019, true, true), (.since2023, true, false),
        ] {
            let lines = try await listing(of: mint("EC_v1", wire: wire).signature)
            #expect(lines.contains { $0.contains("1.2.840.113549.1.9.52") } == protection)
            let digest = try #require(lines.firstIndex { $0.contains(":sha256") })
            #expect(lines[digest + 1].contains("NULL") == null)
        }
    }

    @Test(
        "mints a message with the structure of a real one of the same year",
        .enabled(if: Fixtures.directory != nil, "set PAYTOKEND_INTEROP_FIXTURES to a folder of real tokens"),
        arguments: ["EC_v1", "RSA_v1"])
    func likeRealOnes(version: String) async throws {
        var minted: [[String]] = []
        for wire in [WireForm.since2014, .since2019, .since2023] {
            minted.append(try await skeleton(of: mint(version, wire: wire).signature))
        }
        // Each year's structure must differ from the others. Otherwise the comparison could not fail.
        #expect(Set(minted).count == 3)
        for paymentToken in try Fixtures.paymentTokens() where paymentToken.version == version {
            let real = try await skeleton(of: paymentToken.signature)
            #expect(minted.contains(real), "\(paymentToken.name): \(real.joined(separator: "\n"))")
        }
    }

    private func mint(_ version: String, wire: WireForm = .since2023) throws -> MintedToken {
        let merchant = try (version == "EC_v1" ? SharedForge.ecMerchant : SharedForge.rsaMerchant).merchant
        return try SharedForge.mint.mint(TokenRecipe(merchant: merchant, wire: wire))
    }

    private func listing(of der: [UInt8]) async throws -> [String] {
        let files = try FreshDirectory()
        try files.write(der, to: "der")
        let result = try await Program.run(
            Program.installed("openssl"), ["asn1parse", "-inform", "DER", "-in", files.path("der")])
        #expect(result.status == 0, "\(result)")
        return result.output.split(separator: "\n").map(String.init)
    }

    /// Returns depth, form, tag and object identifiers of each element, without lengths and values. It omits
    /// certificates' extensions, because their number and order differ between Apple's certificates.
    private func skeleton(of der: [UInt8]) async throws -> [String] {
        var lines: [String] = []
        var skipped: Int?
        for line in try await listing(of: der) {
            if let depth = skipped, self.depth(line) > depth { continue }
            skipped = nil
            let tag = line.split(separator: ":", maxSplits: 3).map(String.init)
            let indefinite = line.contains("l=inf") ? "inf" : ""
            let object = line.contains("OBJECT") ? (tag.last ?? "") : ""
            let kind =
                line.components(separatedBy: ": ").dropFirst().first?
                .split(separator: ":").first.map { $0.trimmingCharacters(in: .whitespaces) } ?? ""
            lines.append(
                "\(self.depth(line)) \(kind.split(separator: " ").prefix(3).joined(separator: " ")) \(object)\(indefinite)"
            )
            if kind.hasPrefix("cont [ 3 ]") { skipped = self.depth(line) }
        }
        return lines
    }

    private func depth(_ line: String) -> Int {
        guard let start = line.range(of: ":d="), let end = line.range(of: " ", range: start.upperBound..<line.endIndex)
        else { return -1 }
        return Int(line[start.upperBound..<end.lowerBound].trimmingCharacters(in: .whitespaces)) ?? -1
    }
}

/// Checks minted payment tokens with the openssl command, which shares no code with the mint.
@Suite struct OpenSSLVerificationTests {
    /// Runs `openssl cms -verify` over the detached content, under `root`, at the signing time.
    private func verify(_ paymentToken: MintedToken, root: [UInt8]) async throws -> ProgramResult {
        let files = try FreshDirectory()
        try files.write(paymentToken.signature, to: "signature")
        try files.write(paymentToken.signedContent, to: "content")
        try files.write(ForgePEM.text(root, label: "CERTIFICATE"), to: "root.pem")
        return try await Program.run(
            Program.installed("openssl"),
            [
                "cms", "-verify", "-binary", "-inform", "DER", "-in", files.path("signature"), "-content",
                files.path("content"), "-CAfile", files.path("root.pem"), "-purpose", "any", "-attime",
                String(Int(paymentToken.signingTime.timeIntervalSince1970)), "-out", files.path("verified"),
            ])
    }

    private func recipe(
        _ version: String, wire: WireForm = .since2023, deviation: Deviation? = nil
    ) throws -> TokenRecipe {
        let merchant = try (version == "EC_v1" ? SharedForge.ecMerchant : SharedForge.rsaMerchant).merchant
        return TokenRecipe(
            merchant: merchant, applicationData: Array("order 1".utf8), wire: wire,
            deviations: deviation.map { [$0] } ?? [])
    }

    @Test(
        "mints signatures and chains that openssl accepts in every wire form",
        arguments: ["EC_v1", "RSA_v1"], [WireForm.since2014, .since2019, .since2023, .distinguished])
    func acceptsGenuine(version: String, wire: WireForm) async throws {
        let paymentToken = try SharedForge.mint.mint(recipe(version, wire: wire))
        let result = try await verify(paymentToken, root: SharedForge.authority.root.certificate)
        #expect(result.status == 0, "\(result)")
    }

    @Test(
        "mints wrong signatures that openssl refuses",
        arguments: [
            Deviation.flippedSignature, .wrongMessageDigest, .otherContent, .dataChanged, .keyMaterialChanged,
            .transactionIdentifierChanged, .applicationDataAdded, .applicationDataRemoved, .applicationDataChanged,
            .signatureByOtherKey, .thirdCertificateSigns, .otherRoot, .leafExpired, .leafNotYetValid,
            .intermediateExpired, .intermediateNotCA, .intermediateWithoutKeyCertSign, .leafWithForgedIssuerSignature,
            .leafWithUnknownCriticalExtension, .notCMS, .truncatedSignature, .signerNotAmongCertificates,
            .onlyLeafCertificate, .noCertificates, .encapsulatedContent,
        ], ["EC_v1", "RSA_v1"])
    func refusesDeviation(deviation: Deviation, version: String) async throws {
        var recipe = try recipe(version, deviation: deviation)
        // The deviation adds applicationData, so the genuine payment token must have none.
        if deviation == .applicationDataAdded { recipe.applicationData = nil }
        let result = try await verify(SharedForge.mint.mint(recipe), root: SharedForge.authority.root.certificate)
        #expect(result.status != 0, "\(result)")
    }

    @Test(
        "mints signatures that openssl accepts because they break only Apple's own rules",
        arguments: [
            Deviation.leafMarkerMissing, .intermediateMarkerMissing, .markersSwapped, .leafMarkerOnIntermediate,
            .twoSigners, .rootCertificateIncluded, .duplicateCertificate, .leafIssuedByRoot, .pointOffCurve, .badTag,
            .signerByKeyIdentifier, .revocationLists,
        ])
    func faultOfOtherProgram(deviation: Deviation) async throws {
        let paymentToken = try SharedForge.mint.mint(recipe("EC_v1", deviation: deviation))
        let result = try await verify(paymentToken, root: SharedForge.authority.root.certificate)
        #expect(result.status == 0, "\(result)")
    }
}
