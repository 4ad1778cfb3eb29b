internal import Encodings
public import Refusals
internal import StrictJSON

/// The record of one event: its time and outcome, the caller, and the key that was affected.
///
/// It has no member for a request's content, an account number, a cryptogram, a PIN or a key. Every member is a value
/// of a closed enum, a digest, a number, a time, or text that ``AuditText`` or ``AuditReason`` has sanitised.
public struct AuditRecord: Sendable, Equatable {
    /// The time of the event, by the daemon's clock.
    public var time: AuditTime
    public var event: AuditEvent
    public var outcome: AuditOutcome
    /// The caller; nil if the daemon itself acted.
    public var caller: AuditCaller?
    /// Apple's merchant identifier; nil if the event concerns no merchant, or ended before the merchant was known.
    public var merchant: AuditText?
    /// SHA-256 of the merchant key's SubjectPublicKeyInfo; written in base64, as in responses.
    public var publicKeyHash: AuditDigest?
    /// The transaction's identifier: 32 bytes, written in hexadecimal.
    public var transactionId: AuditDigest?
    public var protection: AuditProtection?
    /// The configured names of the HSM tokens that the event concerns, separated by commas; nil if there are none.
    public var hsmToken: AuditText?
    /// True if no HSM token can have used the key, although ``AuditOutcome/leavesUseOpen`` is true for the outcome.
    public var hsmWasNotReached: Bool
    /// The trace that identifies the request in the caller's own logs. It proves nothing, since the caller chooses it.
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

    /// The value of the member `outcome`: `ok`, `repeat` or the refusal's code.
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

    /// Parses an `outcome` member. Returns nil for a text that is not the ``text`` of an outcome.
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
    /// The trace's identifier: 32 lower-case hexadecimal digits.
    public let traceId: String
    /// The caller's span: 16 lower-case hexadecimal digits.
    public let parentId: String

    /// Returns nil unless `traceId` has 32 and `parentId` 16 lower-case hexadecimal digits.
    public init?(traceId: String, parentId: String) {
        guard traceId.utf8.count == 32, parentId.utf8.count == 16, Hexadecimal.isLowerCase(traceId.utf8),
            Hexadecimal.isLowerCase(parentId.utf8)
        else { return nil }
        self.traceId = traceId
        self.parentId = parentId
    }
}

/// The caller of a request. The kernel recorded `uid` and `gid` when the client connected. `loginUID`, `pid` and `comm`
/// are for information only. The daemon reads them later, and a process can change them or exit in between.
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
        // Write these members last: older versions accept unknown members only at the end, as members of the event.
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

// The key-usage record: its records, their lines, the hash chain and its seals, and their verification. It uses no
// database, no clock and no HSM.
//
// Callers: `Ledger` makes and stores lines, the daemon lets the HSM token sign checkpoints, and `paytokenctl audit`
// reads and verifies exports. Guarantees: each record has exactly one valid line. Each hash covers every byte of its
// line and of all earlier lines. `ChainVerifier` and scripts/verify-audit give the same verdicts, word for word, as
// tests check.
//
// Where to start: `AuditRecord` and `AuditEvent` (contents), this file (lines and their chain), Checkpoint.swift
// (seals), ChainVerifier.swift.

/// One record as it is stored and exported, byte for byte, without the line feed.
///
/// The line is a JSON object in compact form: `node`, `sequence`, `time`, `event`, `outcome`; then those that apply
/// among `caller` (`name`, `uid`, `gid`, `loginUid`, `pid`, `comm`), `merchant`, `publicKeyHash`, `transactionId`,
/// `protection` and `token`; the members specific to the event; and finally `hash`. Hash = SHA-256(previous ‖ body).
/// `previous` is the hash of the same node's previous record as 32 raw bytes, which are zeros for sequence 1. `body` is
/// the line's bytes before `,"hash":`.
///
/// Only ``ChainHead/append(_:)`` makes lines.
public struct AuditLine: Sendable, Equatable {
    /// The maximum length of a record's line in bytes. Lines that this program makes are much shorter.
    public static let maximumBytes = 16_384

    public let node: AuditNode
    /// The record's sequence number, from 1, without gaps.
    public let sequence: Int
    public let hash: AuditDigest
    /// The line in UTF-8, without the line feed; at most ``maximumBytes``.
    public let bytes: [UInt8]

    init(_ record: AuditRecord, node: AuditNode, sequence: Int, previous: AuditDigest) {
        var writer = JSONWriter(capacity: 768)
        writer.beginObject()
        writer.member("node", node.name)
        writer.member("sequence", sequence)
        record.write(into: &writer)
        var bytes = writer.bytes
        let hash = AuditDigest.following(previous, body: bytes[...])
        bytes.append(contentsOf: ",\"hash\":\"".utf8)
        bytes.append(contentsOf: hash.hex.utf8)
        bytes.append(contentsOf: "\"}".utf8)
        self.node = node
        self.sequence = sequence
        self.hash = hash
        self.bytes = bytes
    }
}

/// The end of a node's chain: the next record is chained to it, and a checkpoint seals it.
///
/// This is a value type: append to a copy, make the lines durable, then keep the copy. If the write fails, the old
/// value is still the end of the stored chain.
public struct ChainHead: Sendable, Equatable {
    public let node: AuditNode
    /// The last record's sequence; 0 before the first record.
    public private(set) var sequence: Int
    /// The last record's hash; zeros before the first record.
    public private(set) var hash: AuditDigest

    /// Creates the head of a new chain, which has no record yet.
    public init(node: AuditNode) {
        self.node = node
        sequence = 0
        hash = .zero
    }

    /// Creates a chain's head from its last stored record. Returns nil for a negative sequence, and for the sequence
    /// 0 with a hash other than zeros.
    public init?(node: AuditNode, sequence: Int, hash: AuditDigest) {
        guard sequence > 0 || (sequence == 0 && hash == .zero) else { return nil }
        self.node = node
        self.sequence = sequence
        self.hash = hash
    }

    /// Makes the record's line, and moves the chain's end to it.
    public mutating func append(_ record: AuditRecord) -> AuditLine {
        let line = AuditLine(record, node: node, sequence: sequence + 1, previous: hash)
        sequence = line.sequence
        hash = line.hash
        return line
    }
}
