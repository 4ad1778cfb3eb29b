import Encodings
import Locks
import PKCS11
import WorkerProtocol

/// The sessions of a trial with the open HSM token. They answer requests as a worker's sessions do.
final class TrialSessions: Sendable {
    let hsmToken: OpenToken
    private let sessions: [TokenSession]
    private let open = Mutex<(count: Int, refusal: String?)>((1, nil))

    var count: Int { sessions.count }
    /// The reason why not all sessions were opened; nil if they were.
    var refusal: String? { open.withLock { $0.refusal } }

    init(_ hsmToken: OpenToken, _ count: UInt16) {
        self.hsmToken = hsmToken
        sessions = (0..<Int(count)).map { _ in TokenSession(hsmToken) }
    }

    /// Answers a request in one of the open sessions. Each session answers one request at a time.
    func answer(_ request: WorkerRequest, in caller: Int) -> WorkerAnswer {
        sessions[caller % open.withLock { $0.count }].answer(request)
    }

    /// Opens as many of the sessions as the HSM token accepts.
    /// - Returns: Their number, at least one.
    func openAll(_ watchdog: TrialWatchdog, _ timeout: Duration) throws(TrialFault) -> Int {
        do throws(CallError) {
            return try watchdog.limiting(timeout, "C_OpenSession") { () throws(CallError) in
                for (index, session) in sessions.enumerated() {
                    var deadline = CallDeadline(callTimeout: 0)
                    do throws(CallError) {
                        try session.open(&deadline)
                    } catch {
                        guard index > 0 else { throw error }
                        open.withLock { $0.refusal = "\(error) for session \(index + 1) of \(count)" }
                        break
                    }
                    open.withLock { $0.count = index + 1 }
                }
                return open.withLock { $0.count }
            }
        } catch {
            throw TrialFault("\(error)")
        }
    }

    /// Runs a step that no request of a worker does, in a session of its own.
    func raw(
        _ watchdog: TrialWatchdog, _ limit: Duration, _ name: String,
        _ body: (OpenToken, inout Session) throws(CallError) -> TokenTrial.Line
    ) throws(TrialFault) -> TokenTrial.Line {
        do throws(CallError) {
            return try watchdog.limiting(limit, name) { () throws(CallError) in
                var session = Session(closedIn: hsmToken.slot.withLock { $0 })
                try hsmToken.reopen(&session)
                return try body(hsmToken, &session)
            }
        } catch {
            throw TrialFault("\(error)")
        }
    }
}

extension TokenTrial {
    /// Makes a key pair as an audit key's, but with the trial's label, and signs with it.
    func signsAsAuditKey(_ hsmToken: OpenToken, _ session: inout Session) throws(CallError) -> Line {
        let identifier = (0..<AuditKeyDescription.identifierByteCount).map { _ in UInt8.random(in: .min ... .max) }
        let objects = AuditKeyObjects(identifier: identifier, label: TrialObjects.label)
        if let fault = try hsmToken.makeAuditKey(objects, &session) { return Line(works: false, reason: fault) }
        for search in [objects.privateKeys, objects.publicKeys] {
            session.destroy(try session.findObjects(matching: search))
        }
        return Line()
    }

    /// Stores a data object as the record's remembered end is stored, but with the trial's label, and reads it.
    func remembers(_ hsmToken: OpenToken, _ session: inout Session) throws(CallError) -> Line {
        let value = Array("paytokend tries a data object".utf8)
        let object = try firstAccepted(of: [true, false]) { (isPrivate) throws(CallError) in
            try session.createObject([
                .objectClass(.data), .token(true), .private(isPrivate), .application(TrialObjects.label),
                .label(TrialObjects.label), .value(value),
            ])
        }
        defer { session.destroyTryingTwice(object) }
        let read = try session.attributes([.value], of: object).bytes(.value)
        return read == value ? Line() : Line(works: false, reason: "the data object has another value")
    }

    /// Describes the HSM token and its library, as far as no test is needed.
    static func describe(_ slot: Slot) throws(CallError) -> Description {
        let (library, info) = (try slot.module.info(), try slot.tokenInfo())
        return Description(
            library: "\(library.libraryDescription) \(library.libraryVersion)",
            libraryManufacturer: library.manufacturer, cryptoki: library.cryptokiVersion.description,
            manufacturer: info.manufacturer, model: info.model, hardwareVersion: info.hardwareVersion,
            firmwareVersion: info.firmwareVersion,
            mechanisms: ((try? slot.mechanisms()) ?? []).map { "0x" + String($0, radix: 16) })
    }

    /// Returns the HSM token's tiers and signatures.
    static func tests(_ description: HSMTokenDescription) -> Tests {
        Tests(
            tierECv1: description.tierECv1?.rawValue, tierRSAv1: description.tierRSAv1?.rawValue,
            tierECv2: description.tierECv2?.rawValue,
            tlsAlgorithms: description.tlsSignatures.algorithms.map(\.rawValue),
            padsPSS: description.tlsSignatures.pss == .byWorker,
            shortcomings: description.shortcomings + [description.shortcomingECv2].filter { !$0.isEmpty })
    }
}

/// The faults that several threads find.
final class FoundFaults: Sendable {
    private let faults = Mutex<[String]>([])

    var first: String? { faults.withLock { $0.first } }

    func add(_ fault: String) { faults.withLock { $0.append(fault) } }
}

/// The reason why a step of a trial does not work.
struct TrialFault: Error {
    let reason: String
    /// False if the step's key remained in the HSM token; nil if there was none.
    var keyRemoved: Bool?

    init(_ reason: String) {
        self.reason = reason
    }

    static var unexpected: TrialFault { TrialFault("the worker gave another answer than the request's") }

    static func wrapping<Value>(_ body: () throws(UnsuitableKey) -> Value) throws(TrialFault) -> Value {
        do throws(UnsuitableKey) {
            return try body()
        } catch {
            throw TrialFault(error.reason)
        }
    }
}
