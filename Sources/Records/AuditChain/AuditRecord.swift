internal import Encodings
public import Refusals
internal import StrictJSON

/// The record of one event: who did what to which key, when, and with which outcome.
///
/// It has no member for a request's content, an account number, a cryptogram, a PIN or a key. Every member is a word of
/// a closed set, a digest, a number, a time, or text that ``AuditText`` or ``AuditReason`` has sanitised.
public struct AuditRecord: Sendable, Equatable {
    /// The time of the event, by the daemon's clock.
    public var time: AuditTime
    public var event: AuditEvent
    public var outcome: AuditOutcome
    /// Nil if the daemon itself acted.
    public var caller: AuditCaller?
    /// The merchant identifier.
    public var merchant: AuditText?
    /// SHA-256 of the merchant key's SubjectPublicKeyInfo; written in base64, as in responses.
    public var publicKeyHash: AuditDigest?
    /// 32 bytes, written in hexadecimal.
    public var transactionId: AuditDigest?
    public var protection: AuditProtection?
    /// The HSM token's name in the configuration.
    public var hsmToken: AuditText?
    /// True if the outcome ``AuditOutcome/leavesUseOpen``, but no HSM token can have used the key.
    public var hsmWasNotReached: Bool
    /// The trace that identifies the request in the caller's own logs. It comes from the caller and proves nothing.
    public var trace: AuditTrace?

    public init(
        time: AuditTime, event: AuditEvent, outcome: AuditOutcome = .ok, caller: AuditCaller? = nil,
        merchant: AuditText? = nil, publicKeyHash: AuditDigest? = nil, transactionId: AuditDigest? = nil,
        protection: AuditProtection? = nil, hsmToken: AuditText? = nil, hsmWasNotReached: Bool = false,
        trace: AuditTrace? = nil
    ) {
        self.time = time
        self.event = event
        self.outcome = outcome
        self.caller = caller
        self.merchant = merchant
        self.publicKeyHash = publicKeyHash
        self.transactionId = transactionId
        self.protection = protection
        self.hsmToken = hsmToken
        self.hsmWasNotReached = hsmWasNotReached
        self.trace = trace
    }
}

/// The outcome of an event.
public enum AuditOutcome: Sendable, Equatable {
    case ok
    /// A repeat: the same caller received the same transaction again.
    case repeated
    case refused(RefusalCode)

    /// The `outcome` member: `ok`, `repeat` or the refusal's code.
    public var text: String {
        switch self {
        case .ok: "ok"
        case .repeated: "repeat"
        case .refused(let code): code.rawValue
        }
    }

    /// True for refusals that can follow a use of the key although the record names no HSM token: the HSM token gave no
    /// answer, or an unusable one.
    public var leavesUseOpen: Bool {
        switch self {
        case .refused(.decryptionFailed), .refused(.hsmUnavailable), .refused(.internalError),
            .refused(.deadlineExceeded):
            true
        default: false
        }
    }

    /// Nil for a word that is not an outcome.
    public init?(_ text: String) {
        switch text {
        case "ok": self = .ok
        case "repeat": self = .repeated
        default:
            guard let code = RefusalCode(rawValue: text) else { return nil }
            self = .refused(code)
        }
    }
}

/// The tier in which a key was used, which shows what left the HSM token.
public enum AuditProtection: String, Sendable, CaseIterable {
    case a = "A"
    case b = "B"
    case c = "C"
}

/// The trace that a request belongs to (W3C Trace Context, Recommendation of 2021-11-23, §3.2.2).
public struct AuditTrace: Sendable, Equatable {
    /// 32 lower-case hexadecimal digits.
    public let traceId: String
    /// The caller's span: 16 lower-case hexadecimal digits.
    public let parentId: String

    /// Nil if a value has any other form.
    public init?(traceId: String, parentId: String) {
        guard traceId.utf8.count == 32, parentId.utf8.count == 16, Hexadecimal.isLowerCase(traceId.utf8),
            Hexadecimal.isLowerCase(parentId.utf8)
        else { return nil }
        self.traceId = traceId
        self.parentId = parentId
    }
}

/// The caller of a request. The kernel recorded `uid` and `gid` when the client connected. `loginUID`, `pid` and `comm`
/// are for information only: they were read later, and a process can change them or exit in between.
public struct AuditCaller: Sendable, Equatable {
    /// The access rule's name, or the uid; nil for a peer that no rule matched.
    public var name: AuditText?
    public var uid: UInt32
    public var gid: UInt32?
    /// The login uid (proc(5), /proc/pid/loginuid), if one is set.
    public var loginUID: UInt32?
    public var pid: Int32?
    /// The name that the process gives itself (proc(5), /proc/pid/comm).
    public var comm: AuditText?

    public init(
        name: AuditText?, uid: UInt32, gid: UInt32?, loginUID: UInt32? = nil, pid: Int32? = nil, comm: AuditText? = nil
    ) {
        self.name = name
        self.uid = uid
        self.gid = gid
        self.loginUID = loginUID
        self.pid = pid
        self.comm = comm
    }
}

extension AuditRecord {
    static let notReached = "not_reached"

    /// Writes the members from `time` to those specific to the event, in the order of the public contract. Absent
    /// members are omitted, never null.
    func write(into writer: inout JSONWriter) {
        writer.member("time", time.text)
        writer.member("event", event.name.rawValue)
        writer.member("outcome", outcome.text)
        if let caller {
            writer.member("caller", object: caller.write)
        }
        writer.member("merchant", merchant?.text)
        writer.member("publicKeyHash", publicKeyHash?.base64)
        writer.member("transactionId", transactionId?.hex)
        writer.member("protection", protection?.rawValue)
        writer.member("token", hsmToken?.text)
        event.write(into: &writer)
        writer.member("hsm", hsmWasNotReached ? Self.notReached : nil)
        // These come last, since readers of older versions do not know them and show them as members specific to the
        // event.
        writer.member("traceId", trace?.traceId)
        writer.member("parentId", trace?.parentId)
    }
}

extension AuditCaller {
    fileprivate func write(into writer: inout JSONWriter) {
        writer.member("name", name?.text)
        writer.member("uid", Int(uid))
        writer.member("gid", gid.map(Int.init))
        writer.member("loginUid", loginUID.map(Int.init))
        writer.member("pid", pid.map(Int.init))
        writer.member("comm", comm?.text)
    }
}
