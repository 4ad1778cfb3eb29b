import DaemonAPI
import Ledger
import Telemetry

// The status of the database server, of this daemon's node lease and of all nodes, in the form of `GET /v1/status`.

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
