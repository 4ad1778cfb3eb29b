public import StrictJSON

/// A record's line after parsing, for display, filters and CSV.
///
/// The parser accepts only compact JSON without unneeded escapes, with the members in their order and of their types.
/// It accepts unknown events, outcomes and members, so that records of newer versions can be read.
public struct AuditEntry: Sendable, Equatable {
    public let node: AuditNode
    public let sequence: Int
    public let time: AuditTime
    public let event: String
    public let outcome: String
    public let caller: AuditCaller?
    public let merchant: String?
    public let publicKeyHash: AuditDigest?
    public let transactionId: AuditDigest?
    public let protection: String?
    public let hsmToken: String?
    /// The members that only records of this event have, in their order.
    public let details: JSONObject
    public let hash: AuditDigest

    /// Parses a record's line, without its line feed. The hash is parsed but not checked; ``ChainVerifier`` checks
    /// hashes.
    public init(line: [UInt8]) throws(AuditEntryError) {
        guard line.count <= AuditLine.maximumBytes else { throw .tooLong }
        let value: JSONValue
        do {
            value = try JSONValue(parsing: line, limits: JSONLimits(maximumDepth: 4))
        } catch {
            throw .notJSON(error)
        }
        guard case .object(let object) = value else { throw .notARecord }
        guard value.compact == line else { throw .notCanonical }

        var members = EntryMembers(object)
        node = try members.require("node") { AuditNode($0.stringValue ?? "") }
        sequence = try members.require("sequence") { Self.sequence($0) }
        time = try members.require("time") { AuditTime(stored: $0.stringValue ?? "") }
        event = try members.require("event") { Self.lowerCaseWord($0) }
        outcome = try members.require("outcome") { Self.lowerCaseWord($0) }
        let callerObject = try members.allow("caller") { $0.objectValue }
        caller = if let callerObject { try AuditCaller(callerObject) } else { nil }
        merchant = try members.allow("merchant") { $0.stringValue }
        publicKeyHash = try members.allow("publicKeyHash") { AuditDigest(base64: $0.stringValue ?? "") }
        transactionId = try members.allow("transactionId") { AuditDigest(hex: $0.stringValue ?? "") }
        protection = try members.allow("protection") { $0.stringValue }
        hsmToken = try members.allow("token") { $0.stringValue }
        hash = try members.requireLast("hash") { AuditDigest(hex: $0.stringValue ?? "") }
        details = try members.rest(without: Self.names)
    }

    /// True if an HSM token may have used the key although the record names no HSM token. This is the case if
    /// ``AuditOutcome/leavesUseOpen`` is true for the outcome, and the record does not state that no HSM token was
    /// reached. Records of older versions never state that.
    public var leavesUseOpen: Bool {
        AuditOutcome(outcome)?.leavesUseOpen == true && details["hsm"]?.stringValue != AuditRecord.notReached
    }

    /// The members that every record may have; no event-specific member has one of these names.
    private static let names: Set<String> = [
        "node", "sequence", "time", "event", "outcome", "caller", "merchant", "publicKeyHash", "transactionId",
        "protection", "token", "hash",
    ]

    private static func sequence(_ value: JSONValue) -> Int? {
        guard let sequence = value.numberValue?.int, sequence > 0 else { return nil }
        return sequence
    }

    /// Returns the value's text if it is 1 to 64 lower-case letters, digits and underscores; otherwise nil.
    private static func lowerCaseWord(_ value: JSONValue) -> String? {
        guard let word = value.stringValue, (1...64).contains(word.utf8.count) else { return nil }
        let allowed = word.utf8.allSatisfy { character in
            switch character {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"): true
            default: false
            }
        }
        return allowed ? word : nil
    }
}

/// The reason why a line is not a record. The message contains no part of the line.
public enum AuditEntryError: Error, Sendable, Equatable, CustomStringConvertible {
    case tooLong
    case notJSON(JSONError)
    case notARecord
    /// The line is valid JSON, but not in the compact form of records: it has white space or unneeded escapes.
    case notCanonical
    /// This member is missing, out of order, or has the wrong type or form.
    case member(String)

    public var description: String {
        switch self {
        case .tooLong: "longer than \(AuditLine.maximumBytes) bytes"
        case .notJSON(let error): error.description
        case .notARecord: "not a JSON object"
        case .notCanonical: "white space or escapes that records are not written with"
        case .member(let name): "the member \(name) is missing, out of its place or of the wrong form"
        }
    }
}

extension AuditCaller {
    fileprivate init(_ object: JSONObject) throws(AuditEntryError) {
        var members = EntryMembers(object)
        name = try members.allow("name") { $0.stringValue.map(AuditText.init(stored:)) }
        uid = try members.require("uid") { $0.numberValue?.int.flatMap(UInt32.init(exactly:)) }
        gid = try members.allow("gid") { $0.numberValue?.int.flatMap(UInt32.init(exactly:)) }
        loginUID = try members.allow("loginUid") { $0.numberValue?.int.flatMap(UInt32.init(exactly:)) }
        pid = try members.allow("pid") { $0.numberValue?.int.flatMap(Int32.init(exactly:)) }
        comm = try members.allow("comm") { $0.stringValue.map(AuditText.init(stored:)) }
        guard members.isEmpty else { throw .member("caller") }
    }
}

/// Reads an object's members one after the other, in their order.
private struct EntryMembers {
    private var members: ArraySlice<(name: String, value: JSONValue)>

    init(_ object: JSONObject) {
        members = object.members[...]
    }

    var isEmpty: Bool { members.isEmpty }

    private mutating func takeIfNext(_ name: String) -> JSONValue? {
        guard let next = members.first, next.name.utf8.elementsEqual(name.utf8) else { return nil }
        members.removeFirst()
        return next.value
    }

    /// Returns the next member; throws unless it has this name and `read` accepts it.
    mutating func require<Value>(
        _ name: String, _ read: (JSONValue) -> Value?
    ) throws(AuditEntryError) -> Value {
        guard let next = takeIfNext(name), let value = read(next) else { throw .member(name) }
        return value
    }

    /// Returns the next member's value if the member has this name, and nil otherwise. Throws if `read` refuses the
    /// value.
    mutating func allow<Value>(
        _ name: String, _ read: (JSONValue) -> Value?
    ) throws(AuditEntryError) -> Value? {
        guard let next = takeIfNext(name) else { return nil }
        guard let value = read(next) else { throw .member(name) }
        return value
    }

    mutating func requireLast<Value>(
        _ name: String, _ read: (JSONValue) -> Value?
    ) throws(AuditEntryError) -> Value {
        guard let last = members.popLast(), last.name.utf8.elementsEqual(name.utf8), let value = read(last.value) else {
            throw .member(name)
        }
        return value
    }

    /// Returns the members that have not been read; throws if any of them has one of these names.
    func rest(without names: Set<String>) throws(AuditEntryError) -> JSONObject {
        for member in members where names.contains(member.name) { throw .member(member.name) }
        return JSONObject(Array(members)) ?? JSONObject()
    }
}
