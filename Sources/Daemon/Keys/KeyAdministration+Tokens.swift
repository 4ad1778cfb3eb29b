import MerchantKeys
import PaymentToken
import Refusals
import WorkerProtocol

// What administration does in several tokens, and what it says when they do not all do the same.
extension KeyAdministration {
    /// The tokens that a key was sealed to, all of them reachable: better to find that out before the first has it.
    func targets(
        of sealedKeys: [SealedKey]
    ) throws(Refusal) -> [(hsmToken: any TokenAdministering, sealed: SealedKey)] {
        var targets: [(hsmToken: any TokenAdministering, sealed: SealedKey)] = []
        for sealed in sealedKeys {
            guard let hsmToken = hsmTokens.first(where: { $0.name == sealed.hsmToken }) else {
                throw Refusal(
                    .malformedRequest, "sealedKeys names a token that the configuration does not.",
                    details: "the tokens are \(hsmTokens.map(\.name).joined(separator: ", "))")
            }
            guard hsmToken.isServing else {
                throw Refusal(
                    .hsmUnavailable, "The token \(hsmToken.name) is not available, so no token was given the key.",
                    details: "paytokenctl status says why")
            }
            targets.append((hsmToken, sealed))
        }
        return targets
    }

    /// What is said when a token does not take a key that others have been given already.
    ///
    /// - Parameter isNew: none of them had it before, so that it may be taken out again.
    func refusal(
        _ failure: WorkerFailure, at hsmToken: any TokenAdministering, _ holding: [any TokenAdministering],
        _ key: PublicKeyHash, isNew: Bool
    ) async -> Refusal {
        let refusal = failure.refusal
        var keeping: [String] = []
        for hsmToken in holding {
            if isNew, (try? await hsmToken.destroyKey(key)) != nil { continue }
            try? await lookAgain(at: key, in: hsmToken)
            keeping.append(hsmToken.name)
        }
        guard !keeping.isEmpty else { return refusal }
        return Refusal(
            refusal.code,
            "The token \(hsmToken.name) did not take the key, but \(keeping.joined(separator: " and ")) did; "
                + "the same command again completes it.",
            details: refusal.details ?? refusal.message)
    }

    /// - Returns: the tokens that have the certificate now, and a sentence for each that should and does not.
    /// - Throws: the first one's refusal when none took it.
    func store(
        _ certificate: CertificateImport, in holders: [any TokenAdministering]
    ) async throws(Refusal) -> (holding: [any TokenAdministering], warnings: [String]) {
        var holding: [any TokenAdministering] = []
        var warnings: [String] = []
        var first: Refusal?
        for hsmToken in holders {
            do throws(WorkerFailure) {
                try await hsmToken.importCertificate(certificate)
                holding.append(hsmToken)
            } catch {
                first = first ?? error.refusal
                guard error.kind != .keyNotFound else { continue }
                warnings.append(
                    "The token \(hsmToken.name) did not take the certificate (\(error.refusal.message)) Repeat the command "
                        + "when it is available again.")
            }
        }
        if holding.isEmpty { throw first ?? .defect }
        return (holding, warnings)
    }

    /// Has the index know what a token shows of a key now.
    func lookAgain(at key: PublicKeyHash, in hsmToken: any TokenAdministering) async throws(Refusal) {
        let shown: [KeyDescription]
        do {
            shown = try await hsmToken.describeKey(key)
        } catch {
            throw error.refusal
        }
        do {
            try await catalogue.keyChanged(key, shown: [(hsmToken.name, shown)])
        } catch {
            throw error.refusal
        }
    }
}

/// What administration asks of a token.
protocol TokenAdministering: Sendable {
    var name: String { get }
    /// A worker has opened it and takes calls.
    var isServing: Bool { get }
    /// What it shows of one key now; empty when it shows none.
    func describeKey(_ hash: PublicKeyHash) async throws(WorkerFailure) -> [KeyDescription]
    func importPrivateKey(_ request: PrivateKeyImport) async throws(WorkerFailure)
    func importCertificate(_ request: CertificateImport) async throws(WorkerFailure)
    func generateKey(
        _ algorithm: KeyAlgorithm, merchantIdentifier: String, known: Set<[UInt8]>
    ) async throws(WorkerFailure) -> KeyDescription
    func signRequest(_ information: [UInt8], publicKeyHash: [UInt8]) async throws(WorkerFailure) -> [UInt8]
    func destroyKey(_ hash: PublicKeyHash) async throws(WorkerFailure)
}
