import ArgumentParser
import AuditChain
import DaemonAPI

/// `--node`: whose record.
struct NodeOption: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Whose record, where several hosts share a ledger: a node's name, or all. Default: the asked daemon's.",
            valueName: "name|all"), completion: .node)
    var node: NodeName?

    var query: [(name: String, value: String)] { node.map { [("node", $0.text)] } ?? [] }
}

/// A node's name, or all of them.
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

    var text: String {
        switch self {
        case .one(let node): node.name
        case .all: "all"
        }
    }
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

/// Where other nodes' records end, as the daemon says.
enum OtherNodesEnds {
    /// - Returns: the nodes that the option names.
    static func ask(
        _ node: NodeName, _ connection: DaemonConnection
    ) async throws(CommandFailure) -> [AuditPublicKeyAnswer.Node] {
        let target = "/v1/audit/public-key" + QueryText.of([("node", node.text)])
        return try await connection.send(.get(target), for: AuditPublicKeyAnswer.self).answer.nodes ?? []
    }

    /// A sentence for each, on standard error.
    static func tell(_ nodes: [AuditPublicKeyAnswer.Node]) {
        for node in nodes where !node.isOwn {
            guard let sealed = node.sealedSequence else {
                Console.error("Node \(node.node) has sealed nothing yet, so there is nothing of it in the export.")
                continue
            }
            let rest = node.lastSequence - sealed
            Console.error(
                "Node \(node.node)'s record ends here with its last checkpoint, of record \(sealed): only that node can seal "
                    + (rest > 0
                        ? "the \(rest == 1 ? "1 record" : "\(rest) records") behind it." : "what comes behind it."))
        }
    }
}
