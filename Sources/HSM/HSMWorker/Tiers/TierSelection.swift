import Glibc
import KeyTypes
import PKCS11
import WorkerProtocol

/// The tiers of one HSM token. Each is tried with a test key pair, because mechanism lists are unreliable. The
/// mechanisms for identity keys' signatures are chosen in the same way.
struct TierSelection: Sendable {
    /// The tier of each payment token version that has one. ``WorkerProtocol/RestorationScheme/ecV2`` is Google Pay's.
    var chosen: [RestorationScheme: any RestorationTier] = [:]
    let signatures: RSASignatures
    /// The reasons why functions are missing: one sentence for each payment token version without a tier, and for each
    /// TLS signature algorithm without a mechanism.
    private(set) var shortcomings: [String] = []
    /// The reason why Google Pay has no tier; empty if it has one.
    private(set) var shortcomingECv2 = ""
    /// The names of the stored test pairs that the tests used, and the number of these pairs that were made for the
    /// tests.
    private(set) var storedTestPairs: (names: [String], made: Int) = ([], 0)
    /// The last call in a test that reported that the session or the HSM token is gone.
    private(set) var lostConnection: CallError?
    /// True if a payment token version has no tier because only tier C would work and the configuration does not allow
    /// tier C.
    private(set) var needsExtractableSecret = false
    private let keeper: StoredTestPair.Keeper

    /// The tiers in the order in which they are tried, strongest first.
    private static let candidates: [any RestorationTier] = [
        OneStepDerivationTier(form: .withVectorBits), OneStepDerivationTier(form: .withoutVectorBits),
        ConcatenationTier(form: .withVectorBits), ConcatenationTier(form: .withoutVectorBits), ECDHSecretTier(),
        UnwrappedKeyTier(form: .withVectorBits), UnwrappedKeyTier(form: .withoutVectorBits), OAEPInTokenTier(),
        BareRSATier(), HKDFTier(), ECDHSecretTier(scheme: .ecV2),
    ]

    /// - Parameters:
    ///   - makesStoredPairs: true to make stored test pairs if the HSM token makes no session key pairs.
    ///   - deadline: The limit of the wait for a busy HSM token. Without the wait, a strong tier would fail its test on a
    ///     busy HSM token, and a weaker one would be chosen.
    init(
        in session: inout Session, allowExtractableSecret: Bool, makesStoredPairs: Bool = false,
        keeper: StoredTestPair.Keeper = .worker, deadline: CallDeadline = CallDeadline(callTimeout: 0)
    ) {
        // Libraries report unsupported functions to syslog. These tests provoke such reports, and the shortcomings
        // contain the results, so lines in the journal at each start would add nothing.
        let logged = setlogmask(1 << LOG_EMERG)
        defer { setlogmask(logged) }
        var deadline = deadline
        self.keeper = keeper
        signatures = RSASignatures(makesStoredPair: makesStoredPairs, keeper: keeper, in: &session, &deadline)
        if let origin = signatures.testPairOrigin { note(origin) }
        test(.ec, in: &session, allowExtractableSecret, makesStoredPairs, &deadline)
        test(.rsa, in: &session, allowExtractableSecret, makesStoredPairs, &deadline)
        shortcomings += signatures.shortcomings
    }

    private mutating func note(_ origin: TestKeyPair.Origin) {
        guard case .stored(let pair, let isNew) = origin else { return }
        storedTestPairs.names.append(pair.name)
        storedTestPairs.made += isNew ? 1 : 0
    }

    private mutating func noteLostConnection(_ call: CallError?) {
        if let call, call.isConnectionLost { lostConnection = call }
    }

    /// - Throws: `hsmTokenUnavailable` if no test succeeded and a session or the HSM token was lost in one of them. The
    ///   tests then do not show what the HSM token lacks.
    func requireConnection() throws(WorkerFailure) {
        guard chosen[.ecV1] == nil, chosen[.rsaV1] == nil, signatures.isEmpty, let lostConnection else { return }
        throw WorkerFailure(
            .hsmTokenUnavailable, "The HSM token ends the sessions in which its tiers are tested: \(lostConnection).")
    }

    /// Returns true if both selections have the same tiers and the same signature methods.
    func hasSameTiers(as other: TierSelection) -> Bool {
        chosen.mapValues(\.protection) == other.chosen.mapValues(\.protection)
            && signatures.pss == other.signatures.pss && signatures.pkcs1 == other.signatures.pkcs1
    }

    // MARK: Keys

    /// The reason why no key of this algorithm and use can be used, as the beginning of a sentence; nil if such keys
    /// can be used.
    func unsupportedReason(for algorithm: KeyAlgorithm, _ use: KeyUse) -> String? {
        switch use {
        case .processing, .googlePay:
            let scheme = RestorationScheme(of: use, algorithm)
            return chosen[scheme] == nil ? "The HSM token cannot serve \(scheme.name)" : nil
        case .identity:
            return signatures.isEmpty ? "The HSM token makes no RSA signatures" : nil
        // The import of the key tests its signature.
        case .service: return nil
        }
    }

