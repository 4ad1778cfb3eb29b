import DaemonAPI
import FairShares
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import WorkerProtocol
import WorkerSupervision

// Merchant keys: the index of them (KeyCatalogue), and all that the security team does with them.
//
// The admin routes call what is here, with the caller and an AuditDraft in which the request's audit record takes shape.
// Whatever changes a key is first checked in full, then done in the HSM, then committed to the ledger together with its
// audit record; nothing is answered before. A failure in between leaves a key that is listed and not served, and the
// same command again completes it.
//
// Start here: KeyImports and KeyGeneration are the two ways in which a key comes, KeyLifecycle changes its state,
// KeyRotations leads a merchant from one key to the next, and KeySummaries is a key as the API shows it.

/// Brings keys and certificates into HSM tokens and into the ledger.
struct KeyAdministration: Sendable {
    let catalogue: KeyCatalogue
    /// In the configuration's order.
    let hsmTokens: [any HSMTokenAdministering]
    let ledger: any Ledger
    let gate: LedgerGate
    let recorder: UsageRecorder
    let rule: TwoPersonRule
    let clock: WallClock
    /// Held while a key is generated.
    let generationLock = AsyncLock()

    /// What the ledger has of a key; nil when it does not know it.
    func keyRecord(of hash: PublicKeyHash) async throws(Refusal) -> KeyRecord? {
        try await refusing(ledger: await ledger.keyRecord(hash))
    }

    /// Checked before a key comes into an HSM token: with a full disk it would lie there without a record.
    func requireWritableLedger() async throws(Refusal) {
        try gate.admit()
        try await refusing(ledger: await ledger.probe())
    }

    /// Tells the index what an HSM token shows of a key now.
    func refresh(_ hash: PublicKeyHash, in hsmToken: any HSMTokenAdministering) async throws(Refusal) {
        let shown = try await refusing(hsm: await hsmToken.describeKey(hash))
        try await refusing(ledger: await catalogue.keyChanged(hash, shown: [(hsmToken.name, shown)]))
    }

    /// The key as it stands in the index once these HSM tokens have been asked again.
    func refreshedEntry(
        _ hash: PublicKeyHash, in holders: [any HSMTokenAdministering]
    ) async throws(Refusal) -> KeyEntry {
        for hsmToken in holders { try await refresh(hash, in: hsmToken) }
        guard let entry = catalogue.index.entry(hash) else { throw .defect }
        return entry
    }

    static let seeStatus = "GET /v1/status says why"
}

/// What administration asks of an HSM token.
protocol HSMTokenAdministering: Sendable {
    var name: String { get }
    /// A worker has opened it and takes calls.
    var isServing: Bool { get }
    /// What it shows of one key now; empty when it shows none.
    func describeKey(_ hash: PublicKeyHash) async throws(WorkerFailure) -> [KeyDescription]
    func importPrivateKey(_ request: PrivateKeyImport) async throws(WorkerFailure)
    func importCertificate(_ request: CertificateToStore) async throws(WorkerFailure)
    func generateKey(
        _ algorithm: KeyAlgorithm, use: KeyUse, merchantIdentifier: String, known: Set<[UInt8]>
    ) async throws(WorkerFailure) -> KeyDescription
    func signRequest(_ information: [UInt8], publicKeyHash: [UInt8]) async throws(WorkerFailure) -> [UInt8]
    func destroyKey(_ hash: PublicKeyHash) async throws(WorkerFailure)
}

extension KeyIndex {
    /// The key that a person names.
    ///
    /// - Throws: `key_not_found`.
    func entry(named name: String) throws(Refusal) -> KeyEntry {
        do {
            return try find(name)
        } catch {
            throw error.refusal
        }
    }
}

extension KeyLookupError {
    var refusal: Refusal {
        switch self {
        case .notBase64:
            Refusal(.keyNotFound, "The key's name has 44 characters and is not base64 of 32 bytes.")
        case .notHexadecimal:
            Refusal(
                .keyNotFound,
                "A key is named by its publicKeyHash: 44 characters of base64, or 8 to 64 characters of hex.")
        case .ambiguous(let count):
            Refusal(.keyNotFound, "\(count) keys begin with that; give more characters.")
        case .unknown:
            Refusal(.keyNotFound, "There is no such key here; GET /v1/keys lists those there are.")
        }
    }
}
