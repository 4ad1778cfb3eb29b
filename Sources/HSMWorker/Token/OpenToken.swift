import Foundation
import KeySealing
import PKCS11
import ProductVersion
import Synchronization
import WorkerProtocol

/// The one token of this process, logged in, its tiers chosen and its keys tested. Used by all session threads.
final class OpenToken: Sendable {
    let description: TokenDescription
    let tiers: TierSelection
    let keys = PrivateKeyMap()
    /// The latest listing; without keys once all its pages have been asked for.
    let listing = Mutex<(number: UInt64, keys: KeyListing?)?>(nil)
    let auditKeys = AuditKeyMap()
    let heads = RememberedHeadMap()
    /// For imports, made at this start and known to nobody else.
    let importRecipient = KeySealing.Recipient()

    let opening: TokenOpening
    let uri: TokenURI
    /// Another one after the token came back elsewhere.
    let slot: Mutex<Slot>
    /// Holds the login, which ends with a token's last session, and owns the working copies of the keys.
    let anchor: Mutex<Session>
    /// The token makes no working copies: it is not asked again at each use of a key.
    let copiesAreRefused = Atomic<Bool>(false)
    /// How many of the worker's sessions are open.
    let openSessions = Atomic<Int>(0)
    let keyOperations = KeyOperationsLock()

    /// More would only wait for each other, and each is a thread.
    private static let sessionRange = 1...256

    /// An anchor that is logged in, and the tiers that were chosen in it.
    init(
        _ opening: TokenOpening, _ uri: TokenURI, _ slot: Slot, anchor: consuming sending Session,
        description: TokenDescription, tiers: TierSelection
    ) {
        self.opening = opening
        self.uri = uri
        self.slot = Mutex(slot)
        self.anchor = Mutex(anchor)
        self.tiers = tiers
        var description = description
        description.importKey = importRecipient.publicKey
        self.description = description
    }

    /// Loads the library, finds the token, logs in and chooses the tiers. Blocks for as long as the library likes.
    /// - Throws: `loginRefused` for a refused PIN, `protocolViolation` for another version's daemon, else
    ///   `tokenUnavailable`; each says what to do.
    static func open(_ opening: TokenOpening) throws(WorkerFailure) -> OpenToken {
        guard opening.protocolVersion == WorkerProtocolVersion.current,
            opening.programVersion == ProductVersion.current
        else {
            throw WorkerFailure(
                .protocolViolation,
                "This worker is version \(ProductVersion.current) and the daemon another: restart the daemon.")
        }
        guard sessionRange.contains(Int(opening.sessions)) else {
            throw WorkerFailure(.tokenUnavailable, "sessions must be 1 to \(sessionRange.upperBound).")
        }
        try SystemCallFilter.apply(denying: opening.deniedSystemCalls)
        let (module, uri, slot, token) = try find(opening)
        do {
            var deadline = CallDeadline(callTimeout: opening.callTimeout)
            var anchor = Session(closedIn: slot)
            try deadline.retryingWhileBusy { () throws(CallError) in try anchor.reopenAsWritableAsPossible(in: slot) }
            try TokenLogin(opening).perform(in: &anchor, of: slot)
            let library = try module.info()
            let tiers = TierSelection(
                in: &anchor, allowExtractableSecret: opening.allowExtractableSecret,
                deadline: CallDeadline(callTimeout: opening.callTimeout))
            // What was tried without a login says nothing of the token.
            guard try anchor.loggedInUser() == .user else {
                throw WorkerFailure(.tokenUnavailable, "The token ended the login while its tiers were tested.")
            }
            let description = TokenDescription(
                label: token.label, serialNumber: token.serialNumber, manufacturer: token.manufacturer,
                model: token.model, library: "\(library.libraryDescription) \(library.libraryVersion)",
                sessions: opening.sessions, tierECv1: tiers.ecV1?.protection, tierRSAv1: tiers.rsaV1?.protection,
                shortcomings: tiers.shortcomings, importKey: [])
            return OpenToken(opening, uri, slot, anchor: anchor, description: description, tiers: tiers)
        } catch let error as WorkerFailure {
            throw error
        } catch {
            throw WorkerFailure(.tokenUnavailable, "\(error).")
        }
    }

    private static func find(
        _ opening: TokenOpening
    ) throws(WorkerFailure) -> (Module, TokenURI, Slot, TokenInfo) {
        let uri: TokenURI
        do {
            uri = try TokenURI(opening.tokenURI)
        } catch {
            throw WorkerFailure(.tokenUnavailable, "\(error).")
        }
        let module: Module
        do {
            module = try Module(
                path: opening.modulePath,
                initialization: opening.initializationString.isEmpty
                    ? .standard : .libraryParameters(opening.initializationString))
        } catch {
            throw WorkerFailure(.tokenUnavailable, error.sentence(module: opening.modulePath))
        }
        do {
            let (slot, token) = try module.slot(holding: uri)
            return (module, uri, slot, token)
        } catch {
            throw WorkerFailure(.tokenUnavailable, "\(opening.tokenURI): \(error).")
        }
    }

    // MARK: Keys

    /// One import or other change of keys at a time, and none is listed meanwhile.
    func exclusively<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try keyOperations.alone(body)
    }

    /// After the session that owned them was lost: no working copy is left, and none is forgotten one by one.
    func dropKeys() {
        keys.replace(with: [:])
        listing.withLock { $0 = nil }
    }
}

extension Session {
    /// A read-write session, or what a read-only token gives: it decrypts all the same.
    mutating func reopenAsWritableAsPossible(in slot: Slot) throws(CallError) {
        do throws(CallError) {
            try reopen(in: slot, readWrite: true)
        } catch {
            guard error.returnValue == .tokenWriteProtected else { throw error }
            try reopen(in: slot)
        }
    }
}

extension ModuleError {
    /// For people: what was wrong, and a question where the likeliest cause is known. SoftHSM says no more than
    /// CKR_GENERAL_ERROR of a configuration or a directory that is not there.
    func sentence(
        module path: String, environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> String {
        guard case .call(let error) = self, error.call == "C_Initialize", error.returnValue == .generalError,
            environment["SOFTHSM2_CONF"] != nil || path.lowercased().contains("softhsm")
        else { return "\(self)." }
        return "\(self). Does SOFTHSM2_CONF name a file whose tokendir exists and is writable?"
    }
}
