import PKCS11
import TLSHandshake
import WorkerProtocol

/// The methods by which one HSM token signs with RSA keys. Each method is tried with a test key pair, because mechanism
/// lists are unreliable.
struct RSASignatures: Sendable {
    private(set) var pss: RSASignatureMethod?
    private(set) var pkcs1: RSASignatureMethod?
    /// The reasons why algorithms are missing: one sentence for each algorithm that the HSM token cannot sign with.
    private(set) var shortcomings: [String] = []
    /// The origin of the test key pair; nil if none could be made.
    private(set) var testPairOrigin: TestKeyPair.Origin?

    subscript(algorithm: TLSSignatureAlgorithm) -> RSASignatureMethod? {
        switch algorithm {
        case .pssSHA256: pss
        case .pkcs1SHA256: pkcs1
        }
    }

    /// The signature algorithms for which a method was found, in the form that the daemon receives.
    var description: TLSSignatures {
        TLSSignatures(pss: pss == nil ? .none : pss == .pssPaddedHere ? .byWorker : .byToken, pkcs1: pkcs1 != nil)
    }

    /// The method for tests of keys; nil if the HSM token makes no RSA signatures.
    private var any: RSASignatureMethod? { pkcs1 ?? pss }

    var isEmpty: Bool { any == nil }

    /// A message as long as the longest input to a TLS client's signature, because some HSM tokens fail to hash long
    /// messages.
    private static let longestMessage = [UInt8](repeating: 0x55, count: FieldBound.tlsInput)

    /// - Parameters:
    ///   - makesStoredPair: true to make a stored test pair if the HSM token makes no session pair.
    ///   - deadline: The time until which calls are repeated while the HSM token is busy.
    init(
        makesStoredPair: Bool = false, keeper: StoredTestPair.Keeper = .worker, in session: inout Session,
        _ deadline: inout CallDeadline
    ) {
        let key: TestKeyPair
        do throws(CallError) {
            key = try deadline.retryingWhileBusy { () throws(CallError) in
                try TestKeyPair(
                    for: .rsaV1, use: .identity, makesStored: makesStoredPair, keeper: keeper, in: &session)
            }
            testPairOrigin = key.origin
        } catch {
            shortcomings = ["TLS signatures: no key pair could be made for the test: \(error)"]
            return
        }
        defer { key.destroy(in: &session) }
        pss = select(.pssSHA256, key.entry, &session, &deadline)
        pkcs1 = select(.pkcs1SHA256, key.entry, &session, &deadline)
    }

    private mutating func select(
        _ algorithm: TLSSignatureAlgorithm, _ entry: PrivateKeyEntry, _ session: inout Session,
        _ deadline: inout CallDeadline
    ) -> RSASignatureMethod? {
        var lacks: [String] = []
        for method in RSASignatureMethod.allCases where method.algorithm == algorithm {
            let failure = deadline.failureAfterRetry {
                method.failure(to: Self.longestMessage, with: entry, in: &session)
            }
            guard let failure else { return method }
            lacks.append("\(method.requirement) (\(failure))")
        }
        shortcomings.append(
            "TLS signatures by \(algorithm.rawValue): the HSM token lacks \(lacks.joined(separator: " and "))")
        return nil
    }

    // MARK: Tests

    /// Tests a key: signs with it, and verifies the signature with its public key.
    /// - Returns: nil if the signature is valid, otherwise the fault.
    func selfTestFailure(with key: PrivateKeyEntry, in session: inout Session) -> SelfTestFailure? {
        guard let any else { return SelfTestFailure("the HSM token makes no RSA signatures") }
        // The message begins neither like a TLS handshake nor like DER.
        return any.failure(to: SelfTestFailure.messageToSign(), with: key, in: &session)
    }
}

extension RSASignatureMethod {
    fileprivate func failure(
        to message: [UInt8], with key: PrivateKeyEntry, in session: inout Session
    ) -> SelfTestFailure? {
        SelfTestFailure.ofSignature { () throws(CallError) in try sign(message, with: key, in: &session) }
    }
}
