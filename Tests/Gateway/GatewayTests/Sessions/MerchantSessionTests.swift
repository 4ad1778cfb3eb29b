import Encodings
import Foundation
import NIOSSL
import TLSHandshake
import TestSupport
import Testing

@testable import Gateway

/// Merchant sessions with a correct Apple host.
@Suite struct MerchantSessionTests {
    @Test(arguments: [2, 3], [AppleCertificate.validECDSA, .validRSA])
    func applesAnswerComesByteForByte(version: Int, certificate: AppleCertificate) async throws {
        let bench = try await SessionBench(certificate: certificate, versions: version...version)
        let session = try await bench.session()
        #expect(session.body == Array(SimulatedApple.session.utf8))
        #expect(session.contentType == "application/json")
        #expect(bench.heard.sessions.current == ["ok"])
        #expect(bench.heard.signatures.current == ["ok"])
    }

    @Test func appleGetsItsFourMembersAndTheMerchantsCertificate() async throws {
        let bench = try await SessionBench()
        _ = try await bench.session()
        let request = try #require(bench.apple.requests.first)
        #expect(request.method == "POST")
        #expect(request.target == "/paymentservices/paymentSession")
        #expect(request.serverName == "apple-pay-gateway.apple.com")
        #expect(request.headers["host"] == "apple-pay-gateway.apple.com")
        #expect(request.headers["content-type"] == "application/json")
        #expect(request.members == ["merchantIdentifier", "displayName", "initiative", "initiativeContext"])
        #expect(request.string("displayName") == "Bücher & more")
        #expect(request.string("initiativeContext") == "shop.example")
        #expect(request.merchantIdentifier == SoftwareIdentities.merchantIdentifier)
    }

    @Test(arguments: [TLSSignatureAlgorithm.pssSHA256, .pkcs1SHA256])
    func inTLS12TheKeySignsAsTheServerWants(algorithm: TLSSignatureAlgorithm) async throws {
        let bench = try await SessionBench(
            versions: 2...2, signatureAlgorithms: [SignatureAlgorithm(rawValue: algorithm.codePoint)])
        _ = try await bench.session()
        #expect(bench.identities.algorithms.current == [algorithm])
        guard case .tls12(let transcript)? = bench.identities.inputs.current.first else {
            Issue.record("not a TLS 1.2 handshake")
            return
        }
        #expect(transcript.serverName == "apple-pay-gateway.apple.com")
    }

    @Test func aTokenWithoutPSSSignsForTLS12() async throws {
        let key = try await SoftwareIdentities.shared.value.with([.pkcs1SHA256])
        let bench = try await SessionBench(
            identities: SoftwareIdentities([SoftwareIdentities.merchantIdentifier: [key]]))
        _ = try await bench.session()
        #expect(bench.identities.algorithms.current == [.pkcs1SHA256])
    }

    // MARK: Connections

    @Test func anotherSessionOfTheSameMerchantNeedsNoSignature() async throws {
        let bench = try await SessionBench()
        _ = try await bench.session()
        _ = try await bench.session()
        #expect(bench.apple.connectionCount == 1)
        #expect(bench.identities.inputs.current.count == 1)
        #expect(bench.heard.connections.current == [true, false])
    }

