import AuditChain

/// The section with the settings that were last in force on each node, as recorded (`configuration_values`).
struct SettingsSection {
    let builder: ReportBuilder

    func write(to page: inout PageWriter) {
        let nodes = builder.system.values.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }
        guard !nodes.isEmpty else { return }
        page.heading("Settings in force last", id: "settings")
        for (node, values) in nodes {
            page.subheading(node.name)
            page.pairs(values.sorted { $0.key < $1.key }.map { ($0.key, .text($0.value)) })
        }
    }
}
