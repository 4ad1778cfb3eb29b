import PKCS11
import WorkerProtocol

/// The data object that keeps a node's newest audit checkpoint. It is private, so it is visible after login only, unless
/// the HSM token accepts no private data objects.
///
/// SoftHSM cannot change a CKA_VALUE. So the new object is created before the old ones are destroyed, and an
/// interruption at any point leaves at least one object.
struct RememberedHead: Sendable {
    static let application = "paytokend"
    static let labelPrefix = "paytokend audit head "

    let node: String

    fileprivate var label: String { Self.labelPrefix + node }

    private var search: [Attribute] {
        [
            .objectClass(.data), .token(true), .application(Self.application), .label(label),
        ]
    }

    fileprivate func template(_ line: [UInt8], isPrivate: Bool) -> Template {
        Template(search + [.private(isPrivate), .value(line)])
    }

    /// The search template for this node's data objects.
    var objects: Template { Template(search) }

    /// The search template for the data objects of all nodes. It also matches any other object with this application's
    /// name.
    static let candidates: Template = [.objectClass(.data), .token(true), .application(application)]
}

extension OpenToken {
    /// The lines of the audit checkpoints that the HSM token stores, for all nodes.
    func rememberedHeads(in session: inout Session) throws(WorkerFailure) -> [[UInt8]] {
        try forAuditRecord("The remembered checkpoints cannot be read", &session) {
            (session) throws(CallError) -> Result<[[UInt8]], WorkerFailure> in
            var lines: [[UInt8]] = []
            for object in try session.findObjects(matching: RememberedHead.candidates) {
                guard let line = try session.rememberedLine(object) else { continue }
                guard lines.count < FieldBound.rememberedHeads else {
                    return .refused(
                        "The HSM token holds more than \(FieldBound.rememberedHeads) remembered checkpoints (data objects labelled "
                            + "\"\(RememberedHead.labelPrefix)NODE\"), the most that are read. Remove those of nodes that are gone, "
                            + "with the HSM's own tools.")
                }
                lines.append(line)
            }
            return .success(lines)
        }
    }

    /// Stores this line as the node's newest audit checkpoint, and destroys the node's older lines.
    func remember(_ head: HeadToRemember, in session: inout Session) throws(WorkerFailure) {
        guard !head.node.isEmpty, !head.line.isEmpty else {
            throw WorkerFailure(.auditRefused, "A remembered checkpoint has a node and a line.")
        }
        try exclusively { () throws(WorkerFailure) in
            let known = heads[head.node]
            // After a failed call the HSM token's content is unknown, so the next call for this node searches for the
            // object again.
            heads[head.node] = nil
            heads[head.node] = try forAuditRecord("The HSM token does not store the checkpoint", &session) {
                (session) throws(CallError) -> Result<ObjectHandle, WorkerFailure> in
                let remembered = RememberedHead(node: head.node)
                if let known {
                    do throws(CallError) {
                        if let kept = try session.replace(known, remembered, head.line) { return .success(kept) }
                    } catch {
                        // Another program may have removed the object, so the line is stored in a new one.
                        guard error.isStaleHandle else { throw error }
                    }
                }
                return .success(try session.storeDestroyingOthers(remembered, head.line))
            }
        }
    }
}

extension Session {
    private mutating func create(_ remembered: RememberedHead, _ line: [UInt8]) throws(CallError) -> ObjectHandle {
        try firstAccepted(of: [true, false]) { (isPrivate) throws(CallError) in
            try createObject(remembered.template(line, isPrivate: isPrivate))
        }
    }

    /// Replaces the line in an object that an earlier call stored for this node.
    /// - Returns: The object that now contains the line; nil if `known` no longer belongs to this node.
    fileprivate mutating func replace(
        _ known: ObjectHandle, _ remembered: RememberedHead, _ line: [UInt8]
    ) throws(CallError) -> ObjectHandle? {
        guard let former = try rememberedLine(known, of: remembered) else { return nil }
        if former == line { return known }
        let kept = try create(remembered, line)
        try destroyObject(known)
        return kept
    }

    /// Stores the node's line, and destroys all other objects of the node. It searches the HSM token for them, so it
    /// also finds objects that this process does not know. Another object with the same line remains, because it may be
    /// the same object under another handle.
    fileprivate mutating func storeDestroyingOthers(
        _ remembered: RememberedHead, _ line: [UInt8]
    ) throws(CallError) -> ObjectHandle {
        var found: ObjectHandle?
        var former: [ObjectHandle] = []
        for object in try findObjects(matching: remembered.objects) {
            if try rememberedLine(object) == line { found = found ?? object } else { former.append(object) }
        }
        let kept = if let found { found } else { try create(remembered, line) }
        for object in former { try destroyIfPresent(object) }
        return kept
    }

    /// The line of a remembered audit checkpoint. nil for another program's object with the same application name, and
    /// for a line longer than this program writes. If `remembered` is given, also nil for the line of another node.
    fileprivate mutating func rememberedLine(
        _ object: ObjectHandle, of remembered: RememberedHead? = nil
    ) throws(CallError) -> [UInt8]? {
        let values = try attributes([.label, .value], of: object)
        guard let label = values.text(.label), label.hasPrefix(RememberedHead.labelPrefix),
            remembered.map({ $0.label == label }) ?? true,
            let line = values.bytes(.value), (1...FieldBound.checkpoint).contains(line.count)
        else { return nil }
        return line
    }
}
