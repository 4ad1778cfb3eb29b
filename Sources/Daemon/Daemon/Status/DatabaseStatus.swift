import DaemonAPI
import Ledger
import Telemetry

// The ledger's server, this daemon's node lease and all nodes, as `status` shows them.

extension LedgerServerStatus {
    init(_ server: LedgerServer) {
        self.init(
            host: server.host, database: server.database, role: server.role, version: server.serverVersion,
            systemIdentifier: server.systemIdentifier, timeline: server.timeline, standbys: server.standbys)
    }
}

extension NodeLeaseAnswer {
    init(_ lease: NodeLeaseStatus) {
        self.init(
            fencingNumber: Int(lease.fencingNumber), ageSeconds: lease.age.inSeconds.rounded(), isLost: lease.isLost)
    }
}

extension LedgerNodeStatus {
    init(_ node: LedgerServer.Node) {
        self.init(name: node.name, version: node.version, lastSeen: node.lastSeen, isLeased: node.isLeased)
    }
}
