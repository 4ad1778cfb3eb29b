import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import Daemon

/// Readiness, which the daemon derives from the HSM tokens' conditions. It requires that payments can be decrypted with
/// every active key.
@Suite struct ReadinessTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)
    private static let lack = "EC_v1: the HSM token lacks CKM_ECDH1_DERIVE"

    private func ready(
        _ name: String, ec: ProtectionTier? = .c, rsa: ProtectionTier? = .c, shortcomingECv2: String = "",
        needsExtractableSecret: Bool = false
    ) -> Readiness.HSMTokenSnapshot {
        Readiness.HSMTokenSnapshot(
            name: name,
            condition: .ready(
                HSMTokenDescription(
                    label: "", serialNumber: "", manufacturer: "", model: "", library: "", sessions: 1, tierECv1: ec,
                    tierRSAv1: rsa, tierECv2: shortcomingECv2.isEmpty ? .c : nil, shortcomingECv2: shortcomingECv2,
                    shortcomings: (ec == nil ? [Self.lack] : []) + (rsa == nil ? ["RSA_v1: none"] : []),
                    needsExtractableSecret: needsExtractableSecret, importKey: [])))
    }

    private func unavailable(_ name: String) -> Readiness.HSMTokenSnapshot {
        Readiness.HSMTokenSnapshot(
            name: name, condition: .unavailable(WorkerFailure(.hsmTokenUnavailable, "No such token.")))
    }

    /// The keys of both merchants, as listed by the workers of these HSM tokens.
    private func keys(
        in hsmTokens: [Readiness.HSMTokenSnapshot], ec state: KeyState = .active, cutOff: Date? = nil,
        ecUse: KeyUse = .processing
    ) throws -> [KeyEntry] {
        let merchants: [(ForgedMerchant, KeyAlgorithm, KeyState)] = [
            (try SharedForge.ecMerchant, .ec, state), (try SharedForge.rsaMerchant, .rsa, .active),
        ]
        let index = KeyIndex()
        index.rebuild(
            hsmTokens: hsmTokens.map { hsmToken in
                (
                    hsmToken.name,
                    merchants.map { merchant, algorithm, _ in
                        KeyDescription(
                            identifier: PublicKeyHash.of(
                                subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo
                            ).bytes,
                            label: merchant.merchant.identifier, algorithm: algorithm,
                            subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo,
                            certificates: algorithm == .ec && ecUse == .googlePay ? [] : [merchant.certificate],
                            isProtected: true,
                            // If the HSM token has no tier for a key, the worker cannot test the key pair, and reports
                            // it as inconsistent.
                            inconsistency: hsmToken.condition.tier(for: RestorationScheme(of: .processing, algorithm))
                                == nil
                                ? "The HSM token cannot serve it." : nil)
                    }
                )
            },
            keyRecords: merchants.map { merchant, algorithm, state in
                KeyRecord(
                    publicKeyHash: PublicKeyHash.of(subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo),
                    merchantIdentifier: merchant.merchant.identifier, algorithm: algorithm,
                    use: algorithm == .ec ? ecUse : .processing, state: state, cutOff: algorithm == .ec ? cutOff : nil,
                    createdAt: Self.now, origin: .imported)
            }, now: Self.now)
        return index.entries
    }

    private func findings(_ hsmTokens: [Readiness.HSMTokenSnapshot], _ keys: [KeyEntry]) -> Readiness.Findings {
        Readiness.findings(hsmTokens, keys: { keys }, now: Self.now)
    }

    @Test("is not ready, and explains why, if the only HSM token holds an active key of a type that it cannot open")
    func oneTier() throws {
        let only = ready("primary", ec: nil)
        let found = findings([only], try keys(in: [only]))
        #expect(found.reasons.map(\.component) == ["token primary"])
        #expect(found.reasons.map(\.code) == ["hsm_unavailable"])
        #expect(found.reasons.map(\.message) == [Self.lack])
        #expect(found.warnings.isEmpty)
        // The result is the same if the key was listed before the HSM token lost the tier.
        #expect(findings([only], try keys(in: [ready("primary")])).reasons.map(\.component) == ["token primary"])
    }

    @Test("names the setting if only an extractable secret would serve the key, regardless of the worker's wording")
    func needsExtractableSecret() throws {
        let only = ready("primary", ec: nil, needsExtractableSecret: true)
        let advice = "Set allow_extractable_secret: true for this HSM token, or use another HSM token: "
        #expect(findings([only], try keys(in: [only])).reasons.map(\.message) == [advice + Self.lack])
    }

    @Test("is not ready for lack of ECv2 alone only if there is an active Google Pay key")
    func googlePay() throws {
        let lack = "ECv2: the HSM token lacks CKM_HKDF_DERIVE"
        let only = ready("primary", shortcomingECv2: lack)
        #expect(findings([only], try keys(in: [only])).reasons.isEmpty)
        let key = try #require(try keys(in: [only], ecUse: .googlePay).first { $0.use == .googlePay })
        #expect(findings([only], [key]).reasons.map(\.message) == [lack])
        #expect(findings([ready("primary")], [key]).reasons.isEmpty)
        #expect(Readiness.missingTier([only], for: key) == "HSM token primary: \(lack)")
    }

    @Test("allows a missing tier for a type without an active key")
    func unusedType() throws {
        let only = ready("primary", ec: nil)
        for state: KeyState in [.suspended, .preActivation, .destroyed] {
            let found = findings([only], try keys(in: [only], ec: state))
            #expect(found.reasons.isEmpty && found.warnings.isEmpty, "\(state)")
        }
    }

    @Test("is ready while one HSM token serves what another lacks")
    func otherToken() throws {
        let (partial, whole) = (ready("north", ec: nil), ready("south"))
        let held = try keys(in: [partial, whole])
        let found = findings([partial, whole], held)
        #expect(found.reasons.isEmpty && found.warnings.isEmpty)
        // The other HSM token serves the type but does not have this key.
        #expect(findings([partial, whole], try keys(in: [partial])).reasons.map(\.component) == ["token north"])
        #expect(
            findings([partial, unavailable("south")], held).reasons.map(\.component) == ["token north", "token south"])
    }

    @Test("warns about an HSM token that opens nothing while another holds every key, otherwise is not ready")
    func opensNothing() throws {
        let (useless, whole) = (ready("north", ec: nil, rsa: nil), ready("south"))
        let found = findings([useless, whole], try keys(in: [useless, whole]))
        #expect(found.reasons.isEmpty && found.warnings.count == 1)
        let opening = Readiness.HSMTokenSnapshot(name: "north", condition: .starting)
        let begun = findings([opening, whole], try keys(in: [whole]))
        #expect(begun.reasons.isEmpty && begun.warnings.isEmpty)
        #expect(findings([useless, whole], try keys(in: [useless])).reasons.map(\.component) == ["token north"])
        #expect(findings([useless], []).reasons.map(\.component) == ["token north"])
        #expect(findings([unavailable("north"), whole], try keys(in: [ready("north")])).reasons.count == 1)
        #expect(findings([unavailable("north"), whole], try keys(in: [whole])).warnings.count == 1)
    }

    @Test("filters the keys once for each change of the index, of an HSM token or by a cut-off")
    func keysFilteredOnce() throws {
        let (whole, partial) = (ready("south"), ready("north", ec: nil))
        var keys = try keys(in: [partial], ec: .deactivated, cutOff: Self.now.addingTimeInterval(60))
        let findings = Readiness.CachedFindings()
        var filtered = 0
        func reasons(_ hsmTokens: [Readiness.HSMTokenSnapshot], _ generation: Int, after seconds: Double = 0) -> Int {
            findings.findings(
                hsmTokens, generation: generation,
                keys: {
                    filtered += 1
                    return keys
                }, now: Self.now.addingTimeInterval(seconds)
            ).reasons.count
        }
        for seconds in [0, 30, 59] { #expect(reasons([partial], 1, after: Double(seconds)) == 1) }
        #expect(filtered == 1)
        #expect(reasons([partial], 1, after: 60) == 0)
        #expect(filtered == 2)
        #expect(reasons([partial, unavailable("south")], 1) == 1)
        #expect(filtered == 3)
        keys = try self.keys(in: [whole])
        #expect(reasons([partial, unavailable("south")], 2) == 1)
        #expect(reasons([partial, whole], 2) == 0)
        #expect(filtered == 5)
    }

    @Test("reports what the HSM tokens that show a key lack for its type, unless something else stops the key")
    func missingTier() throws {
        let (partial, whole) = (ready("north", ec: nil), ready("south"))
        func missing(_ hsmTokens: [Readiness.HSMTokenSnapshot], shownBy holders: [Readiness.HSMTokenSnapshot]) throws
            -> String?
        {
            let key = try #require(try keys(in: holders).first { $0.algorithm == .ec })
            return Readiness.missingTier(hsmTokens, for: key)
        }
        #expect(try missing([partial], shownBy: [partial]) == "HSM token north: " + Self.lack)
        #expect(try missing([partial, whole], shownBy: [partial]) == "HSM token north: " + Self.lack)
        #expect(
            try missing([partial, unavailable("south")], shownBy: [partial, whole]) == "HSM token north: " + Self.lack)
        // The other HSM token has the key and its tier, so no tier is missing.
        #expect(try missing([partial, whole], shownBy: [partial, whole]) == nil)
        // The daemon does not know which tiers an unavailable HSM token lacks.
        #expect(try missing([unavailable("north")], shownBy: [partial]) == nil)
        #expect(try missing([whole], shownBy: [whole]) == nil)
    }
}
