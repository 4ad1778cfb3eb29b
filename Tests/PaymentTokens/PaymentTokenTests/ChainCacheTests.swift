import Crypto
import CryptoExtras
import Foundation
import Refusals
import SwiftASN1
import TestSupport
import Testing
import TokenForge
import X509

@testable import PaymentToken

@Suite("Cached chains")
struct ChainCacheTests {
    @Test("Caches accepted chains only")
    func onlyAccepted() async throws {
        let policy = try Minting.policy()
        for deviation in [Deviation.leafExpired, .leafMarkerMissing, .otherRoot] {
            let evidence = try SignatureEvidence(of: Minting.paymentToken(.ecV1, [deviation]))
            #expect(try await awaitedRefusal { _ = try await policy.evaluate(evidence) } != nil)
        }
        #expect(policy.rememberedChains == 0)
        for _ in 0..<3 { _ = try await policy.evaluate(SignatureEvidence(of: Minting.paymentToken())) }
        #expect(policy.rememberedChains == 1)
        _ = try await policy.evaluate(SignatureEvidence(of: Minting.paymentToken(.rsaV1)))
        #expect(policy.rememberedChains == 2)
    }

    @Test("Finds a cached chain by the exact bytes of leaf and intermediate")
    func answersFromMemory() throws {
        let chain = VerifiedChain.sample
        var cache = ChainCache(capacity: 2)
        cache.insert(chain, for: .init(leafDER: [1], intermediateDER: [2]))
        let time = Date(timeIntervalSince1970: 50)
        #expect(cache.chain(for: .init(leafDER: [1], intermediateDER: [2]), validAt: time) == chain)
        #expect(cache.chain(for: .init(leafDER: [1], intermediateDER: [3]), validAt: time) == nil)
        #expect(cache.chain(for: .init(leafDER: [2], intermediateDER: [1]), validAt: time) == nil)
        // The cache's key must not be the concatenation of both certificates.
        #expect(cache.chain(for: .init(leafDER: [1, 2], intermediateDER: []), validAt: time) == nil)
    }

    @Test(
        "Does not use a cached chain if any of its certificates was not valid at the signing time",
        arguments: [9, 91, 0, 100])
    func validities(seconds: Double) {
        // The certificates are valid from 10 to 100, from 0 to 90 and from 5 to 95 seconds, so the chain is from 10 to
        // 90.
        var cache = ChainCache(capacity: 2)
        cache.insert(.sample, for: .init(leafDER: [1], intermediateDER: [2]))
        let time = Date(timeIntervalSince1970: seconds)
        #expect(cache.chain(for: .init(leafDER: [1], intermediateDER: [2]), validAt: time) == nil)
    }

    @Test("Removes the oldest chain first when the cache is full")
    func bounded() {
        var cache = ChainCache(capacity: 2)
        let time = Date(timeIntervalSince1970: 50)
        for leaf in UInt8(1)...3 { cache.insert(.sample, for: .init(leafDER: [leaf], intermediateDER: [])) }
        #expect(cache.count == 2)
        #expect(cache.chain(for: .init(leafDER: [1], intermediateDER: []), validAt: time) == nil)
        #expect(cache.chain(for: .init(leafDER: [3], intermediateDER: []), validAt: time) != nil)
    }

    @Test("Refuses a chain whose root was not valid at the signing time")
    func rootValidity() async throws {
        let chain = try TestChain(rootNotAfter: Date(timeIntervalSince1970: 1_000_000_100))
        let policy = TrustPolicy(roots: [chain.root], distrusted: [])
        let inside = SignatureEvidence(
            leafDER: chain.leafDER, intermediateDER: chain.intermediateDER,
            signingTime: Date(timeIntervalSince1970: 1_000_000_100))
        #expect(try await policy.evaluate(inside).root.subject == "CN=root")
        let outside = SignatureEvidence(
            leafDER: chain.leafDER, intermediateDER: chain.intermediateDER,
            signingTime: Date(timeIntervalSince1970: 1_000_000_101))
        let refusal = try await awaitedRefusal { _ = try await policy.evaluate(outside) }
        #expect(refusal?.details == "the root certificate was not valid at the signing time")
    }

    @Test("Refuses a chain whose root is not a certificate authority")
    func rootNotAuthority() async throws {
        let chain = try TestChain(rootIsAuthority: false)
        let evidence = SignatureEvidence(
            leafDER: chain.leafDER, intermediateDER: chain.intermediateDER,
            signingTime: Date(timeIntervalSince1970: 1_000_000_000))
        let policy = TrustPolicy(roots: [chain.root], distrusted: [])
        #expect(try await awaitedRefusal { _ = try await policy.evaluate(evidence) }?.code == .certificateUntrusted)
    }

