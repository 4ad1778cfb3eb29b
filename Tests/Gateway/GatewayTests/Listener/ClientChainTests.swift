import Foundation
import TestSupport
import Testing
import X509

@testable import Gateway

/// Limits on the chains of client certificates that are verified. Without them, an unknown client could make
/// verification arbitrarily expensive.
@Suite struct ClientChainTests {
    private let certificates: TestCertificates
    private let authorities: ClientCertificateAuthorities

    init() throws {
        certificates = try TestCertificates(in: FreshDirectory())
        authorities = ClientCertificateAuthorities(roots: [certificates.authority.certificate])
    }

    /// Makes a chain, the client's certificate first. Each authority certifies the one before it, and the first
    /// authority issued the client's certificate.
    private func chain(_ names: [String]) throws -> [TestCertificates.Pair] {
        let issuers = try names.reduce(into: [TestCertificates.Pair]()) { issuers, name in
            issuers.insert(try certificates.issueAuthority(name, by: issuers.first), at: 0)
        }
        return [try certificates.issue("backend", names: ["backend.shop.example"], by: issuers.first)] + issuers
    }

    private func fault(_ chain: [TestCertificates.Pair]) async throws -> ClientChainFault? {
        let chain = try chain.map { try $0.der }
        do throws(ClientChainFault) {
            _ = try await authorities.accept(chain)
            return nil
        } catch { return error }
    }

    private func accepts(_ chain: [TestCertificates.Pair]) async throws -> Bool { try await fault(chain) == nil }

    @Test(arguments: [[], ["one"], ["one", "two"], ["one", "two", "three"]])
    func aChainOfUpToFourIsVerified(issuers: [String]) async throws {
        #expect(try await accepts(chain(issuers)))
    }

    @Test func aLongerChainIsNotVerified() async throws {
        #expect(try await !accepts(chain(["one", "two", "three", "four"])))
    }

    @Test func aChainIsGoodUntilTheFirstOfItsCertificatesEnds() async throws {
        let one = try certificates.issueAuthority("one")
        let soon = Date(timeIntervalSinceNow: 3600)
        let leaf = try certificates.issue("backend", names: ["backend.shop.example"], ends: soon, by: one)
        let end = try await authorities.accept([leaf.der, one.der])
        #expect(abs(end.timeIntervalSince(soon)) < 1)
    }

    @Test func aVerifiedCertificateIsRememberedUntilItsEndAndABoundedNumberOfThem() {
        let verified = VerifiedClientCertificates()
        let now = Date()
        verified.remember([1], until: now + 10, now: now)
        #expect(verified.contains([1], at: now) && verified.contains([1], at: now + 10))
        #expect(!verified.contains([1], at: now + 11) && !verified.contains([2], at: now))
        func bytes(_ number: Int) -> [UInt8] { [UInt8(number >> 8), UInt8(number & 255), 0] }
        for number in 0..<2 * VerifiedClientCertificates.most {
            verified.remember(bytes(number), until: now + 10, now: now)
        }
        #expect(verified.contains([1], at: now), "who is known stays")
        #expect(
            (0..<2 * VerifiedClientCertificates.most).count { verified.contains(bytes($0), at: now) }
                == VerifiedClientCertificates.most - 1)
        verified.remember([3], until: now + 30, now: now + 20)
        #expect(verified.contains([3], at: now + 20), "those that have ended make room")
    }

    @Test func aChainThatLacksAnIssuerIsNotAccepted() async throws {
        var chain = try chain(["one", "two"])
        chain.remove(at: 1)
        #expect(try await fault(chain) == .noPath)
    }

    @Test func criticalPurposesAndNamesAreThoseOfASPIFFEWorkload() async throws {
        let identity = "spiffe://shop.example/backend"
        let workload = try certificates.issue("workload", uris: [identity], isCritical: true)
        #expect(try await fault([workload]) == nil)
        let presented = try #require(PresentedCertificate(der: workload.der, .success(0)))
        #expect(presented.names == [.uri(identity)])
    }

    @Test func eachRefusalHasItsOwnReason() async throws {
        #expect(try await fault([certificates.issue("server", isClient: false)]) == .notForClients)
        #expect(try await fault([certificates.issue("server", isClient: false, isCritical: true)]) == .notForClients)
        let unknown = Certificate.Extension(oid: [1, 2, 3, 4], critical: true, value: [5, 0])
        #expect(try await fault([certificates.issue("x", more: [unknown])]) == .criticalExtension([1, 2, 3, 4]))
        let past = Date(timeIntervalSinceNow: -30)
        #expect(try await fault([certificates.issue("late", ends: past)]) == .notValidNow)
        #expect(try await fault([certificates.other]) == .noPath)
        let one = try certificates.issueAuthority("one")
        #expect(try await fault([certificates.issue("x", by: one), one, one]) == .repeatedSubject)
        let nobody = ClientCertificateAuthorities(roots: [])
        await #expect(throws: ClientChainFault.noAuthorities) { try await nobody.accept([certificates.client.der]) }
    }

    /// Every authority with the same subject could have issued the others and the leaf, so a search for a path would
    /// try them in every order.
    @Test func aChainInWhichTwoShareASubjectIsNotVerified() async throws {
        let one = try certificates.issueAuthority("one")
        let leaf = try certificates.issue("backend", names: ["backend.shop.example"], by: one)
        #expect(try await accepts([leaf, one]))
        let twin = try certificates.issueAuthority("one", names: ["twin.example"], key: one.key)
        #expect(try await !accepts([leaf, one, twin]))
        #expect(try await !accepts([leaf, one, one]))
    }
}
