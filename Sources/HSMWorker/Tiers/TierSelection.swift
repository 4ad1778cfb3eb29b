import PKCS11
import WorkerProtocol

/// The tiers of one token, chosen by making each do its work on a throwaway key: mechanism lists lie.
struct TierSelection: Sendable {
    private(set) var ecV1: (any RestorationTier)?
    private(set) var rsaV1: (any RestorationTier)?
    /// Why a version has no tier, a sentence each.
    private(set) var shortcomings: [String] = []

    /// Strongest first.
    private static let candidates: [any RestorationTier] = [ECDHSecretTier(), OAEPInTokenTier(), BareRSATier()]

    subscript(scheme: RestorationScheme) -> (any RestorationTier)? {
        switch scheme {
        case .ecV1: ecV1
        case .rsaV1: rsaV1
        }
    }

    init(in session: inout Session, allowExtractableSecret: Bool) {
        ecV1 = select(.ecV1, in: &session, allowExtractableSecret)
        rsaV1 = select(.rsaV1, in: &session, allowExtractableSecret)
    }

    private mutating func select(
        _ scheme: RestorationScheme, in session: inout Session, _ allowExtractableSecret: Bool
    ) -> (any RestorationTier)? {
        let candidates = Self.candidates.filter { $0.scheme == scheme }
        let permitted = candidates.filter { $0.protection != .c || allowExtractableSecret }
        guard !permitted.isEmpty else {
            shortcomings.append(
                "\(scheme.name): the token would have to give each transaction's symmetric key to the worker (tier C), "
                    + "and allow_extractable_secret is false")
            return nil
        }
        let key: ThrowawayKey
        do throws(CallError) {
            key = try ThrowawayKey(for: scheme, in: &session)
        } catch {
            shortcomings.append("\(scheme.name): no key pair could be made for the test: \(error)")
            return nil
        }
        defer { key.destroy(in: &session) }
        guard let entry = key.entry else {
            shortcomings.append("\(scheme.name): the token made a key pair whose public key cannot be read")
            return nil
        }
        var reasons: [String] = []
        for candidate in permitted {
            guard let reason = candidate.failsTrial(with: entry, in: &session) else { return candidate }
            reasons.append(reason)
        }
        shortcomings.append(
            "\(scheme.name): the token failed its known-answer test: " + reasons.joined(separator: "; "))
        return nil
    }
}

extension RestorationTier {
    /// Opens a trial transaction, and one whose tag is wrong.
    /// - Returns: nil when both went as they must, else what did not; for a person.
    func failsTrial(with key: borrowing PrivateKeyEntry, in session: inout Session) -> String? {
        let trial: TrialTransaction
        do throws(UnsuitableKey) {
            trial = try TrialTransaction(for: key.publicKey)
        } catch {
            return error.reason
        }
        do throws(RestorationError) {
            guard try open(trial.input, with: key, in: &session) == trial.plaintext else {
                return "another plaintext came out"
            }
        } catch {
            return switch error {
            case .token(let call): call.description
            case .input: "a well-formed transaction was not opened"
            }
        }
        var forged = trial.input
        forged.ciphertext[forged.ciphertext.count - 1] ^= 1
        guard (try? open(forged, with: key, in: &session)) == nil else { return "a wrong tag was accepted" }
        return nil
    }
}

extension RestorationScheme {
    var name: String {
        switch self {
        case .ecV1: "EC_v1"
        case .rsaV1: "RSA_v1"
        }
    }

    var algorithm: KeyAlgorithm {
        switch self {
        case .ecV1: .ec
        case .rsaV1: .rsa
        }
    }
}
