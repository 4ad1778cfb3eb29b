import Foundation
import TestSupport
import Testing
import TokenForge

/// The mint against an implementation that shares nothing with it: the openssl command.
@Suite struct OpenSSLVerificationTests {
    /// `openssl cms -verify` over the detached content, under `root`, at the signing time.
    private func verify(_ token: MintedToken, root: [UInt8]) async throws -> ProgramResult {
        let files = try FreshDirectory()
        try files.write(token.signature, to: "signature")
        try files.write(token.signedContent, to: "content")
        try files.write(ForgePEM.text(root, label: "CERTIFICATE"), to: "root.pem")
        return try await Program.run(
            Program.installed("openssl"),
            [
                "cms", "-verify", "-binary", "-inform", "DER", "-in", files.path("signature"), "-content",
                files.path("content"), "-CAfile", files.path("root.pem"), "-purpose", "any", "-attime",
                String(Int(token.signingTime.timeIntervalSince1970)), "-out", files.path("verified"),
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
        "openssl accepts a minted signature and its chain in every wire form",
        arguments: ["EC_v1", "RSA_v1"], [WireForm.since2014, .since2019, .since2023, .distinguished])
    func acceptsGenuine(version: String, wire: WireForm) async throws {
        let token = try SharedForge.mint.mint(recipe(version, wire: wire))
        let result = try await verify(token, root: SharedForge.authority.root.certificate)
        #expect(result.status == 0, "\(result)")
    }

    @Test(
        "openssl refuses what is signed wrongly",
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
        // Added means: there was none before.
        if deviation == .applicationDataAdded { recipe.applicationData = nil }
        let result = try await verify(SharedForge.mint.mint(recipe), root: SharedForge.authority.root.certificate)
        #expect(result.status != 0, "\(result)")
    }

    @Test(
        "openssl finds nothing wrong with signatures whose fault is in Apple's own rules",
        arguments: [
            Deviation.leafMarkerMissing, .intermediateMarkerMissing, .markersSwapped, .leafMarkerOnIntermediate,
            .twoSigners, .rootCertificateIncluded, .duplicateCertificate, .leafIssuedByRoot, .pointOffCurve, .badTag,
            .signerByKeyIdentifier, .revocationLists,
        ])
    func faultIsElsewhere(deviation: Deviation) async throws {
        let token = try SharedForge.mint.mint(recipe("EC_v1", deviation: deviation))
        let result = try await verify(token, root: SharedForge.authority.root.certificate)
        #expect(result.status == 0, "\(result)")
    }
}
