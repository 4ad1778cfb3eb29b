import AuditChain
import StrictJSON

/// The part *People*: their permissions, and their operations with reasons and approvers.
struct PeopleFacts {
    let builder: ReportBuilder

    /// The permissions of the rules that were last in force. Equal rules of several nodes are listed once, since the
    /// nodes of one ledger usually have the same.
    var rules: [JSONValue] {
        let nodes = builder.system.values.filter { !$0.value.isEmpty }.map { ($0.key, AccessRules($0.value)) }
        return Dictionary(grouping: nodes, by: \.1).map { access, nodes in (access, nodes.map(\.0).sorted()) }
            .sorted { $0.1[0] < $1.1[0] }.map { access, nodes in
                let people = access.people ?? 1
                return .facts([
                    "nodes": nodes, "people": people < 2 ? nil : people,
                    "rules": access.rules.map { rule in
                        .facts([
                            "place": rule.place, "name": rule.name, "peers": rule.peers, "merchants": rule.merchants,
                            "roles": rule.roles.joined(separator: ", "), "alone": rule.alone(people: people),
                        ])
                    } as [JSONValue],
                ])
            }
    }

    /// Each person's operations: all, those with a second person, and those done alone. The record decides this, not the
    /// rules in force.
    func people(_ figures: Figures) -> [JSONValue] {
        builder.acts.people.sorted { $0.key < $1.key }.map { who, person in
            .facts([
                "who": who, "acts": figures.figure(person.acts, "administrative acts of \(who), ok"),
                "asked": figures.figure(person.asked, "approval_request by \(who)"),
                "decided": figures.figure(person.decided, "approval_decision by \(who)"),
                "alone": figures.figure(person.alone, "acts of \(who) for two people, without an approval"),
            ])
        }
    }

    /// The decisions in the period, those of the daemon included, by what was decided and whether it was refused.
    var decisions: [JSONValue] {
        let decisions = builder.acts.acts.filter { $0.event == AuditEvent.Name.approvalDecision.rawValue }
        return [false, true].flatMap { isRefused -> [JSONValue] in
            let found = decisions.filter { ($0.outcome != AuditOutcome.ok.text) == isRefused }
            return Dictionary(grouping: found) { $0.what ?? "-" }.sorted { $0.key < $1.key }.map {
                .facts(["decision": $0.key, "refused": isRefused ? true : nil, "count": $0.value.count])
            }
        }
    }

    /// The number of approvals requested in the period, by their last decision, or `open`.
    var endsOfApprovals: [JSONValue] {
        let ends = builder.acts.approvals.values.filter { $0.request.map { builder.period.contains($0.time) } ?? false }
        return Dictionary(grouping: ends, by: \.end).sorted { $0.key < $1.key }.map {
            .facts(["end": $0.key, "count": $0.value.count])
        }
    }

    var approvals: [JSONValue] {
        builder.acts.approvals.values.compactMap { approval in
            approval.request.flatMap { builder.period.contains($0.time) ? (approval, $0) : nil }
        }.sorted { ($0.1.time, $0.0.identifier) < ($1.1.time, $1.0.identifier) }.map { approval, request in
            .facts([
                "time": request.time, "by": Self.who(request), "what": request.what, "key": request.key,
                "reason": request.reason, "end": approval.end, "decidedAt": approval.decisions.last?.time,
                "decidedBy": approval.decisions.last.map(Self.who),
                "records": [request.place] + approval.decisions.map(\.place),
            ])
        }
    }

    var acts: [JSONValue] {
        builder.acts.acts.sorted { ($0.time, $0.place) < ($1.time, $1.place) }.map { act in
            .facts([
                "time": act.time, "by": Self.who(act), "event": act.event, "what": act.what.map(Self.short),
                "sha256": act.digest, "bytes": act.bytes, "outcome": act.outcome, "key": act.key,
                "merchant": act.merchant, "reason": act.reason,
                "approval": builder.acts.sentence(ofApproval: act.approval, at: act.time), "record": act.place,
            ])
        }
    }

    func readings(_ figures: Figures) -> [JSONValue] {
        builder.acts.readings.sorted { $0.key < $1.key }.map { reading, records in
            .facts([
                "by": reading.by, "event": reading.event,
                "times": figures.figure(records, "\(reading.event) by \(reading.by)"),
            ])
        }
    }

    var exports: [JSONValue] {
        builder.acts.exports.sorted { ($0.time, RecordPlace($0)) < ($1.time, RecordPlace($1)) }.map { entry in
            .facts([
                "time": entry.time, "by": entry.callerText, "node": entry.details["ofNode"] ?? entry.node.fact,
                "format": entry.details["format"], "first": entry.details["first"], "last": entry.details["last"],
                "record": RecordPlace(entry),
            ])
        }
    }

    /// Returns the short name of an audit key, by which the page names all keys; any other text is unchanged.
    private static func short(_ what: String) -> String {
        AuditDigest(hex: what).map { $0.base64.prefix(8) + "…" } ?? what
    }

    private static func who(_ act: AdministrativeActs.Act) -> String {
        guard let by = act.by else { return "the daemon" }
        guard let login = act.loginUID, login != act.uid else { return by }
        return "\(by), logged in as uid \(login)"
    }
}
