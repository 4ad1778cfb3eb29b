import Crypto
import Dispatch
import Encodings
import Glibc
import KeySealing
import KeyTesting
import KeyTypes
import Locks
import PKCS11
import TLSHandshake
public import WorkerProtocol

// Unsafe: The signal set and the signal are variables of this function, and the calls use them only until they
// return.

/// A trial of an HSM token with throwaway keys: the worker's own operations, without a daemon and without a ledger.
/// Only `paytokend-hsm token-try` runs it, in a process of its own, which a library that hangs or crashes ends.
///
/// The HSM token may hold production keys. A trial opens the HSM token without listing its keys, and uses handles and
/// publicKeyHashes of its own keys only. Its objects have a label of their own (``TrialObjects``). They are removed after
/// each step, at the end, and at the next trial's beginning.
public final class TokenTrial: Sendable {
    /// One line of the trial's output. Absent values are left out.
    public struct Line: Sendable, Encodable {
        /// The step that begins. A process that ends without a further line ended in this step.
        public var began: String?
        /// The step that ended.
        public var step: String?
        public var works: Bool?
        /// The reason why the step does not work.
        public var reason: String?
        /// Results of the step: signatures, numbers of cases.
        public var details: [String]?
        public var seconds: Double?
        /// False if the key that the step made remained in the HSM token.
        public var keyRemoved: Bool?
        /// The sessions that were open at the same time.
        public var sessions: Int?
        public var hsmToken: Description?
        public var tests: Tests?
    }

    /// The HSM token and its library, without label and serial number.
    public struct Description: Sendable, Encodable {
        public let library, libraryManufacturer, cryptoki, manufacturer, model, hardwareVersion, firmwareVersion: String
        /// Numbers (CKM_…) in hexadecimal; empty if the library does not list them.
        public let mechanisms: [String]
    }

    /// The results of the self-tests at the opening.
    public struct Tests: Sendable, Encodable {
        public let tierECv1, tierRSAv1: String?
        /// The tier for Google Pay.
        public let tierECv2: String?
        public let tlsAlgorithms: [String]
        /// True if PSS signatures are padded by the worker.
        public let padsPSS: Bool
        public let shortcomings: [String]
    }

    /// The exit status after a call that did not return.
    public static let hangStatus: Int32 = 75

    private let opening: HSMTokenOpening
    private let skipped: Set<String>
    private let vectors: String?
    private let timeout: Duration
    private let report: @Sendable (Line) -> Void
    private let remark: @Sendable (String) -> Void
    private let watchdog = TrialWatchdog()
    private let current = Mutex("open")
    private let isStopped = Atomic<Bool>(false)

    /// - Parameters:
    ///   - opening: Its `sessions` is the number of sessions that are tried at the same time.
    ///   - skipped: Steps of an earlier process.
    ///   - vectors: The directory of Wycheproof's files; nil to leave out these steps.
    ///   - timeout: The time after which a call counts as hanging. A step of many calls has ten times as long.
    ///   - report: Receives the lines, also in another thread.
    ///   - remark: Receives sentences for a person.
    public init(
        _ opening: HSMTokenOpening, skipping skipped: Set<String>, vectors: String?, timeout: Duration,
        report: @escaping @Sendable (Line) -> Void, remark: @escaping @Sendable (String) -> Void
    ) {
        self.opening = opening
        self.skipped = skipped
        self.vectors = vectors
        self.timeout = timeout
        self.report = report
        self.remark = remark
    }

    /// Makes SIGINT, SIGTERM and SIGHUP end the trial after its current step, so that it removes its objects. Call it
    /// before ``run()``, whose threads inherit the signal mask.
    public func stopAtSignals() {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        for signal in [SIGINT, SIGTERM, SIGHUP] { unsafe sigaddset(&signals, signal) }
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
        let waited = signals
        BlockingThread.start("signals") { [self] in
            var (signals, signal) = (waited, Int32(0))
            while unsafe sigwait(&signals, &signal) == 0 { isStopped.store(true, ordering: .relaxed) }
        }
    }

