import Foundation
import KeyTypes
import PaymentToken
import PortalRequests
import TestSupport
import Testing
import TokenForge

@testable import MerchantKeys

/// The changes at Apple that the daemon never makes, whatever people approve.
@Suite struct PortalWriteRulesTests {
    private static let merchant = "merchant.com.example"
    private static let id = CertificateId("C1")!

    private func forged(
        _ type: ForgeKeyType = .p256, _ name: String = merchant, kind: ForgedCertificateKind = .paymentProcessing
    ) throws -> ForgedMerchant {
        try ForgedMerchant(
            authority: SharedForge.authority, type: type,
            profile: MerchantCertificateProfile(merchantIdentifier: name, kind: kind))
    }

    private func hash(_ merchant: ForgedMerchant) -> PublicKeyHash {
        PublicKeyHash.of(subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo)
    }

    private func list(
        _ forged: ForgedMerchant, type: String = "APPLE_PAY", isActivated: Bool? = false, appleId: String? = "A1",
        count: Int = 1
    ) -> PortalList {
        let entry = PortalList.Entry(
            identifier: "C1", type: type, isActivated: isActivated, of: Self.merchant, content: forged.certificate)
        return PortalList(
            appleId: appleId, entries: [PortalList.Entry](repeating: entry, count: count), readAt: Date())
    }

    /// The refusals of the certificate's activation, and of its revocation.
    private func refusals(
        _ list: PortalList, _ type: CertificateType = .applePay, for key: PublicKeyHash, now: Date = Date()
    ) -> [PortalWriteRefusal?] {
        func activation() -> PortalWriteRefusal? {
            do throws(PortalWriteRefusal) {
                try list.checkActivation(of: Self.id, type, for: key, now: now)
                return nil
            } catch { return error }
        }
        func revocation() -> PortalWriteRefusal? {
            do throws(PortalWriteRefusal) {
                try list.checkRevocation(of: Self.id, type, for: key)
                return nil
            } catch { return error }
        }
        return [activation(), revocation()]
    }

    @Test("activates and revokes a certificate that Apple lists with our key and type, and that wallets do not use")
    func permitted() throws {
        let forged = try forged()
        #expect(refusals(list(forged), for: hash(forged)) == [nil, nil])
        let rsa = try self.forged(.rsa2048)
        #expect(refusals(list(rsa, type: "APPLE_PAY_RSA"), .applePayRSA, for: hash(rsa)) == [nil, nil])
    }

    @Test("changes no certificate that wallets use, or of which Apple does not say so")
    func activated() throws {
        let forged = try forged()
        #expect(refusals(list(forged, isActivated: true), for: hash(forged)) == [.activated, .activated])
        #expect(
            refusals(list(forged, isActivated: nil), for: hash(forged)) == [.activationUnknown, .activationUnknown])
    }

    @Test("changes no certificate that is not listed once under the merchant identifier")
    func notListed() throws {
        let forged = try forged()
        for list in [
            list(forged, count: 0), list(forged, count: 2), list(forged, appleId: nil),
        ] { #expect(refusals(list, for: hash(forged)) == [.notListed(Self.id), .notListed(Self.id)]) }
    }

    @Test("changes no certificate of another key")
    func otherKey() throws {
        let (forged, other) = (try forged(), try forged())
        #expect(refusals(list(forged), for: hash(other)) == [.otherKey, .otherKey])
    }

    @Test("changes no certificate of another type, whatever its type says, and none of another merchant")
    func otherType() throws {
        let (ec, rsa) = (try forged(), try forged(.rsa2048))
        let identity = try forged(.rsa2048, kind: .merchantIdentity)
        let foreign = try forged(.p256, "merchant.com.example.other")
        for (forged, listed, expected) in [
            (rsa, "APPLE_PAY_RSA", .applePay), (rsa, "APPLE_PAY", .applePay), (identity, "APPLE_PAY_RSA", .applePayRSA),
            (ec, "APPLE_PAY_PSP_IDENTITY", .applePay), (ec, "IOS_DISTRIBUTION", .applePay),
            (foreign, "APPLE_PAY", .applePay),
        ] as [(ForgedMerchant, String, CertificateType)] {
            #expect(
                refusals(list(forged, type: listed), expected, for: hash(forged))
                    == [.otherType(listed), .otherType(listed)], "\(listed)")
        }
    }

    @Test("activates no certificate that has ended, and revokes it")
    func ended() throws {
        let forged = try forged()
        let end = try MerchantCertificate(der: forged.certificate).notAfter
        #expect(refusals(list(forged), for: hash(forged), now: end) == [.ended(end), nil])
        #expect(refusals(list(forged), for: hash(forged), now: end - 1) == [nil, nil])
    }

    @Test("activates no identity certificate")
    func identity() throws {
        let identity = try forged(.rsa2048, kind: .merchantIdentity)
        #expect(
            refusals(list(identity, type: "APPLE_PAY_MERCHANT_IDENTITY"), .merchantIdentity, for: hash(identity))
                == [.identityCertificate, nil])
    }

    private func refusal(
        _ type: CertificateType?, _ state: KeyState, _ algorithm: KeyAlgorithm = .ec, _ use: KeyUse = .processing,
        of merchant: String = merchant
    ) throws -> PortalWriteRefusal? {
        let entry = KeyEntry(
            publicKeyHash: hash(try SharedForge.ecMerchant), merchantIdentifier: merchant, algorithm: algorithm,
            use: use,
            state: state, cutOff: nil, condition: .served, certificate: nil, hsmTokens: [], warnings: [])
        do throws(PortalWriteRefusal) {
            try entry.checkNewCertificate(type, of: Self.merchant)
            return nil
        } catch { return error }
    }

    @Test("asks for certificates of keys that wait or are active, and never of suspended or compromised ones")
    func states() throws {
        for state in KeyState.allCases {
            let isPermitted = state == .preActivation || state == .active
            for type in [nil, CertificateType.applePay] {
                #expect(try refusal(type, state) == (isPermitted ? nil : .keyState(state)), "\(state)")
            }
        }
    }

    @Test("asks for a certificate of the key's own type and merchant identifier only")
    func keys() throws {
        let own: [CertificateType: (KeyAlgorithm, KeyUse)] = [
            .applePay: (.ec, .processing), .applePayRSA: (.rsa, .processing), .merchantIdentity: (.rsa, .identity),
        ]
        for (type, (algorithm, use)) in own {
            for other in CertificateType.allCases {
                #expect(
                    try refusal(other, .active, algorithm, use) == (other == type ? nil : .keyOfOtherType(other)))
            }
        }
        #expect(try refusal(.applePay, .active, of: "com.example") == nil)
        #expect(
            try refusal(.applePay, .active, of: "merchant.com.other") == .keyOfOtherMerchant("merchant.com.other"))
        #expect(try refusal(nil, .active, of: "merchant.com.other") == .keyOfOtherMerchant("merchant.com.other"))
    }

    @Test("reads the key of a certificate request that this key signed, and of no other bytes")
    func requestedKey() async throws {
        let merchant = try SharedForge.ecMerchant
        let csr = try merchant.key.certificateRequest()
        #expect(CertificateRequest.publicKeyHash(in: csr) == hash(merchant))
        var forged = csr
        forged[forged.count - 1] ^= 1
        for bytes in [forged, [], Array(csr.dropLast()), merchant.certificate] {
            #expect(CertificateRequest.publicKeyHash(in: bytes) == nil)
        }
    }
}
