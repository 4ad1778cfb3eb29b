import Crypto
import Encodings
import Foundation
import PaymentToken
import Refusals
import TestSupport
import Testing
import TokenForge
import X509

@Suite("Trust policy")
struct TrustPolicyTests {
    @Test("Describes a genuine payment token's chain from leaf to root", arguments: PaymentTokenVersion.allCases)
    func genuine(version: PaymentTokenVersion) async throws {
        let minted = try Minting.minted(version)
        let chain = try await Minting.policy().evaluate(SignatureEvidence(of: Minting.paymentToken(minted)))
        let root = try SharedForge.authority.root.certificate
        for (description, der) in zip(chain.certificates, minted.certificates + [root]) {
            let certificate = try Certificate(derEncoded: der)
            #expect(description.sha256 == Array(SHA256.hash(data: der)))
            #expect(description.subject == certificate.subject.description)
            #expect(description.issuer == certificate.issuer.description)
            #expect(description.notBefore == certificate.notValidBefore)
            #expect(description.notAfter == certificate.notValidAfter)
            #expect(Hexadecimal.decode(description.serialNumber) == Array(certificate.serialNumber.bytes))
        }
        #expect(chain.certificates.count == 3)
        #expect(chain.leaf.issuer == chain.intermediate.subject)
        #expect(chain.intermediate.issuer == chain.root.subject)
    }

    /// Deviations, each with a part of the expected refusal. The part proves which check refused it.
    static let untrustedChains: [(Deviation, String)] = [
        (.otherRoot, "do not form a chain from the signer to a trusted root"),
        (.leafIssuedByRoot, "not leaf, intermediate and root"),
        (.leafWithForgedIssuerSignature, "do not form a chain from the signer to a trusted root"),
        (.leafExpired, "leaf certificate was not valid"), (.leafNotYetValid, "leaf certificate was not valid"),
        (.leafWithoutDigitalSignature, "key usage is not digitalSignature"),
        (.leafIsCA, "leaf is a certificate authority"),
        (.leafWithUnknownCriticalExtension, "do not form a chain from the signer to a trusted root"),
        (.intermediateExpired, "intermediate certificate was not valid"),
        (.intermediateNotCA, "do not form a chain from the signer to a trusted root"),
        (.intermediateWithoutKeyCertSign, "key usage is not keyCertSign"),
    ]

    @Test(
        "Refuses each untrusted chain with its specific reason",
        arguments: PaymentTokenVersion.allCases, untrustedChains)
    func untrusted(version: PaymentTokenVersion, deviation: (Deviation, String)) async throws {
        let evidence = try SignatureEvidence(of: Minting.paymentToken(version, [deviation.0]))
        let refusal = try #require(try await awaitedRefusal { _ = try await Minting.policy().evaluate(evidence) })
        #expect(refusal.code == .certificateUntrusted)
        #expect(refusal.details?.contains(deviation.1) == true, "\(refusal.details ?? "")")
    }

    @Test("Tests every untrusted chain that TokenForge can make")
    func allUntrusted() {
        let listed = Set(Self.untrustedChains.map(\.0))
        #expect(listed == Set(Deviation.allCases.filter { deviation in deviation.refusal == "certificate_untrusted" }))
    }

    @Test(
        "Refuses a trusted chain whose markers are missing or on the wrong certificate",
        arguments: PaymentTokenVersion.allCases,
        [
            (.leafMarkerMissing, "leaf certificate has no extension 1.2.840.113635.100.6.29"),
            (.intermediateMarkerMissing, "intermediate certificate has no extension 1.2.840.113635.100.6.2.14"),
            (.markersSwapped, "leaf certificate has no extension"),
            (.leafMarkerOnIntermediate, "leaf certificate has no extension"),
        ] as [(Deviation, String)])
    func markers(version: PaymentTokenVersion, deviation: (Deviation, String)) async throws {
        let evidence = try SignatureEvidence(of: Minting.paymentToken(version, [deviation.0]))
        let refusal = try #require(try await awaitedRefusal { _ = try await Minting.policy().evaluate(evidence) })
        #expect(refusal.code == .markerOIDMissing)
        #expect(refusal.details?.contains(deviation.1) == true, "\(refusal.details ?? "")")
    }