    @Test("Refuses bytes that are not a certificate as untrusted")
    func notCertificates() async throws {
        let chain = try TestChain()
        let policy = TrustPolicy(roots: [chain.root], distrusted: [])
        for (leaf, intermediate) in [([0x30, 0x00], chain.intermediateDER), (chain.leafDER, [0x30, 0x00])] {
            let evidence = SignatureEvidence(
                leafDER: leaf, intermediateDER: intermediate, signingTime: Date(timeIntervalSince1970: 1_000_000_000))
            #expect(try await awaitedRefusal { _ = try await policy.evaluate(evidence) }?.code == .certificateUntrusted)
        }
    }
}

extension VerifiedChain {
    fileprivate static let sample = VerifiedChain(
        leaf: CertificateDescription(from: 10, to: 100), intermediate: CertificateDescription(from: 0, to: 90),
        root: CertificateDescription(from: 5, to: 95))
}

extension CertificateDescription {
    fileprivate init(from: Double, to: Double) {
        self.init(
            subject: "CN=a", issuer: "CN=b", serialNumber: "01", notBefore: Date(timeIntervalSince1970: from),
            notAfter: Date(timeIntervalSince1970: to), sha256: [])
    }
}

/// A chain of three certificates with Apple Pay's markers, made with swift-certificates, in forms that TokenForge
/// cannot make.
struct TestChain {
    let root: Certificate
    let intermediateDER: [UInt8]
    let leafDER: [UInt8]

    /// The types of the root's and the intermediate's keys.
    enum Issuers: CaseIterable {
        case p256, p384, p521, rsa
    }

    init(
        rootNotAfter: Date = Date(timeIntervalSince1970: 2_000_000_000), rootIsAuthority: Bool = true,
        issuers: Issuers = .p256
    ) throws {
        let keys =
            try (0..<2).map { _ in
                switch issuers {
                case .p256: Certificate.PrivateKey(P256.Signing.PrivateKey())
                case .p384: Certificate.PrivateKey(P384.Signing.PrivateKey())
                case .p521: Certificate.PrivateKey(P521.Signing.PrivateKey())
                case .rsa: try Certificate.PrivateKey(_RSA.Signing.PrivateKey(keySize: .bits2048))
                }
            } + [Certificate.PrivateKey(P256.Signing.PrivateKey())]
        let algorithm: Certificate.SignatureAlgorithm =
            switch issuers {
            case .p256: .ecdsaWithSHA256
            case .p384: .ecdsaWithSHA384
            case .p521: .ecdsaWithSHA512
            case .rsa: .sha256WithRSAEncryption
            }
        func certificate(
            _ name: String, _ key: Int, issuer: String, _ issuerKey: Int, notAfter: Date,
            extensions: Certificate.Extensions
        ) throws -> Certificate {
            try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: keys[key].publicKey,
                notValidBefore: Date(timeIntervalSince1970: 900_000_000), notValidAfter: notAfter,
                issuer: DistinguishedName { CommonName(issuer) }, subject: DistinguishedName { CommonName(name) },
                signatureAlgorithm: algorithm, extensions: extensions, issuerPrivateKey: keys[issuerKey])
        }
        let late = Date(timeIntervalSince1970: 2_000_000_000)
        root = try certificate(
            "root", 0, issuer: "root", 0, notAfter: rootNotAfter,
            extensions: Certificate.Extensions {
                Critical(
                    rootIsAuthority
                        ? BasicConstraints.isCertificateAuthority(maxPathLength: nil) : .notCertificateAuthority)
                Critical(KeyUsage(keyCertSign: true))
            })
        let intermediate = try certificate(
            "intermediate", 1, issuer: "root", 0, notAfter: late,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(keyCertSign: true))
                Certificate.Extension(
                    oid: [1, 2, 840, 113635, 100, 6, 2, 14], critical: false, value: [0x05, 0x00])
            })
        let leaf = try certificate(
            "leaf", 2, issuer: "intermediate", 1, notAfter: late,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true))
                Certificate.Extension(oid: [1, 2, 840, 113635, 100, 6, 29], critical: false, value: [0x05, 0x00])
            })
        intermediateDER = try Self.der(intermediate)
        leafDER = try Self.der(leaf)
    }

    private static func der(_ certificate: Certificate) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }
}
