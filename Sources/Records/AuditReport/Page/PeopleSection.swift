import AuditChain
import Encodings

/// The section about people: their permissions, and their operations with reasons and approvers.
struct PeopleSection {
    let builder: ReportBuilder
    let given: Set<Requirement.Evidence>

    private static let maximumRows = 5_000

    func write(to page: inout PageWriter) {
        page.heading("7. People", id: "people")
        writeRules(to: &page)
        writeSeparation(to: &page)
        writeApprovals(to: &page)
        writeActs(to: &page)
        page.subheading("Who looked at the record")
        page.table(
            ["Who", "How", "Times"],
            builder.acts.readings.sorted { $0.key < $1.key }, most: Self.maximumRows, "readers"
        ) { reading, references in
            [
                .name(reading.by), .code(reading.event),
                .figure(references, "\(reading.event) by \(reading.by)"),
            ]
        }
        page.requirements(Requirement.ofPeople, given: given)
    }

    /// Writes the permissions of the rules that were last in force.
    private func writeRules(to page: inout PageWriter) {
        page.subheading("Who can do what alone, by the rules last in force")
        let nodes = builder.system.values.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }
        guard !nodes.isEmpty else {
            return page.note(
                "Access rules are not in these records: their versions did not write configuration_values. Operations without a second "
                    + "person are below.")
        }
        // Write equal rules once for all their hosts, since the hosts of one ledger usually have the same rules.
        let groups = Dictionary(grouping: nodes.map { ($0.key, AccessRules($0.value)) }, by: \.1).map { access, nodes in
            (access, nodes.map(\.0.name).sorted().joined(separator: ", "))
        }.sorted { $0.1 < $1.1 }
        for (access, names) in groups {
            let people = access.people ?? 1
            page.paragraph(
                "\(names): "
                    + (people < 2
                        ? "nothing needs a second person."
                        : "\(people) persons for importing, adopting, resuming, compromising and destroying keys, for another audit "
                            + "key, and for accepting a restored ledger or a clock; not for root and the daemon's own account.")
            )
            page.table(
                ["Rule", "Name", "Whom it matches", "Merchants", "Roles", "What they can do alone"],
                access.rules.map { rule in
                    [
                        .count(rule.place), .text(rule.name ?? "–"), .text(rule.peers), .text(rule.merchants),
                        .text(rule.roles.joined(separator: ", ")), .text(rule.alone(people: people)),
                    ]
                })
        }
        page.note(
            "The first rule that matches decides. Who is a member of a group the system says, and not the record.")
    }

    /// Writes a table of each person's operations: all, those with a second person, and those done alone. The record
    /// decides this, not the rules in force.
    private func writeSeparation(to page: inout PageWriter) {
        page.subheading("Who did what, alone or with a second person")
        page.table(
            ["Who", "Acts with ok", "Asked for a second person", "Decided requests", "Done alone, of what needs two"],
            builder.acts.people.sorted { $0.key < $1.key }.map { who, person in
                [
                    .name(who), .figure(person.acts, "administrative acts of \(who), ok"),
                    .figure(person.asked, "approval_request by \(who)"),
                    .figure(person.decided, "approval_decision by \(who)"),
                    .figure(person.alone, "acts of \(who) for two people, without an approval"),
                ]
            })
        page.note(
            "Root and the daemon's own account act alone: they reach the token and the ledger without asking. What they did so "
                + "is in the last column.")
    }

    private func writeApprovals(to page: inout PageWriter) {
        page.subheading("Requests for a second person")
        let approvals = builder.acts.approvals.values.compactMap { approval in
            approval.request.flatMap { builder.period.contains($0.time) ? (approval, $0) : nil }
        }.sorted { ($0.1.time, $0.0.identifier) < ($1.1.time, $1.0.identifier) }
        page.paragraph(
            builder.endsOfApprovals.sorted { $0.key < $1.key }
                .map { "\($0.value.grouped) \(AdministrativeActs.Approval.endText($0.key))" }.joined(
                    separator: ", "))
        page.table(
            ["Asked", "By", "For", "Key", "Reason", "End", "Decided", "Decided by", "Records"],
            approvals, most: Self.maximumRows, omitted: builder.acts.omittedApprovals, "requests"
        ) { approval, request in
            [
                .time(request.time), .name(Self.who(request)), .code(request.what ?? "–"),
                .key(request.key), .text(request.reason ?? "–"),
                .text(AdministrativeActs.Approval.endText(approval.end)),
                .time(approval.decisions.last?.time), .name(approval.decisions.last.map(Self.who) ?? "–"),
                .places([request.place] + approval.decisions.map(\.place)),
            ]
        }
    }

    private func writeActs(to page: inout PageWriter) {
        page.subheading("Every administrative act")
        let acts = builder.acts.acts.sorted { ($0.time, $0.place) < ($1.time, $1.place) }
        page.table(
            ["Time", "Who", "Act", "Outcome", "Key", "Merchant", "Reason", "Second person", "Record"],
            acts, most: Self.maximumRows, omitted: builder.acts.omitted, "acts"
        ) { act in
            [
                .time(act.time), .name(Self.who(act)),
                .text(act.event + (act.what.map { ": \(Self.short($0))" } ?? "")), .text(act.outcome),
                .key(act.key), .text(act.merchant ?? "–"), .text(act.reason ?? "–"),
                .text(builder.acts.sentence(ofApproval: act.approval, at: act.time) ?? "–"), .places([act.place]),
            ]
        }
    }

    /// Returns the first 12 digits of a digest, which are enough to identify it; any other text is unchanged.
    private static func short(_ what: String) -> String {
        AuditDigest(hex: what) == nil ? what : String(what.prefix(12)) + "…"
    }

    private static func who(_ act: AdministrativeActs.Act) -> String {
        guard let by = act.by else { return "the daemon" }
        guard let login = act.loginUID, login != act.uid else { return by }
        return "\(by), logged in as uid \(login)"
    }
}
