import KeySealing
import PKCS11
import ProductVersion
import SecretMemory
import Synchronization
import WorkerProtocol

/// The one token of this process, logged in, its tiers chosen and its keys tested. Used by all session threads.
final class OpenToken: Sendable {
    let description: TokenDescription
    let tiers: TierSelection
    let keys = PrivateKeyMap()
    let auditKeys = AuditKeyMap()
    /// For imports, made at this start and known to nobody else.
    let importRecipient = KeySealing.Recipient()

    private let slot: Slot
    /// Holds the login, which ends with a token's last session, and owns the working copies of the keys.
    private let anchor: Mutex<Session>
    /// One at a time: imports look first and create then.
    private let keyOperations = Mutex(())

    /// More would only wait for each other, and each is a thread.
    private static let sessionRange = 1...256

    private init(
        slot: Slot, anchor: consuming sending Session, description: TokenDescription, tiers: TierSelection
    ) {
        self.slot = slot
        self.anchor = Mutex(anchor)
        self.tiers = tiers
        var description = description
        description.importKey = importRecipient.publicKey
        self.description = description
    }

    /// Loads the library, finds the token, logs in and chooses the tiers. Blocks for as long as the library likes.
    /// - Throws: `loginRefused` for a wrong PIN, `protocolViolation` for another version's daemon, else
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
        let (module, slot, token) = try find(opening)
        let pin = try readPIN(opening.pinFile)
        do throws(CallError) {
            var anchor = try slot.openWidestSession()
            try logIn(&anchor, pin)
            let library = try module.info()
            let tiers = TierSelection(in: &anchor, allowExtractableSecret: opening.allowExtractableSecret)
            let description = TokenDescription(
                label: token.label, serialNumber: token.serialNumber, manufacturer: token.manufacturer,
                model: token.model, library: "\(library.libraryDescription) \(library.libraryVersion)",
                sessions: opening.sessions, tierECv1: tiers.ecV1?.protection, tierRSAv1: tiers.rsaV1?.protection,
                shortcomings: tiers.shortcomings.map { String($0.prefix(900)) }, importKey: [])
            return OpenToken(slot: slot, anchor: anchor, description: description, tiers: tiers)
        } catch {
            throw WorkerFailure(error.saysLogin ? .loginRefused : .tokenUnavailable, loginAdvice(error, opening))
        }
    }

    private static func find(
        _ opening: TokenOpening
    ) throws(WorkerFailure) -> (Module, Slot, TokenInfo) {
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
            throw WorkerFailure(.tokenUnavailable, "\(error).")
        }
        do {
            let (slot, token) = try module.slot(holding: uri)
            return (module, slot, token)
        } catch {
            throw WorkerFailure(.tokenUnavailable, "\(opening.tokenURI): \(error).")
        }
    }

    private static func readPIN(_ path: String) throws(WorkerFailure) -> SecretBytes {
        do {
            return try SecretBytes(contentsOfFile: path)
        } catch {
            throw WorkerFailure(.tokenUnavailable, "\(error).")
        }
    }

    private static func logIn(_ session: inout Session, _ pin: borrowing SecretBytes) throws(CallError) {
        do {
            try session.logIn(.user, pin: pin)
        } catch {
            guard error.returnValue == .userAlreadyLoggedIn else { throw error }
        }
    }

    private static func loginAdvice(_ error: CallError, _ opening: TokenOpening) -> String {
        switch error.returnValue {
        case .pinIncorrect, .pinInvalid, .pinLengthRange:
            "\(error): the token refuses the PIN in \(opening.pinFile). It is not tried again before that file changes."
        case .pinLocked: "\(error): the token has locked the user PIN. Its security officer can set a new one."
        case .pinExpired: "\(error): the user PIN must be changed with the token's own tools."
        case .userPINNotInitialized: "\(error): the token has no user PIN yet."
        case .sessionCount: "\(error): the token allows fewer sessions; set a smaller number."
        default: "\(error)."
        }
    }

    // MARK: Sessions

    /// Another session for a thread of its own.
    func openSession() throws(CallError) -> Session {
        try slot.openWidestSession()
    }

    // MARK: Keys

    /// One import or listing at a time.
    func exclusively<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try keyOperations.withLock { (_) throws(Failure) in try body() }
    }

    /// Reads and tests the token's keys anew, and serves those that passed.
    func listKeys(in session: inout Session) throws(CallError) -> [KeyDescription] {
        let former = keys.all
        let listing = try KeyListing(&session, tiers: tiers, known: former)
        keys.replace(with: listing.entries.mapValues(withWorkingCopy))
        for (hash, entry) in former where listing.entries[hash]?.object != entry.object { forget(entry) }
        return listing.descriptions
    }

    /// Serves a key that was just made and tested.
    func add(_ entry: PrivateKeyEntry) {
        keys.insert(withWorkingCopy(entry))
    }

    /// Session objects cost memory and, in large numbers, time: beyond this many keys the token's objects do.
    private static let workingCopies = 64

    private func withWorkingCopy(_ entry: PrivateKeyEntry) -> PrivateKeyEntry {
        guard entry.working == entry.object, keys.all.count < Self.workingCopies else { return entry }
        return anchor.withLock { session in
            guard let copy = try? session.copyObject(entry.object, [.token(false)]) else { return entry }
            let values = try? session.attributes([.sensitive, .extractable, .token], of: copy)
            guard values?.flag(.sensitive) == true, values?.flag(.extractable) == false, values?.flag(.token) == false
            else {
                try? session.destroyObject(copy)
                return entry
            }
            var entry = entry
            entry.working = copy
            return entry
        }
    }

    private func forget(_ entry: PrivateKeyEntry) {
        guard entry.working != entry.object else { return }
        anchor.withLock { try? $0.destroyObject(entry.working) }
    }
}

extension Slot {
    /// A read-write session, or what a read-only token gives: it decrypts all the same.
    fileprivate func openWidestSession() throws(CallError) -> Session {
        do throws(CallError) {
            return try openSession(readWrite: true)
        } catch {
            guard error.returnValue == .tokenWriteProtected else { throw error }
            return try openSession()
        }
    }
}

extension CallError {
    /// Another try with the same PIN would not do better, and could lock it.
    var saysLogin: Bool {
        switch returnValue {
        case .pinIncorrect?, .pinInvalid?, .pinLengthRange?, .pinLocked?, .pinExpired?, .userPINNotInitialized?: true
        default: false
        }
    }
}
