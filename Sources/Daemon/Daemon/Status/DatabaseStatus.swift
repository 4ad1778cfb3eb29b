import DaemonAPI
import Encodings
import Ledger
import Telemetry

extension PostgreSQLLedger {
    /// The ledger server, this daemon's node lease and all nodes, as `status` shows them. While the server does not
    /// respond, only the lease is present.
    var answer: (server: LedgerServerStatus?, lease: NodeLeaseAnswer, nodes: [LedgerNodeStatus]?, warnings: [String])
    {
        get async {
            let found = try? await status()
            let lease = lease
            return (
                server: found.map { status in
                    LedgerServerStatus(
                        host: status.host, database: status.database, role: status.role, version: status.serverVersion,
                        systemIdentifier: status.systemIdentifier, timeline: status.timeline, standbys: status.standbys)
                },
                lease: NodeLeaseAnswer(
                    fencingNumber: Int(lease.fencingNumber), ageSeconds: lease.age.inSeconds.rounded(),
                    isLost: lease.isLost),
                nodes: found?.nodes.map { node in
                    LedgerNodeStatus(
                        name: node.name, version: node.version, lastSeen: node.lastSeen, isLeased: node.isLeased)
                },
                warnings: found?.warnings ?? []
            )
        }
    }
}