    @Test func aConnectionServesNoOtherMerchant() async throws {
        let other = try SoftwareIdentities.Key(merchant: "merchant.com.example.other")
        let identities = SoftwareIdentities([
            SoftwareIdentities.merchantIdentifier: [try await SoftwareIdentities.shared.value],
            "merchant.com.example.other": [other],
        ])
        let bench = try await SessionBench(identities: identities)
        var request = SessionBench.request
        _ = try await bench.session(request)
        request.merchantIdentifier = "merchant.com.example.other"
        _ = try await bench.session(request)
        _ = try await bench.session(SessionBench.request)
        #expect(bench.apple.requests.map(\.connection) == [1, 2, 1])
        #expect(
            bench.apple.requests.map(\.merchantIdentifier)
                == bench.apple.requests.map { $0.string("merchantIdentifier") })
    }

    @Test func aConnectionThatAppleHasClosedIsNotUsed() async throws {
        let bench = try await SessionBench()
        _ = try await bench.session()
        try await bench.apple.endConnections()
        _ = try await bench.session()
        #expect(bench.apple.requests.map(\.connection) == [1, 2])
    }

    @Test func aConnectionThatAppleWantsClosedIsNotKept() async throws {
        let bench = try await SessionBench([.answer(200, ["Connection: close"])])
        _ = try await bench.session()
        #expect(bench.sessions.idleConnections == 0)
    }

    @Test func anIdleConnectionIsClosedAfterAWhile() async throws {
        var limits = ConnectionPoolLimits()
        limits.idle = .milliseconds(1)
        let bench = try await SessionBench(limits: limits)
        _ = try await bench.session()
        try await wait(for: "the connection to be closed") { bench.sessions.idleConnections == 0 }
    }

    @Test func anOldConnectionIsNotUsed() async throws {
        var limits = ConnectionPoolLimits()
        limits.age = .zero
        let bench = try await SessionBench(limits: limits)
        _ = try await bench.session()
        _ = try await bench.session()
        #expect(bench.apple.connectionCount == 2)
    }

    @Test func moreConnectionsThanAllowedAreRefused() async throws {
        var limits = ConnectionPoolLimits()
        limits.most = 1
        let bench = try await SessionBench(limits: limits)
        bench.identities.latch.close()
        let first = Begun { try? await bench.session() }
        try await wait(for: "the first signature to be asked for") { bench.identities.latch.waiting == 1 }
        #expect(await bench.failure() == .tooManyConnections)
        bench.identities.latch.open()
        #expect(try await first.value() != nil)
    }

    @Test func oneMerchantDoesNotHaveAllConnections() async throws {
        var limits = ConnectionPoolLimits()
        limits.maximumOfOwner = 1
        let identities = try await SoftwareIdentities.twoMerchants()
        let bench = try await SessionBench(identities: identities, limits: limits)
        identities.latch.close()
        let first = Begun { try? await bench.session() }
        try await wait(for: "the first signature to be asked for") { identities.latch.waiting == 1 }
        #expect(await bench.failure() == .tooManyConnections)
        let other = Begun {
            var request = SessionBench.request
            request.merchantIdentifier = "merchant.com.example.other"
            return try? await bench.session(request)
        }
        try await wait(for: "the other merchant's signature to be asked for") { identities.latch.waiting == 2 }
        identities.latch.open()
        #expect(try await first.value() != nil)
        #expect(try await other.value() != nil)
    }

    @Test func anIdleConnectionMakesRoomForAnotherMerchants() async throws {
        var limits = ConnectionPoolLimits()
        limits.most = 1
        let identities = try await SoftwareIdentities.twoMerchants()
        let bench = try await SessionBench(identities: identities, limits: limits)
        _ = try await bench.session()
        var request = SessionBench.request
        request.merchantIdentifier = "merchant.com.example.other"
        _ = try await bench.session(request)
        #expect(bench.apple.connectionCount == 2)
    }

    // MARK: Identities

    @Test func aMerchantsIdentitiesAreAskedForOnceInAWhile() async throws {
        let bench = try await SessionBench()
        _ = try await bench.session()
        _ = try await bench.session()
        #expect(bench.identities.listed.current == 1)
    }

    @Test(arguments: ["key_not_active", "unknown_public_key_hash", "key_not_found"])
    func whenTheNewestKeyNoLongerSignsTheNextDoes(code: String) async throws {
        let newest = try SoftwareIdentities.Key(merchant: SoftwareIdentities.merchantIdentifier)
        let next = try await SoftwareIdentities.shared.value
        let bench = try await SessionBench(
            identities: SoftwareIdentities([SoftwareIdentities.merchantIdentifier: [newest, next]]))
        bench.identities.failures.change {
            $0[newest.identity.publicKeyHash] = .refused(code: code, message: "")
        }
        _ = try await bench.session()
        // Apple received one request, on the connection with the next key.
        #expect(bench.apple.requests.count == 1)
        #expect(bench.heard.signatures.current == ["no_active_identity", "ok"])
        // The cached list of the merchant's keys is requested again.
        _ = try await bench.session()
        #expect(bench.identities.listed.current == 2)
    }

    @Test func aTokenThatIsAwayIsNotAskedForAnotherKey() async throws {
        let newest = try SoftwareIdentities.Key(merchant: SoftwareIdentities.merchantIdentifier)
        let next = try await SoftwareIdentities.shared.value
        let bench = try await SessionBench(
            identities: SoftwareIdentities([SoftwareIdentities.merchantIdentifier: [newest, next]]))
        let failure = IdentityFailure.refused(code: "hsm_unavailable", message: "the token's name")
        bench.identities.failures.change { $0[newest.identity.publicKeyHash] = failure }
        #expect(await bench.failure() == .paytokend(failure))
        #expect(bench.apple.requests.isEmpty)
        let answer = SessionFailure.paytokend(failure).answer
        #expect(answer.code.rawValue == "hsm_unavailable")
        #expect(answer.code.statusAndRetryAfter.status == 503)
        #expect(!answer.message.contains("the token's name"))
    }

    @Test func aMerchantWithoutAnIdentityIsTold() async throws {
        let bench = try await SessionBench(identities: SoftwareIdentities([:]))
        #expect(await bench.failure() == .noActiveIdentity)
        #expect(bench.apple.connectionCount == 0)
    }

    @Test func aMissingIdentityIsCachedBriefly() async throws {
        let none = SoftwareIdentities([:])
        let kept = IdentityCache(none, ofNone: .seconds(3_600))
        for _ in 0..<3 { #expect(try await kept.identities(of: "merchant.com.example", for: SessionOrigin()).isEmpty) }
        #expect(none.listed.current == 1)
        let forgetful = IdentityCache(none, ofNone: .zero)
        for _ in 0..<3 {
            #expect(try await forgetful.identities(of: "merchant.com.example", for: SessionOrigin()).isEmpty)
        }
        #expect(none.listed.current == 4)
    }

    @Test func aCertificateIsUsedWhileItIsValidOnly() async throws {
        let key = try await SoftwareIdentities.shared.value
        let identity = try #require(MerchantIdentity(key.identity))
        let early = try await SessionBench(now: { identity.notBefore.addingTimeInterval(-1) })
        #expect(await early.failure() == .identityNotYetValid)
        let late = try await SessionBench(now: { identity.notAfter.addingTimeInterval(1) })
        #expect(await late.failure() == .identityExpired)
        #expect(early.apple.connectionCount + late.apple.connectionCount == 0)
    }

    @Test func observersLearnWhenTheCertificateExpires() async throws {
        let bench = try await SessionBench()
        _ = try await bench.session()
        #expect(
            bench.heard.ends.current
                == [try await SoftwareIdentities.shared.value.identity.notAfter].map { end in
                    Date(timeIntervalSince1970: end.timeIntervalSince1970.rounded(.down))
                })
    }

    @Test func paytokendsAbsenceIsSaid() async throws {
        let bench = try await SessionBench()
        let failure = IdentityFailure.unreachable(.notThere(path: "/run/secret/path"))
        bench.identities.failures.change { $0[""] = failure }
        #expect(await bench.failure() == .paytokend(failure))
        let answer = SessionFailure.paytokend(failure).answer
        #expect(answer.code.rawValue == "paytokend_unavailable")
        #expect(!"\(answer)".contains("/run/secret/path"))
    }
}
