import AuditChain
import DaemonAPI
import Encodings

/// The section about the hosts: the state of the daemon that made the report, and each host's history in the period.
struct SystemSection {
    let builder: ReportBuilder
    let live: LiveState?
    let given: Set<Requirement.Evidence>

    func write(to page: inout PageWriter) {
        page.heading("4. What the system is", id: "system")
        if let live {
            write(live, to: &page)
        } else {
            page.note("No daemon was asked: this report is made from an export alone, and says nothing of the present.")
        }
        page.subheading("Hosts and versions, by the record")
        page.table(
            ["Node", "Version", "First start", "Record"],
            builder.system.sortedNodes.flatMap { node in
                node.versions.map {
                    [.name(node.node.name), .text($0.text), .time($0.time), .places([$0.place])]
                }
            })
        page.table(
            ["Node", "Starts", "Stops"],
            builder.system.sortedNodes.map { node in
                [
                    .name(node.node.name), .figure(node.starts, "event start of \(node.node.name)"),
                    .figure(node.stops, "event stop of \(node.node.name)"),
                ]
            })
        writePrograms(to: &page)
        writeConfiguration(to: &page)
        page.requirements(Requirement.ofSystem, given: given)
    }

    private func write(_ live: LiveState, to page: inout PageWriter) {
        let status = live.status
        page.subheading("Now, as node \(status.node) says")
        page.pairs([
            ("Asked at", .text(live.askedAt.shown)), ("Version", .text(status.version)),
            ("Ready", .text(status.ready ? "yes" : "no")),
            (
                "Ledger",
                .text(
                    [status.ledger.engine, status.ledger.condition, status.ledger.schemaVersion.map { "schema \($0)" }]
                        .compactMap { $0 }.joined(separator: ", "))
            ),
            (
                "Roots trusted",
                .text(status.trust.roots.map { "\($0.subject) (SHA-256 \($0.sha256))" }.joined(separator: "; "))
            ),
            ("Signing-time window", .text(status.trust.signingTimeWindow)),
        ])
        page.subheading("HSM tokens")
        page.table(
            [
                "Token", "Condition", "Model", "Manufacturer", "Serial", "Hardware", "Firmware", "Library", "Tier EC",
                "Tier RSA",
                "Shortcomings",
            ],
            status.tokens.map { token in
                [
                    .text(token.name), .text(token.condition), .text(token.model ?? "–"),
                    .text(token.manufacturer ?? "–"), .text(token.serialNumber ?? "–"),
                    .text(token.hardwareVersion ?? "–"), .text(token.firmwareVersion ?? "–"),
                    .text(token.library ?? "–"),
                    .text(token.tierECv1 ?? "–"), .text(token.tierRSAv1 ?? "–"),
                    .text(token.shortcomings.isEmpty ? "none" : token.shortcomings.joined(separator: " ")),
                ]
            })
        page.note(
            "A tier is what a known answer showed when the token was opened: A: the symmetric key stays in the token; B: it "
                + "leaves it for one payment; C: the shared secret leaves it, and the private key never.")
        if !status.warnings.isEmpty {
            page.subheading("Warnings of the daemon")
            page.list(status.warnings)
        }
    }

    private func writePrograms(to page: inout PageWriter) {
        page.subheading("Programs and PKCS#11 libraries, by the record")
        if !builder.unlistedPrograms.isEmpty {
            page.raw(
                "<div class=\"verdict bad\"><strong>A program is not the one that its package lists.</strong> See the last column."
                    + "</div>\n")
        }
        page.table(
            ["From", "Record", "File", "SHA-256", "Compared with the package's list"],
            builder.system.sortedNodes.flatMap(\.programs).flatMap { programs -> [[PageWriter.Cell]] in
                let files =
                    [
                        ("paytokend", programs.daemon), ("paytokend-hsm", programs.worker),
                        ("sbom.cdx.json", programs.sbom),
                    ]
                    .map { ($0.0, $0.1, builder.comparison(of: programs)) }
                    + programs.modules.sorted { $0.key < $1.key }.map {
                        ("library of HSM token \($0.key)", $0.value, .text("not of this package"))
                    }
                return files.enumerated().map { number, file in
                    [
                        number == 0 ? .time(programs.time) : .text(""),
                        number == 0 ? .places([programs.place]) : .text(""), .text(file.0),
                        file.1.map { .code($0) } ?? .none, file.2,
                    ]
                }
            })
        page.note(
            "A row is shown when a file differs from the one before. Each daemon read its own program and the worker's when it "
                + "started, and the PKCS#11 libraries again whenever a worker opened an HSM token. A program that lies about itself is not "
                + "found here: compare the files on the hosts with other means.")
    }

    private func writeConfiguration(to page: inout PageWriter) {
        page.subheading("Configuration in force")
        page.table(
            ["Node", "From", "SHA-256 of the file", "Record"],
            builder.system.sortedNodes.flatMap { node in
                node.configurations.map { load in
                    [.name(node.node.name), .time(load.time), .code(load.text), .places([load.place])]
                }
            })
        let omitted = builder.system.sortedNodes.reduce(0) { $0 + $1.omitted }
        if omitted > 0 {
            page.note("\(omitted.grouped) more changes of version, program or configuration file are in the export.")
        }
        let values = builder.system.values.filter { !$0.value.isEmpty }
        guard !values.isEmpty else {
            return page.note("The versions that wrote this record did not record access rules and settings one by one.")
        }
        page.subheading("Settings that changed in the period")
        page.table(
            ["First", "Nodes", "Setting", "Before", "After", "Records"],
            builder.system.changesOfNodes.map { changes in
                let first = changes[0]
                return [
                    .time(first.time), .text(changes.map(\.node.name).joined(separator: ", ")), .code(first.name),
                    .text(first.before ?? "not set"), .text(first.after ?? "taken away"), .places(changes.map(\.place)),
                ]
            })
        page.note(
            "The same change of several nodes on one day is one row. The record has the moment when a daemon read the file, and "
                + "not the person who edited it.")
        if builder.system.omittedChanges > 0 {
            page.note("\(builder.system.omittedChanges.grouped) more changes are in the export.")
        }
        page.note("All settings that were in force last stand at the end of the page.")
    }
}
