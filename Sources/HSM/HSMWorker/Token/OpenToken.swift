import Encodings
import FoundationEssentials
import KeySealing
import Locks
import PKCS11
import ProductVersion
import WorkerProtocol

/// The one PKCS#11 token of this process: logged in, with tiers selected and keys tested. All session threads use it.
/// Extensions in the files of the operations add decryption, signatures, import, generation and audit keys.
final class OpenToken: Sendable {
    let description: HSMTokenDescription
    let tiers: TierSelection
    let keys = PrivateKeyMap()
    /// The latest listing, and the random number by which the daemon requests its further pages. `keys` is nil once all
    /// pages have been read.
    let listing = Mutex<(number: UInt64, keys: KeyListing?)?>(nil)
    /// The audit keys that this worker has used, by CKA_ID.
    let auditKeys = FoundObjects<[UInt8], AuditKeyEntry>()
    /// The reason why the audit key that this HSM token makes is unsuitable; nil if it is suitable. Another key would be
    /// the same, and some libraries (a TPM's) lose memory of the device with each.
    let auditKeyRefusal = Mutex<String?>(nil)
    /// The objects that store the newest audit checkpoint of each node, by the node's name.
    let heads = FoundObjects<String, ObjectHandle>()
    /// The recipient of private keys that are sealed for import. Its own private key is made when the worker starts,
    /// and exists only in this process.
    let importRecipient = KeySealing.Recipient()

    let opening: HSMTokenOpening
    let uri: TokenURI
    /// The slot of the HSM token, which changes when the HSM token reappears in another slot.
    let slot: Mutex<Slot>
    /// The session that keeps the login alive, since a login ends with the process's last session. It also owns the
    /// working copies of the keys.
    let anchor: Mutex<Session>
    /// True once the HSM token has refused to make a working copy. Frequent use of a key then no longer causes an
    /// attempt.
    let copiesAreRefused = Atomic<Bool>(false)
    /// The form of the templates in which the HSM token accepted the last imported key pair; nil before the first
    /// import.
    let importProfile = Mutex<KeyProfile?>(nil)
    /// The number of the worker's sessions that are open.
    let openSessions = Atomic<Int>(0)
    /// A decryption of a payment token or a signature of a TLS handshake reads. A change that ends objects writes.
    let keyUses = ReadersWriterLock()
    /// A listing reads. A change of keys writes; otherwise two imports could both search for the same key before either
    /// creates it. Each listing thread has its own session.
    let keyOperations = ReadersWriterLock()
    /// The keeper of stored test pairs: a worker, or a trial, which uses no keys but its own.
    let keeper: StoredTestPair.Keeper

    /// The range of `sessions` in the configuration. More sessions would only wait for each other, and each needs a
    /// thread.
    private static let sessionRange = 1...256

    /// - Parameters:
    ///   - anchor: A session that is logged in.
    ///   - tiers: The tiers that were selected by tests in the anchor session.
    init(
        _ opening: HSMTokenOpening, _ uri: TokenURI, _ slot: Slot, anchor: consuming sending Session,
        description: HSMTokenDescription, tiers: TierSelection, keeper: StoredTestPair.Keeper = .worker
    ) {
        self.keeper = keeper
        self.opening = opening
        self.uri = uri
        self.slot = Mutex(slot)
        self.anchor = Mutex(anchor)
        self.tiers = tiers
        var description = description
        description.importKey = importRecipient.publicKey
        self.description = description
    }