    /// Runs all steps. Blocks. Ends the process with ``hangStatus`` if a call does not return in time.
    /// - Throws: A failure if the HSM token cannot be opened, or if objects remain in it.
    public func run() throws(WorkerFailure) {
        watchdog.start { [self] call in
            report(Line(step: current.withLock { $0 }, works: false, reason: call, keyRemoved: nil))
            // A login that is interrupted can make later logins impossible.
            TokenLogin.finish(within: 10)
            _exit(Self.hangStatus)
        }
        report(Line(began: "open"))
        let hsmToken = try watchdog.limiting(timeout, "open") { () throws(WorkerFailure) in
            try OpenToken.open(opening, keeper: .trial) { (slot, session) throws(CallError) in
                try TrialObjects.removeAll(in: &session) { remark("Removes what an earlier trial left: \($0).") }
                report(Line(hsmToken: try Self.describe(slot)))
            }
        }
        report(Line(step: "open", works: true, tests: Self.tests(hsmToken.description)))
        runSteps(TrialSessions(hsmToken, opening.sessions))
        try removeAll(hsmToken)
    }

    private func removeAll(_ hsmToken: OpenToken) throws(WorkerFailure) {
        do {
            try watchdog.limiting(timeout, "removal of the trial's objects") {
                let slot = hsmToken.slot.withLock { $0 }
                var session = Session(closedIn: slot)
                try hsmToken.reopen(&session)
                // Without a login, private objects are not found.
                if try session.loggedInUser() != .user { try TokenLogin(opening).perform(in: &session, of: slot) }
                try TrialObjects.removeAll(in: &session) { _ in }
            }
        } catch {
            throw WorkerFailure(
                .importRefused,
                "Objects labelled \"\(TrialObjects.label)\" may remain in the HSM token: "
                    + "\((error as? WorkerFailure)?.message ?? "\(error).") Remove them with the vendor's tools, or try again."
            )
        }
    }

    // MARK: Steps

    private func runSteps(_ sessions: TrialSessions) {
        for kind in TrialKind.all {
            step("imports \(kind.name)") { () throws(TrialFault) in try withKey(sessions, kind, imports: true) }
        }
        for kind in TrialKind.all {
            step("generates \(kind.name)") { () throws(TrialFault) in try withKey(sessions, kind, imports: false) }
        }
        step("\(opening.sessions) sessions") { () throws(TrialFault) in try useSessions(sessions) }
        step("audit key") { () throws(TrialFault) in try sessions.raw(watchdog, timeout, "audit key", signsAsAuditKey) }
        if let vectors {
            for vector in VectorTrial.all(directory: vectors, sessions.hsmToken) {
                step(vector.name) { () throws(TrialFault) in
                    try sessions.raw(watchdog, timeout * 10, vector.name, vector.run)
                }
            }
        }
        // The last, since some libraries hang after it.
        step("remembers the head") { () throws(TrialFault) in
            try sessions.raw(watchdog, timeout, "data object", remembers)
        }
    }

    private func step(_ name: String, _ body: () throws(TrialFault) -> Line) {
        guard !skipped.contains(name), !isStopped.load(ordering: .relaxed) else { return }
        current.withLock { $0 = name }
        report(Line(began: name))
        let start = ContinuousClock.now
        var line: Line
        do throws(TrialFault) {
            line = try body()
            line.works = line.works ?? true
        } catch {
            line = Line(works: false, reason: error.reason, keyRemoved: error.keyRemoved)
        }
        line.step = name
        line.seconds = ((ContinuousClock.now - start) / .milliseconds(1)).rounded() / 1000
        report(line)
    }

    // MARK: Keys

    /// Makes a key, uses it for its purpose, and destroys it.
    private func withKey(_ sessions: TrialSessions, _ kind: TrialKind, imports: Bool) throws(TrialFault) -> Line {
        let publicKey = try imports ? importKey(sessions, kind) : generateKey(sessions, kind)
        var (details, fault): ([String], TrialFault?) = ([], nil)
        do throws(TrialFault) {
            if !imports { try certify(publicKey, sessions) }
            try requireListing(publicKey, sessions)
            details = try use(publicKey, kind, sessions)
        } catch {
            fault = error
        }
        let remains = destroy(publicKey, sessions)
        if var fault {
            fault.keyRemoved = remains == nil
            throw fault
        }
        return Line(reason: remains, details: details.isEmpty ? nil : details, keyRemoved: remains == nil)
    }

