import AuditChain
import DaemonAPI
import StrictJSON

/// The part *What the system is*: the state of the daemon that made the report, and each host's history in the period.
struct SystemFacts {
    let builder: ReportBuilder

    func live(_ live: LiveState) -> JSONValue {
        let status = live.status
        let ledger = [
            status.ledger.engine, status.ledger.condition, status.ledger.schemaVersion.map { "schema \($0)" },
        ]
        return .facts([
            "askedAt": live.askedAt, "node": status.node, "version": status.version, "ready": status.ready,
            "ledger": ledger.compactMap(\.self).joined(separator: ", "),
            "roots": status.trust.roots.map {
                .facts(["subject": $0.subject, "sha256": $0.sha256])
            } as [JSONValue],
            "signingTimeWindow": status.trust.signingTimeWindow,
            "warnings": status.warnings,
        ])
    }

    var versions: [JSONValue] {
        builder.system.sortedNodes.flatMap(\.versions).map {
            .facts(["node": $0.place.node, "version": $0.text, "time": $0.time, "record": $0.place])
        }
    }

    var programs: [JSONValue] {
        builder.system.sortedNodes.flatMap(\.programs).map { programs in
            let list = builder.listed.first { $0.has(programs) }
            let comparison =
                !programs.isRecorded
                ? "not_recorded" : builder.listed.isEmpty ? "not_compared" : list == nil ? "differs" : "listed"
            return .facts([
                "node": programs.place.node, "time": programs.time,
                "record": programs.place, "paytokend": programs.daemon, "worker": programs.worker,
                "sbom": programs.sbom,
                "modules": programs.modules.sorted { $0.key < $1.key }.map {
                    .facts(["token": $0.key, "sha256": $0.value])
                } as [JSONValue],
                "compared": comparison, "listed": list?.version,
            ])
        }
    }

    /// The PINs and passwords, with the record since which their keyed digest is the present one. With another key, the
    /// digest before cannot be compared, so the secret may be older.
    var credentials: [JSONValue] {
        builder.system.sortedNodes.flatMap { node in
            node.values.keys.filter(SystemHistory.isSecret).sorted().map { name in
                let (set, key) = (node.settingsSince[name], node.settingsSince["credentials.key"])
                let days = set.map { max(0, builder.period.until.milliseconds - $0.time.milliseconds) / 86_400_000 }
                return .facts([
                    "node": node.node, "name": name, "since": set?.time, "isBeginning": set?.place == key?.place,
                    "days": days.map { Int($0) }, "record": set?.place,
                ])
            }
        }
    }

    var configurations: [JSONValue] {
        builder.system.sortedNodes.flatMap(\.configurations).map {
            .facts(["node": $0.place.node, "time": $0.time, "sha256": $0.text, "record": $0.place])
        }
    }

    var changes: [JSONValue] {
        builder.system.changesOfNodes.map { changes in
            .facts([
                "time": changes[0].time, "nodes": changes.map(\.node), "name": changes[0].name,
                "before": changes[0].before, "after": changes[0].after, "records": changes.map(\.place),
            ])
        }
    }

    /// The settings that were last in force.
    var settings: [JSONValue] {
        builder.system.values.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }.map { node, values in
            .facts([
                "node": node,
                "values": values.sorted { $0.key < $1.key }.map {
                    .facts(["name": $0.key, "value": $0.value])
                } as [JSONValue],
            ])
        }
    }
}
