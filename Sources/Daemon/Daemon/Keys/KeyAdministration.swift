import AuditChain
import DaemonAPI
import DaemonConfiguration
import FairShares
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording
import WorkerProtocol
import WorkerSupervision

// The merchant keys: their index (KeyCatalogue), and all operations that administrators perform on them.
//
// The routes of administration call these types with the caller, and with an AuditDraft that collects the facts for the
// request's audit record. Each change of a key is checked completely, then made in the HSM, then committed to the
// ledger together with its audit record, and then answered. If the ledger refuses a new key, KeyWithdrawal destroys it in
// the HSM tokens again. If another step fails after the change in the HSM, the key is listed but not served, and repeating
// the command completes the change.
//
// Start here. KeyImports, KeyGeneration and GooglePayKeyAdoption are the sources of keys, and KeyWithdrawal removes a new
// key that the ledger refuses. KeyLifecycle changes a key's state. KeyRotations guides a merchant from one key to the
// next, and KeyUseSearches finds if the old key is still in use. KeySummaries describes keys for the API.

/// Brings keys and certificates into HSM tokens and into the ledger.
struct KeyAdministration: Sendable {
    let catalogue: KeyCatalogue
    /// The HSM tokens in the configuration's order.
    let hsmTokens: [any HSMTokenAdministering]
    let ledger: any Ledger
    let gate: LedgerGate
    let recorder: UsageRecorder
    let rule: TwoPersonRule
    /// The configuration that names the service key; nil if there is none.
    let renewal: RenewalSettings?
    let clock: WallClock
    /// Allows one key generation at a time.
    let generationLock = AsyncLock()
    /// Allows one import of a key at a time.
    let importLock = AsyncLock()

    /// Returns the ledger's record of a key; nil if the ledger does not have the key.
    func keyRecord(of hash: PublicKeyHash) async throws(Refusal) -> KeyRecord? {
        try await refusing(ledger: await ledger.keyRecord(hash))
    }

    /// Throws if the ledger cannot be written. Callers check this before they bring a key into an HSM token. Without
    /// the check, a full disk could leave a key in the HSM token that the ledger does not record.
    func requireWritableLedger() async throws(Refusal) {
        try gate.admit()
        try await refusing(ledger: await ledger.probe())
    }

    /// Reads a key from an HSM token, and updates its entry in the index.
    func refresh(_ hash: PublicKeyHash, in hsmToken: any HSMTokenAdministering) async throws(Refusal) {
        let shown = try await refusing(hsm: await hsmToken.describeKey(hash))
        try await refusing(ledger: await catalogue.keyChanged(hash, shown: [(hsmToken.name, shown)]))
    }

    /// Returns the key's index entry, after reading the key again from each of these HSM tokens. Without HSM tokens, only
    /// its record is read again.
    func refreshedEntry(
        _ hash: PublicKeyHash, in holders: [any HSMTokenAdministering]
    ) async throws(Refusal) -> KeyEntry {
        for hsmToken in holders { try await refresh(hash, in: hsmToken) }
        if holders.isEmpty { try await refusing(ledger: await catalogue.keyChanged(hash)) }
        guard let entry = catalogue.index.entry(hash) else { throw .defect }
        return entry
    }

    /// The second person's part in a change that its requester repeats after the approval.
    enum Permission {
        case given(AdministrativeChange.ApprovalStep)
        case requested(Approval)
    }

    /// Returns the step that uses the caller's approval. Without an approval, the wanted one is requested.
    func permission(
        _ wanted: Approval, _ given: ApprovalIdentifier?, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> Permission {
        guard let given else { return .requested(try await recorder.ask(wanted, by: caller, for: draft)) }
        let (parameters, person) = (wanted.parameters, wanted.requester.person)
        // This check comes before any HSM token is changed. The transaction that uses the approval repeats it.
        guard let approval = try await refusing(ledger: await ledger.approval(given)) else {
            throw ApprovalConflict.unknown.refusal
        }
        let conflict = approval.conflict(using: parameters, by: person, on: ledger.node, at: clock.now())
        if let conflict { throw conflict.refusal }
        return .given(.use(given, parameters: parameters, by: person))
    }

    static let seeStatus = "GET /v1/status says why"
}

/// The operations of an HSM token that the administration of keys uses.
protocol HSMTokenAdministering: Sendable {
    var name: String { get }
    /// True while a worker has the HSM token open and accepts calls.
    var isServing: Bool { get }
    /// Returns the description of each key pair with this hash that the HSM token shows now; an empty array if it shows
    /// none.
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
    /// Returns the key with this name: its publicKeyHash in base64, or the first digits of its publicKeyHash in
    /// hexadecimal.
    ///
    /// - Throws: `key_not_found` if no key matches, or several do.
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
            Refusal(.keyNotFound, "There is no such key here; GET /v1/keys lists the keys.")
        }
    }
}