    private func importKey(_ sessions: TrialSessions, _ kind: TrialKind) throws(TrialFault) -> SubjectPublicKeyInfo {
        do {
            let key = try TrialSoftwareKey(kind.algorithm)
            let certificate = try TrialCertificates.certificate(for: key.publicKey)
            let sealed = try KeySealing.seal(
                privateKey: key.pkcs8, authenticating: certificate, to: sessions.hsmToken.importRecipient.publicKey)
            let request = PrivateKeyImport(
                merchantIdentifier: TrialObjects.label, use: kind.use, certificate: certificate,
                encapsulatedKey: sealed.encapsulatedKey, sealedPrivateKey: sealed.sealed)
            _ = try call(.importPrivateKey(request), sessions)
            return key.publicKey
        } catch let fault as TrialFault {
            throw fault
        } catch {
            throw TrialFault("\(error)")
        }
    }

    private func generateKey(_ sessions: TrialSessions, _ kind: TrialKind) throws(TrialFault) -> SubjectPublicKeyInfo {
        let request = KeyGeneration(merchantIdentifier: TrialObjects.label, algorithm: kind.algorithm, use: kind.use)
        guard case .generatedKey(let key) = try call(.generateKey(request), sessions) else { throw .unexpected }
        do throws(UnsuitableKey) {
            return try SubjectPublicKeyInfo(der: key.subjectPublicKeyInfo)
        } catch {
            throw TrialFault(error.reason)
        }
    }

    /// Signs the key's certificate request and stores a certificate.
    private func certify(_ publicKey: SubjectPublicKeyInfo, _ sessions: TrialSessions) throws(TrialFault) {
        let information = TrialCertificates.requestInformation(for: publicKey)
        let signing = RequestSigning(publicKeyHash: publicKey.publicKeyHash, information: information)
        // The worker has verified the signature.
        guard case .requestSignature = try call(.signRequest(signing), sessions) else { throw .unexpected }
        let certificate = CertificateToStore(
            publicKeyHash: publicKey.publicKeyHash, merchantIdentifier: TrialObjects.label,
            certificate: try certificate(for: publicKey))
        _ = try call(.importCertificate(certificate), sessions)
    }

    /// Reads the key as a listing does, which finds a public key or a CKA_ID that was not stored.
    private func requireListing(_ publicKey: SubjectPublicKeyInfo, _ sessions: TrialSessions) throws(TrialFault) {
        let request = WorkerRequest.describeKey(publicKeyHash: publicKey.publicKeyHash)
        guard case .keys(let keys) = try call(request, sessions), let key = keys.first else {
            throw TrialFault("the HSM token does not show the new key")
        }
        if let inconsistency = key.inconsistency { throw TrialFault(inconsistency) }
    }

    private func certificate(for publicKey: SubjectPublicKeyInfo) throws(TrialFault) -> [UInt8] {
        do throws(UnsuitableKey) {
            return try TrialCertificates.certificate(for: publicKey)
        } catch {
            throw TrialFault(error.reason)
        }
    }

    /// Opens a made-up payment and refuses a forged one, or signs handshakes.
    /// - Returns: The signatures that were made.
    private func use(
        _ publicKey: SubjectPublicKeyInfo, _ kind: TrialKind, _ sessions: TrialSessions
    ) throws(TrialFault) -> [String] {
        guard kind.use == .processing else { return try signHandshakes(publicKey, sessions) }
        let payment = try TrialFault.wrapping { () throws(UnsuitableKey) in try TestTransaction(for: publicKey) }
        guard case .plaintext(let plaintext, _, _) = try call(.decrypt(payment.input), sessions),
            plaintext == payment.plaintext
        else { throw TrialFault("a made-up payment opened to another plaintext") }
        var forged = payment.input
        forged.ciphertext[forged.ciphertext.count - 1] ^= 1
        guard case .failed(let failure) = answer(.decrypt(forged), sessions), failure.kind == .decryptionFailed else {
            throw TrialFault("a payment with a wrong tag was not refused")
        }
        return []
    }