    /// Loads the library, finds the HSM token, logs in and chooses the tiers. Blocks for as long as the library takes.
    /// - Parameter prepare: Runs after the login and before the tests.
    /// - Throws: `loginRefused` for a refused PIN, `protocolViolation` for a daemon of another version, otherwise
    ///   `hsmTokenUnavailable`.
    static func open(
        _ opening: HSMTokenOpening, keeper: StoredTestPair.Keeper = .worker,
        preparing prepare: (Slot, inout Session) throws(CallError) -> Void = { (_, _) throws(CallError) in }
    ) throws(WorkerFailure) -> OpenToken {
        guard opening.protocolVersion == WorkerProtocolVersion.current,
            opening.programVersion == ProductVersion.current
        else {
            throw WorkerFailure(
                .protocolViolation,
                "This worker is version \(ProductVersion.current) and the daemon another: restart the daemon.")
        }
        guard sessionRange.contains(Int(opening.sessions)) else {
            throw WorkerFailure(.hsmTokenUnavailable, "sessions must be 1 to \(sessionRange.upperBound).")
        }
        try SystemCallFilter.apply(denying: opening.deniedSystemCalls)
        let (module, uri, slot, hsmToken) = try find(opening)
        do {
            var deadline = CallDeadline(callTimeout: opening.callTimeout)
            var anchor = Session(closedIn: slot)
            try deadline.retryingWhileBusy { () throws(CallError) in try anchor.reopenAsWritableAsPossible(in: slot) }
            try TokenLogin(opening).perform(in: &anchor, of: slot)
            try prepare(slot, &anchor)
            let library = try module.info()
            let tiers = TierSelection(
                in: &anchor, allowExtractableSecret: opening.allowExtractableSecret, makesStoredPairs: true,
                keeper: keeper, deadline: CallDeadline(callTimeout: opening.callTimeout))
            // If the HSM token ended the login during the self-tests, they failed for that reason. The worker would
            // then report functions as missing that the HSM token has.
            guard try anchor.loggedInUser() == .user else {
                throw WorkerFailure(.hsmTokenUnavailable, "The HSM token ended the login while its tiers were tested.")
            }
            try tiers.requireConnection()
            let description = HSMTokenDescription(
                label: hsmToken.label, serialNumber: hsmToken.serialNumber, manufacturer: hsmToken.manufacturer,
                model: hsmToken.model, hardwareVersion: hsmToken.hardwareVersion,
                firmwareVersion: hsmToken.firmwareVersion,
                library: "\(library.libraryDescription) \(library.libraryVersion)",
                sessions: opening.sessions, tierECv1: tiers.chosen[.ecV1]?.protection,
                tierRSAv1: tiers.chosen[.rsaV1]?.protection,
                tierECv2: tiers.chosen[.ecV2]?.protection, shortcomingECv2: tiers.shortcomingECv2,
                tlsSignatures: tiers.signatures.description,
                shortcomings: tiers.shortcomings + hsmToken.flags.pinWarnings,
                needsExtractableSecret: tiers.needsExtractableSecret, testKeys: tiers.storedTestPairs.names,
                testKeysMade: UInt8(clamping: tiers.storedTestPairs.made), importKey: [])
            return OpenToken(
                opening, uri, slot, anchor: anchor, description: description, tiers: tiers, keeper: keeper)
        } catch let error as WorkerFailure {
            throw error
        } catch {
            throw WorkerFailure(.hsmTokenUnavailable, "\(error).")
        }
    }

    static func find(
        _ opening: HSMTokenOpening
    ) throws(WorkerFailure) -> (Module, TokenURI, Slot, TokenInfo) {
        let uri: TokenURI
        do {
            uri = try TokenURI(opening.tokenURI)
        } catch {
            throw WorkerFailure(.hsmTokenUnavailable, "The HSM token's URI \(error).")
        }
        let module: Module
        do {
            module = try Module(
                path: opening.modulePath,
                initialization: opening.initializationString.isEmpty
                    ? .standard : .libraryParameters(opening.initializationString))
        } catch {
            throw WorkerFailure(.hsmTokenUnavailable, error.sentence(module: opening.modulePath))
        }
        do {
            let (slot, hsmToken) = try module.slot(holding: uri)
            return (module, uri, slot, hsmToken)
        } catch {
            let question = error == .notFound(shown: []) ? LibraryHint.question(module: opening.modulePath) : nil
            throw WorkerFailure(
                .hsmTokenUnavailable, "\(opening.tokenURI): \(error)." + (question.map { " \($0)" } ?? ""))
        }
    }

    // MARK: Keys

    /// Runs a change of keys exclusively: no other change and no listing runs at the same time.
    func exclusively<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try keyOperations.writing(body)
    }

    /// Runs a change that ends objects which other sessions may be using: it waits for the uses of keys that are under
    /// way, and no other begins before the change is done. A use that takes longer than a quarter of the daemon's limit
    /// for a request may hang. The daemon detects that, so the change does not wait for it.
    ///
    /// When an object ends, SoftHSM empties it. A thread that is using it then crashes the process.
    func withoutKeyUses<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try keyUses.writing(after: .milliseconds(Int64(opening.callTimeout) / 4), body)
    }

    /// Forgets all keys and the latest listing, after the HSM token has ended the login or the session that owned the
    /// working copies.
    func dropKeys() {
        keys.replace(with: [:])
        listing.withLock { $0 = nil }
    }
}

extension Session {
    /// Opens a read-write session, or a read-only one if the HSM token is write-protected; decryption works in both.
    mutating func reopenAsWritableAsPossible(in slot: Slot) throws(CallError) {
        do throws(CallError) {
            try reopen(in: slot, readWrite: true)
        } catch {
            guard error.returnValue == .tokenWriteProtected else { throw error }
            try reopen(in: slot)
        }
    }
}

extension TokenInfo.Flags {
    /// A sentence for each PIN that must be changed according to the HSM token's flags.
    fileprivate var pinWarnings: [String] {
        var warnings: [String] = []
        if contains(.securityOfficerPINToBeChanged) {
            warnings.append(
                "The security officer's PIN must be changed with the vendor's tools (CKF_SO_PIN_TO_BE_CHANGED): it may "
                    + "still be the vendor's.")
        }
        if contains(.userPINToBeChanged) {
            warnings.append("The user PIN must be changed with the vendor's tools (CKF_USER_PIN_TO_BE_CHANGED).")
        }
        return warnings
    }
}
