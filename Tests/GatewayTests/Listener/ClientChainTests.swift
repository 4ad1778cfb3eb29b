import TestSupport
import Testing

@testable import Gateway

/// Which chains of client certificates are verified at all: what it costs must not be up to somebody who is not known yet.
@Suite struct ClientChainTests {
    private let certificates: TestCertificates
    private let authorities: ClientCertificateAuthorities

    init() throws {
        certificates = try TestCertificates(in: FreshDirectory())
        authorities = ClientCertificateAuthorities(roots: [certificates.authority.certificate])
    }

    /// Authorities one below the other, the lowest first, and what the lowest issued before them.
    private func chain(_ names: [String]) throws -> [TestCertificates.Pair] {
        let issuers = try names.reduce(into: [TestCertificates.Pair]()) { issuers, name in
            issuers.insert(try certificates.issueAuthority(name, by: issuers.first), at: 0)
        }
        return [try certificates.issue("backend", names: ["backend.shop.example"], by: issuers.first)] + issuers
    }

    private func accepts(_ chain: [TestCertificates.Pair]) async throws -> Bool {
        await authorities.accept(try chain.map { try $0.der })
    }

    @Test(arguments: [[], ["one"], ["one", "two"], ["one", "two", "three"]])
    func aChainOfUpToFourIsVerified(issuers: [String]) async throws {
        #expect(try await accepts(chain(issuers)))
    }

    @Test func aLongerChainIsNotVerified() async throws {
        #expect(try await !accepts(chain(["one", "two", "three", "four"])))
    }

    @Test func aChainThatLacksAnIssuerIsNotAccepted() async throws {
        var chain = try chain(["one", "two"])
        chain.remove(at: 1)
        #expect(try await !accepts(chain))
    }

    /// Each of them could have issued each other and the leaf, so a search for a path would try every order of them.
    @Test func aChainInWhichTwoShareASubjectIsNotVerified() async throws {
        let one = try certificates.issueAuthority("one")
        let leaf = try certificates.issue("backend", names: ["backend.shop.example"], by: one)
        #expect(try await accepts([leaf, one]))
        let twin = try certificates.issueAuthority("one", names: ["twin.example"], key: one.key)
        #expect(try await !accepts([leaf, one, twin]))
        #expect(try await !accepts([leaf, one, one]))
    }
}
