import ArgumentParser
import CommandOutput
import DaemonAPI

struct ReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Applies a changed configuration file, and records who asked for it.",
        discussion: """
            Does what SIGHUP (systemctl reload paytokend) does: the daemon reads access, trust, google_pay, verification, \
            log.level and the PIN files again, and applies all of them or none. The record then names the person, which it cannot \
            do for a signal. If the file has a problem, the command shows it, and the old configuration stays in force.

              paytokenctl reload --dry-run
              paytokenctl reload
            """)

    @OptionGroup var change: ChangeOptions

    func run() async throws { try await Self.reload(change) }

    /// Requests the reload, and shows what it changed.
    static func reload(_ change: ChangeOptions) async throws {
        let answer = try await change.post(
            "/v1/reload", EmptyRequest(), for: ReloadAnswer.self, dryRunSays: "the configuration has no problem"
        ) { answer in
            guard !answer.changes.isEmpty else { return "No recorded setting differs.\n" }
            var table = Table(columns: ["SETTING", "BEFORE", "AFTER"])
            for change in answer.changes { table.add([change.name, change.before ?? "-", change.after ?? "-"]) }
            return table.text
        }
        if answer.omitted > 0 { Console.error("\(answer.omitted) more settings differ; the record has them.") }
        if !answer.pending.isEmpty {
            Console.error("These changes take effect only after a restart: \(answer.pending.joined(separator: ", ")).")
        }
        if change.format.output == .table {
            for warning in answer.warnings { Console.error("warning: \(warning)") }
        }
    }
}