    /// Uses a key once, for its own purpose: an identity or service key signs, a processing key opens a transaction
    /// that is known to be good. The refusal of a wrong tag is not tested, since it does not depend on the key.
    /// - Returns: nil if the key worked, or if the HSM token has no mechanism for it; otherwise the fault.
    func useFailure(of entry: PrivateKeyEntry, in session: inout Session) -> SelfTestFailure? {
        guard unsupportedReason(for: entry.publicKey.algorithm, entry.use) == nil else { return nil }
        switch entry.use {
        case .processing, .googlePay:
            return tier(for: entry, entry.use)?.openingFailure(with: entry, in: &session)
        case .identity: return signatures.selfTestFailure(with: entry, in: &session)
        case .service: return JWTSignatures.selfTestFailure(with: entry, in: &session)
        }
    }

    /// Tests a generated or imported key. An identity or service key must sign. A processing key or Google Pay key must
    /// open a good transaction of its wallet, and the tier must refuse one whose authentication tag is wrong.
    /// - Returns: nil if the key passed, or if there is no tier for a key that restores; otherwise the fault.
    func selfTestFailure(of entry: PrivateKeyEntry, for use: KeyUse, in session: inout Session) -> SelfTestFailure? {
        switch use {
        case .processing, .googlePay: tier(for: entry, use)?.selfTestFailure(with: entry, in: &session)
        case .identity: signatures.selfTestFailure(with: entry, in: &session)
        case .service: JWTSignatures.selfTestFailure(with: entry, in: &session)
        }
    }

    private func tier(for entry: PrivateKeyEntry, _ use: KeyUse) -> (any RestorationTier)? {
        chosen[RestorationScheme(of: use, entry.publicKey.algorithm)]
    }

    /// Signs with a new test key pair, to show whether the HSM token signs at all with keys of this use.
    /// - Returns: nil if it does, otherwise the fault.
    func signingFailure(for use: KeyUse, in session: inout Session) -> SelfTestFailure? {
        do throws(CallError) {
            let key = try TestKeyPair(for: use == .service ? .ecV1 : .rsaV1, use: use, keeper: keeper, in: &session)
            defer { key.destroy(in: &session) }
            return selfTestFailure(of: key.entry, for: use, in: &session)
        } catch {
            return SelfTestFailure(error.description, error)
        }
    }

    /// Chooses the tiers for the schemes of this type of key. One test key pair serves them all.
    private mutating func test(
        _ algorithm: KeyAlgorithm, in session: inout Session, _ allowExtractableSecret: Bool, _ makesStoredPair: Bool,
        _ deadline: inout CallDeadline
    ) {
        let scheme = RestorationScheme(of: .processing, algorithm)
        let key: TestKeyPair
        do throws(CallError) {
            key = try deadline.retryingWhileBusy { [keeper] () throws(CallError) in
                try TestKeyPair(for: scheme, makesStored: makesStoredPair, keeper: keeper, in: &session)
            }
            note(key.origin)
        } catch {
            noteLostConnection(error)
            let reason = "no key pair could be made for the test: \(error)"
            shortcomings.append("\(scheme.name): \(reason)")
            if algorithm == .ec { shortcomingECv2 = "\(RestorationScheme.ecV2.name): \(reason)" }
            return
        }
        defer { key.destroy(in: &session) }
        let found = select(scheme, with: key, in: &session, allowExtractableSecret, &deadline)
        if found.tier == nil {
            shortcomings.append(found.shortcoming)
            needsExtractableSecret = needsExtractableSecret || !allowExtractableSecret
        }
        chosen[scheme] = found.tier
        guard algorithm == .ec else { return }
        let googlePay = select(.ecV2, with: key, in: &session, allowExtractableSecret, &deadline)
        (chosen[.ecV2], shortcomingECv2) = (googlePay.tier, googlePay.shortcoming)
    }

    /// - Returns: the strongest tier that passed its test; if there is none, the reason, otherwise an empty text.
    private mutating func select(
        _ scheme: RestorationScheme, with key: borrowing TestKeyPair, in session: inout Session,
        _ allowExtractableSecret: Bool, _ deadline: inout CallDeadline
    ) -> (tier: (any RestorationTier)?, shortcoming: String) {
        var lacks: [String] = []
        var former: SelfTestFailure?
        for candidate in Self.candidates where candidate.scheme == scheme {
            guard candidate.protection != .c || allowExtractableSecret else { break }
            // The second form of the parameters is tried only if the HSM token refused the first. A library that
            // expects one form and gets the other might read past the end of the parameters.
            let isSecondForm = candidate.parameterForm == .withoutVectorBits
            if isSecondForm, former?.isAboutParameters != true { continue }
            let found = deadline.failureAfterRetry { candidate.selfTestFailure(with: key, in: &session) }
            guard let failure = found else { return (candidate, "") }
            former = failure
            noteLostConnection(failure.call)
            if !isSecondForm { lacks.append("\(candidate.requirement) (\(failure))") }
        }
        return (
            nil,
            "\(scheme.name): the HSM token lacks "
                + lacks.joined(separator: " and ")
                + (allowExtractableSecret
                    ? ", so that it failed its known-answer test"
                    : ". It could only give each transaction's symmetric key to the worker (tier C), but "
                        + "allow_extractable_secret is false")
        )
    }
}

extension SelfTestFailure {
    /// Returns true if the HSM token refused AES-GCM's parameters.
    fileprivate var isAboutParameters: Bool {
        guard let call, ["C_DecryptInit", "C_Decrypt"].contains(call.call) else { return false }
        return call.returnValue == .mechanismParameterInvalid || call.returnValue == .argumentsBad
    }
}
