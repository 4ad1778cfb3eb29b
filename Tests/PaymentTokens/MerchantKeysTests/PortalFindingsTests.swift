import Foundation
import KeyTypes
import PaymentToken
import TestSupport
import Testing
import TokenForge

@testable import MerchantKeys

/// Differences between Apple's list of a merchant's certificates and the keys here.
@Suite struct PortalFindingsTests {
    private static let merchant = "merchant.com.example"

    private func entry(
        _ forged: ForgedMerchant, _ id: String = "C1", type: String = "APPLE_PAY", isActivated: Bool? = true,
        of merchant: String = merchant
    ) -> PortalList.Entry {
        PortalList.Entry(
            identifier: id, type: type, isActivated: isActivated, of: merchant, content: forged.certificate)
    }

    private func forged(
        _ type: ForgeKeyType = .p256, _ name: String = merchant, kind: ForgedCertificateKind = .paymentProcessing
    ) throws -> ForgedMerchant {
        try ForgedMerchant(
            authority: SharedForge.authority, type: type,
            profile: MerchantCertificateProfile(merchantIdentifier: name, kind: kind))
    }

    private func key(
        _ merchant: ForgedMerchant, _ state: KeyState = .active, _ condition: KeyEntry.Condition = .served,
        use: KeyUse = .processing, of name: String = merchant, cutOff: Date? = nil
    ) -> KeyEntry {
        KeyEntry(
            publicKeyHash: PublicKeyHash.of(subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo),
            merchantIdentifier: name, algorithm: use == .identity ? .rsa : .ec, use: use, state: state, cutOff: cutOff,
            condition: condition, certificate: try? MerchantCertificate(der: merchant.certificate),
            hsmTokens: ["primary"], warnings: [])
    }

    private func kinds(
        _ entries: [PortalList.Entry], _ keys: [KeyEntry], appleId: String? = "A1", now: Date = Date()
    ) -> [PortalFinding.Kind] {
        PortalList(appleId: appleId, entries: entries, readAt: now).findings(for: Self.merchant, keys: keys, now: now)
            .map(\.kind)
    }

    private struct Severity: Equatable {
        let kind: PortalFinding.Kind
        let severity: PortalFinding.Severity

        init(_ kind: PortalFinding.Kind, _ severity: PortalFinding.Severity) {
            (self.kind, self.severity) = (kind, severity)
        }
    }

    private func severities(_ entries: [PortalList.Entry], _ keys: [KeyEntry]) -> [Severity] {
        PortalList(appleId: "A1", entries: entries, readAt: Date()).findings(
            for: Self.merchant, keys: keys, now: Date()
        )
        .map { Severity($0.kind, $0.severity) }
    }

    @Test("finds nothing where wallets use the certificate of the key that is active here")
    func clean() throws {
        let merchant = try forged()
        #expect(kinds([entry(merchant)], [key(merchant)]) == [])
        // Wallets do not use the next certificate yet, and its key waits for the import.
        let next = try forged()
        let waiting = key(next, .preActivation)
        #expect(kinds([entry(merchant), entry(next, "C2", isActivated: false)], [key(merchant), waiting]) == [])
    }

    @Test("finds certificates of unknown keys that wallets do not use, until they end")
    func unknown() throws {
        let (merchant, other) = (try forged(), try forged())
        let listed = [entry(merchant), entry(other, "C2", isActivated: false)]
        #expect(kinds(listed, [key(merchant)]) == [.unknownHere])
        #expect(kinds(listed, [key(merchant), key(other, .preActivation, .external)]) == [.unknownHere])
        let end = try MerchantCertificate(der: other.certificate).notAfter
        #expect(!kinds(listed, [key(merchant)], now: end + 1).contains(.unknownHere))
    }