    @Test("Checks the chain before the markers")
    func order() async throws {
        let evidence = try SignatureEvidence(of: Minting.paymentToken(.ecV1, [.otherRoot, .leafMarkerMissing]))
        #expect(
            try await awaitedRefusal { _ = try await Minting.policy().evaluate(evidence) }?.code
                == .certificateUntrusted)
    }

    @Test("Refuses minted payment tokens if Apple's root, or no root, is trusted")
    func foreignRoots() async throws {
        let evidence = try SignatureEvidence(of: Minting.paymentToken())
        for roots in [[], [try AppleRootCAG3.certificate()]] {
            let policy = TrustPolicy(roots: roots, distrusted: [])
            #expect(try await awaitedRefusal { _ = try await policy.evaluate(evidence) }?.code == .certificateUntrusted)
        }
    }

    @Test("Refuses a leaf or intermediate as trusted root, and still accepts the real root next to them")
    func lowerCertificatesAsRoots() async throws {
        let evidence = try SignatureEvidence(of: Minting.paymentToken())
        let leaf = try Certificate(derEncoded: evidence.leafDER)
        let intermediate = try Certificate(derEncoded: evidence.intermediateDER)
        let root = try Certificate(derEncoded: SharedForge.authority.root.certificate)
        for roots in [[leaf], [intermediate], [leaf, intermediate]] {
            let policy = TrustPolicy(roots: roots, distrusted: [])
            #expect(try await awaitedRefusal { _ = try await policy.evaluate(evidence) }?.code == .certificateUntrusted)
        }
        let all = TrustPolicy(roots: [leaf, intermediate, root], distrusted: [])
        #expect(try await all.evaluate(evidence).root.subject == root.subject.description)
    }

    @Test("Refuses a distrusted leaf, intermediate or root")
    func distrusted() async throws {
        let minted = try Minting.minted()
        let evidence = try SignatureEvidence(of: Minting.paymentToken(minted))
        for der in minted.certificates + [try SharedForge.authority.root.certificate] {
            let policy = try Minting.policy(distrusted: [Array(SHA256.hash(data: der))])
            let refusal = try await awaitedRefusal { _ = try await policy.evaluate(evidence) }
            #expect(refusal?.code == .certificateUntrusted)
            #expect(refusal?.details?.contains("distrusted") == true)
        }
    }

    @Test(
        "Accepts signing times from the first to the last second of the leaf's validity, cached or not",
        arguments: [0, 64])
    func validityOfRememberedChain(capacity: Int) async throws {
        let policy = try Minting.policy(chainCacheCapacity: capacity)
        _ = try await policy.evaluate(SignatureEvidence(of: Minting.paymentToken()))
        let leaf = try SharedForge.authority.leafEC
        let (first, last) = (
            leaf.notBefore.timeIntervalSince1970.rounded(.down), leaf.notAfter.timeIntervalSince1970.rounded(.down)
        )
        for (time, isValid) in [(first, true), (last, true), (first - 1, false), (last + 1, false)] {
            let evidence = try SignatureEvidence(
                of: Minting.paymentToken(signingTime: Date(timeIntervalSince1970: time)))
            let refusal = try await awaitedRefusal { _ = try await policy.evaluate(evidence) }
            #expect((refusal == nil) == isValid)
            #expect(isValid || refusal?.code == .certificateUntrusted)
        }
    }

    @Test("Checks a chain again if a cached leaf comes with another intermediate")
    func rememberedLeafOtherIntermediate() async throws {
        let policy = try Minting.policy()
        _ = try await policy.evaluate(SignatureEvidence(of: Minting.paymentToken()))
        for deviation in [Deviation.intermediateExpired, .intermediateMarkerMissing] {
            let evidence = try SignatureEvidence(of: Minting.paymentToken(.ecV1, [deviation]))
            #expect(
                try await awaitedRefusal { _ = try await policy.evaluate(evidence) }?.code.rawValue == deviation.refusal
            )
        }
    }
}

@Suite("The built-in Apple Root CA - G3")
struct AppleRootTests {
    @Test("Has the fingerprint that Apple publishes, and is self-signed with P-384")
    func fingerprint() throws {
        // Apple publishes this fingerprint at https://www.apple.com/certificateauthority.
        let published =
            "63:34:3A:BF:B8:9A:6A:03:EB:B5:7E:9B:3F:5F:A7:BE:7C:4F:5C:75:6F:30:17:B3:A8:C4:88:C3:65:3E:91:79"
        let expected = [UInt8](hexadecimal: published.replacing(":", with: ""))
        #expect(AppleRootCAG3.der.count == 583)
        #expect(Array(SHA256.hash(data: AppleRootCAG3.der)) == expected)
        let root = try AppleRootCAG3.certificate()
        #expect(root.subject.description == "C=US,O=Apple Inc.,OU=Apple Certification Authority,CN=Apple Root CA - G3")
        #expect(root.subject == root.issuer)
        #expect(root.publicKey.isValidSignature(root.signature, for: root))
        #expect(P384.Signing.PublicKey(root.publicKey) != nil)
    }

    @Test(
        "Equals the root that the Swift toolchain embeds for signed packages",
        .enabled(if: swiftPackageProgram() != nil, "no swift-package program on the PATH"))
    func toolchain() throws {
        let program = try Data(contentsOf: try #require(swiftPackageProgram()), options: .mappedIfSafe)
        #expect(program.firstRange(of: Data(AppleRootCAG3.der)) != nil)
    }
}

/// The program `swift-package` on the PATH, or in the directory to which the PATH's `swift` links; nil if there is
/// none.
private func swiftPackageProgram() -> URL? {
    let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
    let directories = path.split(separator: ":").map { directory in URL(filePath: String(directory)) }
    let beside = directories.map { directory in
        directory.appending(path: "swift").resolvingSymlinksInPath().deletingLastPathComponent()
    }
    return (directories + beside).map { directory in directory.appending(path: "swift-package") }
        .first { file in FileManager.default.isReadableFile(atPath: file.path) }
}
