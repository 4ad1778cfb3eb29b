import PKCS11
import WorkerProtocol

/// The data object that keeps a node's newest checkpoint. Private: it is seen after login only.
///
/// SoftHSM changes no CKA_VALUE, so that the new object is created before the old ones are destroyed: whenever it is
/// interrupted, one is there.
struct RememberedHead: Sendable {
    static let application = "paytokend"
    static let labelPrefix = "paytokend audit head "

    let node: String

    private var search: [Attribute] {
        [
            .objectClass(.data), .token(true), .application(Self.application), .label(Self.labelPrefix + node),
        ]
    }

    func template(_ line: [UInt8]) -> Template { Template(search + [.private(true), .value(line)]) }

    /// This node's objects.
    var objects: Template { Template(search) }

    /// Those of every node, and what else bears the application's name.
    static let candidates: Template = [.objectClass(.data), .token(true), .application(application)]
}

extension OpenToken {
    /// The lines of all nodes.
    func rememberedHeads(in session: inout Session) throws(WorkerFailure) -> [[UInt8]] {
        try forRecord("The remembered checkpoints cannot be read", &session) {
            (session) throws(CallError) -> Result<[[UInt8]], WorkerFailure> in
            var lines: [[UInt8]] = []
            for object in try session.findObjects(matching: RememberedHead.candidates) {
                guard let line = try session.rememberedLine(object) else { continue }
                guard lines.count < FieldBound.rememberedHeads else {
                    return .refused("The token has more than \(FieldBound.rememberedHeads) remembered checkpoints.")
                }
                lines.append(line)
            }
            return .success(lines)
        }
    }

    /// Keeps a line, and then no other of its node.
    func remember(_ head: HeadToRemember, in session: inout Session) throws(WorkerFailure) {
        guard !head.node.isEmpty, !head.line.isEmpty else {
            throw WorkerFailure(.auditRefused, "A remembered checkpoint has a node and a line.")
        }
        try exclusively { () throws(WorkerFailure) in
            try forRecord("The token does not take the checkpoint", &session) {
                (session) throws(CallError) -> Result<Void, WorkerFailure> in
                let remembered = RememberedHead(node: head.node)
                var former = try session.findObjects(matching: remembered.objects)
                var kept: ObjectHandle?
                for object in former where kept == nil {
                    if try session.rememberedLine(object) == head.line { kept = object }
                }
                if kept == nil { kept = try session.createObject(remembered.template(head.line)) }
                former.removeAll { $0 == kept }
                for object in former { try session.destroyObject(object) }
                return .success(())
            }
        }
    }
}

extension Session {
    /// A remembered checkpoint's line; nil for another application's object that only bears the name, and for what is
    /// too long to have been written here.
    fileprivate mutating func rememberedLine(_ object: ObjectHandle) throws(CallError) -> [UInt8]? {
        let values = try attributes([.label, .value], of: object)
        guard let label = values.text(.label), label.hasPrefix(RememberedHead.labelPrefix),
            let line = values.bytes(.value), (1...FieldBound.checkpoint).contains(line.count)
        else { return nil }
        return line
    }
}