    private func signHandshakes(
        _ publicKey: SubjectPublicKeyInfo, _ sessions: TrialSessions
    ) throws(TrialFault) -> [String] {
        let inputs = [
            ("TLS 1.3", TestHandshake.tls13()),
            ("TLS 1.2", TestHandshake.tls12(certificate: try certificate(for: publicKey))),
        ]
        var made: [String] = []
        for algorithm in sessions.hsmToken.description.tlsSignatures.algorithms {
            for (version, input) in inputs where version == "TLS 1.2" || algorithm == .pssSHA256 {
                let signing = TLSSigning(
                    publicKeyHash: publicKey.publicKeyHash, algorithm: algorithm, input: input)
                guard case .tlsSignature(let signature) = try call(.signTLS(signing), sessions),
                    publicKey.isValid(signature, of: input, algorithm)
                else { throw TrialFault("\(version) by \(algorithm.rawValue): the signature does not verify") }
                made.append("\(version) \(algorithm.rawValue)")
            }
        }
        return made
    }

    /// - Returns: nil if the HSM token shows the key no more, otherwise the fault.
    private func destroy(_ publicKey: SubjectPublicKeyInfo, _ sessions: TrialSessions) -> String? {
        if case .failed(let failure) = answer(.destroyKey(publicKeyHash: publicKey.publicKeyHash), sessions) {
            return failure.message
        }
        switch answer(.describeKey(publicKeyHash: publicKey.publicKeyHash), sessions) {
        case .keys([]): return nil
        case .failed(let failure): return failure.message
        default: return "the HSM token still shows the destroyed key"
        }
    }

    // MARK: Sessions

    private static let callers = 8
    private static let paymentsPerCaller = 8

    /// Opens payments by eight callers at a time in all sessions.
    private func useSessions(_ sessions: TrialSessions) throws(TrialFault) -> Line {
        let open = try sessions.openAll(watchdog, timeout)
        var fault = TrialFault("no processing key works")
        for kind in TrialKind.all where kind.use == .processing {
            for imports in [true, false] {
                let publicKey: SubjectPublicKeyInfo
                do throws(TrialFault) {
                    publicKey = try imports ? importKey(sessions, kind) : generateKey(sessions, kind)
                } catch {
                    fault = error
                    continue
                }
                defer { _ = destroy(publicKey, sessions) }
                if let wrong = try openPayments(publicKey, sessions) { throw TrialFault(wrong) }
                return Line(works: open == sessions.count, reason: sessions.refusal, sessions: open)
            }
        }
        throw fault
    }

    /// - Returns: The first fault; nil if all payments were opened.
    private func openPayments(_ publicKey: SubjectPublicKeyInfo, _ sessions: TrialSessions) throws(TrialFault)
        -> String?
    {
        let payments = try TrialFault.wrapping { () throws(UnsuitableKey) in
            var payments: [TestTransaction] = []
            for _ in 0..<Self.callers * Self.paymentsPerCaller { payments.append(try TestTransaction(for: publicKey)) }
            return payments
        }
        let faults = FoundFaults()
        let ended = DispatchSemaphore(value: 0)
        return watchdog.limiting(timeout * 10, "payments in several sessions") {
            for caller in 0..<Self.callers {
                let own = payments[caller * Self.paymentsPerCaller..<(caller + 1) * Self.paymentsPerCaller]
                BlockingThread.start("caller-\(caller)") {
                    for payment in own {
                        switch sessions.answer(.decrypt(payment.input), in: caller) {
                        case .plaintext(payment.plaintext, _, _): break
                        case .failed(let failure): faults.add(failure.message)
                        default: faults.add("a made-up payment opened to another plaintext")
                        }
                    }
                    ended.signal()
                }
            }
            for _ in 0..<Self.callers { ended.wait() }
            return faults.first
        }
    }

    // MARK: Calls

    private func answer(_ request: WorkerRequest, _ sessions: TrialSessions) -> WorkerAnswer {
        watchdog.limiting(timeout, request.operation.name) { sessions.answer(request, in: 0) }
    }

    private func call(_ request: WorkerRequest, _ sessions: TrialSessions) throws(TrialFault) -> WorkerAnswer {
        let answer = answer(request, sessions)
        if case .failed(let failure) = answer { throw TrialFault(failure.message) }
        return answer
    }
}
