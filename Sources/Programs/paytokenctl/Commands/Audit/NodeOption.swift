import ArgumentParser
import AuditChain
import CommandOutput
import DaemonAPI

/// `--node`: the node whose record is requested.
struct NodeOption: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The node whose record is read, if several hosts share a ledger: its name, or all. Default: the asked daemon's.",
            valueName: "name|all"), completion: .node)
    var node: NodeName?

    var query: [(name: String, value: String)] { node.map { [("node", $0.text)] } ?? [] }
}

/// A node's name, or `all`.
enum NodeName: ExpressibleByArgument, Equatable, Sendable {
    case one(AuditNode)
    case all

    init?(argument: String) {
        guard argument != "all" else {
            self = .all
            return
        }
        guard let node = AuditNode(argument) else { return nil }
        self = .one(node)
    }

    /// The one node that is named; nil for all nodes.
    var one: AuditNode? { if case .one(let node) = self { node } else { nil } }
    var text: String { one?.name ?? "all" }
}

/// A file of public keys, for one node or for all: `FILE` or `NODE=FILE`.
struct GivenKeyFile: ExpressibleByArgument, Sendable {
    let node: AuditNode?
    let file: String

    init?(argument: String) {
        guard let end = argument.firstIndex(of: "="), let node = AuditNode(String(argument[..<end])) else {
            (node, file) = (nil, argument)
            return
        }
        self.node = node
        file = String(argument[argument.index(after: end)...])
        guard !file.isEmpty else { return nil }
    }
}

/// An export that was made earlier, and the keys and heads for its verification.
struct ExportOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "An export in JSON lines, - for standard input if it is read only once; default the daemon's.",
            valueName: "file"), completion: .file())
    var export: String?

    @Option(
        help: ArgumentHelp(
            "The checkpoints' public keys in PEM, of one node or of any; may be repeated. Default the daemon's, for its own record.",
            valueName: "[node=]file"), completion: .file())
    var publicKey: [GivenKeyFile] = []

    @Option(
        help: ArgumentHelp(
            "The node in whose record, in an export, other nodes' keys are pinned; it needs a given key.",
            valueName: "node"), completion: .node)
    var pinnedBy: NodeName?

    @Option(
        help: ArgumentHelp("A kept checkpoint: a file of checkpoints, or the line itself.", valueName: "checkpoint"))
    var head: String?

    func validate() throws {
        if pinnedBy == .all { throw ValidationError("--pinned-by is one node's name.") }
        if export != nil, publicKey.isEmpty {
            throw ValidationError(
                "--export is verified with --public-key FILE: an export does not say whom to trust. "
                    + "`paytokenctl audit public-key` prints the daemon's.")
        }
    }
}

/// The ends of other nodes' records, according to the daemon.
enum OtherNodesEnds {
    /// - Returns: the nodes that the option selects.
    static func ask(
        _ node: NodeName, _ connection: DaemonConnection
    ) async throws -> [AuditPublicKeyAnswer.Node] {
        let target = "/v1/audit/public-key" + QueryText.of([("node", node.text)])
        return try await connection.send(.get(target), for: AuditPublicKeyAnswer.self).answer.nodes ?? []
    }

    /// Writes a sentence for each node to standard error.
    static func tell(_ nodes: [AuditPublicKeyAnswer.Node]) {
        for node in nodes where !node.isOwn {
            guard let sealed = node.sealedSequence else {
                Console.error("Node \(node.node) has sealed nothing yet, so the export has none of its records.")
                continue
            }
            let rest = node.lastSequence - sealed
            Console.error(
                "Node \(node.node)'s record ends here with its last checkpoint, of record \(sealed): only that node can seal "
                    + (rest > 0
                        ? "the \(rest == 1 ? "1 record" : "\(rest) records") after it." : "later records."))
        }
    }
}
