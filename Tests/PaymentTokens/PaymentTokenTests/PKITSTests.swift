import Foundation
import TestSupport
import Testing
import X509

@testable import PaymentToken

/// Paths of NIST's PKITS under the rules for a payment token's chain. The policy checks Apple's markers last, and no PKITS
/// certificate has them. So `marker_oid_missing` means that the path was accepted.
@Suite("PKITS certificate paths")
struct PKITSTests {
    /// Valid PKITS paths that the policy refuses, by the rule that is stricter than RFC 5280.
    private static let stricter = [
        "names are compared byte by byte": [
            "ValidNameChainingWhitespaceTest3EE", "ValidNameChainingWhitespaceTest4EE",
            "ValidNameChainingCapitalizationTest5EE", "ValidUTF8StringCaseInsensitiveMatchTest11EE",
            "ValidRolloverfromPrintableStringtoUTF8StringTest10EE",
        ],
        "a chain is leaf, intermediate and root": ["ValidUnknownNotCriticalCertificateExtensionTest1EE"],
        "the leaf is no certificate authority": ["ValidpathLenConstraintTest8EE"],
        "no signature is verified by DSA": ["ValidDSASignaturesTest4EE"],
        "swift-certificates does not read unique identifiers": ["ValidNameUIDsTest6EE"],
        "swift-certificates supports constraints of DNS names, URIs and addresses alone": [
            "ValidDNnameConstraintsTest1EE", "ValidDNnameConstraintsTest4EE", "ValidDNnameConstraintsTest5EE",
            "ValidDNnameConstraintsTest6EE", "ValidDNnameConstraintsTest11EE", "ValidRFC822nameConstraintsTest21EE",
            "ValidRFC822nameConstraintsTest23EE", "ValidRFC822nameConstraintsTest25EE",
        ],
        "swift-certificates excludes the subdomains of an excluded host": ["ValidURInameConstraintsTest36EE"],
    ]

    @Test("Accepts the valid paths, and refuses the invalid ones and those that a stricter rule excludes")
    func paths() async throws {
        var certificates: [String: [UInt8]] = [:]
        var tests: [(leaf: String, issuer: String)] = []
        for line in try PublishedVectors.nist("PKITS.txt").split(separator: "\n") {
            let words = line.split(separator: " ").map(String.init)
            if words[0] == "test" {
                tests.append((words[1], words[2]))
            } else {
                certificates[words[1]] = Array(try #require(Data(base64Encoded: words[2])))
            }
        }
        let root = try #require(certificates["TrustAnchorRootCertificate"])
        let policy = TrustPolicy(roots: [try Certificate(derEncoded: root)], distrusted: [])
        let stricter = Set(Self.stricter.values.joined())
        var (accepted, refused, excluded) = (0, 0, 0)
        for test in tests {
            let evidence = SignatureEvidence(
                leafDER: try #require(certificates[test.leaf]),
                intermediateDER: try #require(certificates[test.issuer]),
                // 2020-01-01; the certificates are valid from 2010 to 2030 unless a test changes that.
                signingTime: Date(timeIntervalSince1970: 1_577_836_800))
            let refusal = try #require(try await awaitedRefusal { _ = try await policy.evaluate(evidence) })
            let isValid = test.leaf.hasPrefix("Valid")
            let isExpected = isValid && !stricter.contains(test.leaf)
            #expect(
                refusal.code == (isExpected ? .markerOIDMissing : .certificateUntrusted),
                "\(test.leaf): \(refusal.details ?? "")")
            if isExpected { accepted += 1 } else if isValid { excluded += 1 } else { refused += 1 }
        }
        #expect(accepted == 13)
        #expect(refused == 32)
        #expect(excluded == 18)
    }
}