    @Test("compares identity certificates, which are in use without being activated")
    func identities() throws {
        let (identity, other) = (
            try forged(.rsa2048, kind: .merchantIdentity), try forged(.rsa2048, kind: .merchantIdentity)
        )
        let type = "APPLE_PAY_MERCHANT_IDENTITY"
        let key = key(identity, use: .identity)
        #expect(kinds([entry(identity, type: type, isActivated: false)], [key]) == [])
        #expect(
            kinds(
                [entry(identity, type: type, isActivated: false), entry(other, "C2", type: type, isActivated: false)],
                [key]) == [.unknownHere])
        let end = try MerchantCertificate(der: identity.certificate).notAfter
        let listed = [entry(identity, type: type, isActivated: false)]
        #expect(kinds(listed, [key], now: end - 20 * 86_400) == [.endsIn30Days])
        #expect(kinds(listed, [self.key(identity, .deactivated, use: .identity)], now: end - 20 * 86_400) == [])
    }

    @Test("finds an identity key that Apple does not list, which is critical if it lists none of the merchant's")
    func identitiesNotListed() throws {
        let (listed, removed) = (
            try forged(.rsa2048, kind: .merchantIdentity), try forged(.rsa2048, kind: .merchantIdentity)
        )
        let keys = [key(listed, use: .identity), key(removed, use: .identity)]
        let entry = entry(listed, type: "APPLE_PAY_MERCHANT_IDENTITY", isActivated: nil)
        #expect(severities([entry], keys) == [.init(.identityNotListed, .warning)])
        #expect(
            severities([], keys) == [.init(.identityNotListed, .critical), .init(.identityNotListed, .critical)])
        #expect(severities([], [key(removed, .deactivated, use: .identity)]) == [])
    }

    @Test("finds a certificate of which Apple does not say if wallets use it, and never takes it as unused")
    func unknownActivation() throws {
        let merchant = try forged()
        let listed = [entry(merchant, isActivated: nil)]
        #expect(severities(listed, [key(merchant)]) == [.init(.activationUnknown, .warning)])
        #expect(severities(listed, []) == [.init(.activationUnknown, .critical)])
        #expect(severities(listed, [key(merchant, .suspended)]) == [.init(.activationUnknown, .critical)])
        #expect(severities(listed, [key(merchant, .active, .missing)]) == [.init(.activationUnknown, .critical)])
        let wrong = [entry(merchant, type: "APPLE_PAY_RSA", isActivated: nil)]
        #expect(severities(wrong, [key(merchant, .suspended)]) == [.init(.wrongType, .critical)])
    }

    @Test("takes identifiers with and without `merchant.` as the same, and no others")
    func prefixes() throws {
        let merchant = try forged()
        for name in ["merchant.com.example", "com.example"] {
            for recorded in ["merchant.com.example", "com.example"] {
                let found = PortalList(appleId: "A1", entries: [entry(merchant, of: name)], readAt: Date())
                    .findings(for: name, keys: [key(merchant, of: recorded)], now: Date())
                #expect(found == [], "\(name), \(recorded)")
            }
        }
        for other in ["merchant.com.example.a", "merchant.merchant.com.example", "example", "om.example", ""] {
            #expect(!MerchantIdentifier.areSame("merchant.com.example", other), "\(other)")
            #expect(kinds([entry(merchant, of: other)], [key(merchant)]).contains(.wrongType), "\(other)")
        }
    }

    @Test("compares with the ledger alone on a host that serves no payments")
    func otherHost() throws {
        let merchant = try forged()
        let list = PortalList(appleId: "A1", entries: [entry(merchant)], readAt: Date())
        func found(_ key: KeyEntry, servesPayments: Bool) -> [PortalFinding.Kind] {
            list.findings(for: Self.merchant, keys: [key], servesPayments: servesPayments, now: Date()).map(\.kind)
        }
        let away = key(merchant, .active, .missing)
        #expect(found(away, servesPayments: true) == [.activeNotActiveHere])
        #expect(found(away, servesPayments: false) == [])
        #expect(found(key(merchant, .suspended, .missing), servesPayments: false) == [.activeNotActiveHere])
    }

    @Test("finds certificates in use whose keys are unknown, not adopted, not active, or away here")
    func failing() throws {
        let merchant = try forged()
        #expect(kinds([entry(merchant)], []) == [.activeUnknownHere])
        #expect(kinds([entry(merchant)], [key(merchant, .preActivation, .external)]) == [.activeUnknownHere])
        #expect(kinds([entry(merchant)], [key(merchant, .suspended)]) == [.activeNotActiveHere])
        #expect(kinds([entry(merchant)], [key(merchant, .active, .missing)]) == [.activeNotActiveHere])
        #expect(kinds([entry(merchant)], [key(merchant, of: "merchant.com.other")]) == [.activeNotActiveHere])
    }

    @Test("finds a certificate in use whose key still decrypts, but only until its cut-off")
    func finishedTooEarly() throws {
        let (merchant, cutOff) = (try forged(), Date() + 3600)
        let found = PortalList(appleId: "A1", entries: [entry(merchant)], readAt: Date())
            .findings(for: Self.merchant, keys: [key(merchant, .deactivated, cutOff: cutOff)], now: Date())
        #expect(found.map(\.kind) == [.activeNotActiveHere])
        #expect(found.first?.text.contains("fail from \(cutOff.formatted(.iso8601)) on") == true)
    }

    @Test("finds an active key without an activated certificate, and an unknown merchant identifier")
    func oneSided() throws {
        let merchant = try forged()
        #expect(kinds([], [key(merchant)]) == [.activeHereOnly])
        #expect(kinds([entry(merchant, isActivated: false)], [key(merchant)]) == [.activeHereOnly])
        #expect(kinds([], [key(merchant, .deactivated)]) == [])
        #expect(kinds([], [key(merchant)], appleId: nil) == [.merchantNotListed])
    }

    @Test("finds the end of a certificate within 60, 30 and 15 days, and after it")
    func ends() throws {
        let merchant = try forged()
        let end = try MerchantCertificate(der: merchant.certificate).notAfter
        for (days, kind) in [
            (61.0, nil), (59, PortalFinding.Kind.endsIn60Days), (29, .endsIn30Days), (14, .endsIn15Days),
            (-1, .endsIn15Days),
        ] {
            let found = kinds([entry(merchant)], [key(merchant)], now: end - days * 86_400)
            #expect(found == (kind.map { [$0] } ?? []), "\(days)")
        }
    }

    @Test("finds two certificates of one key, and a certificate that is not of its type or of this merchant")
    func wrong() throws {
        let merchant = try forged()
        #expect(
            kinds([entry(merchant), entry(merchant, "C2", isActivated: false)], [key(merchant)])
                == [.oneKeyTwoCertificates])
        // Wallets use the key of an activated certificate, whatever Apple calls it. So payments fail.
        #expect(severities([entry(merchant, type: "APPLE_PAY_RSA")], [key(merchant)]) == [.init(.wrongType, .critical)])
        #expect(
            severities([entry(merchant, type: "APPLE_PAY_RSA", isActivated: false)], [key(merchant, .suspended)])
                == [.init(.wrongType, .warning)])
        #expect(kinds([entry(try forged(.p256, "merchant.com.other"))], []) == [.wrongType])
        // Certificates of other kinds, such as those for distribution, are not a merchant's.
        #expect(kinds([entry(merchant), entry(merchant, "C3", type: "DISTRIBUTION")], [key(merchant)]) == [])
    }

    @Test("lists the most severe finding first")
    func order() throws {
        let (merchant, unknown) = (try forged(), try forged())
        #expect(kinds([entry(unknown)], [key(merchant)]) == [.activeUnknownHere, .activeHereOnly])
    }
}
