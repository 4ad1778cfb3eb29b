import ArgumentParser

/// `--dry-run`, of every command that changes something.
struct DryRunOption: ParsableArguments {
    @Flag(name: .customLong("dry-run"), help: "Checks everything and changes nothing.")
    var isDryRun = false

    /// A path of the daemon's, asked to change nothing where that is wanted.
    func target(_ path: String) -> String { path + (isDryRun ? "?dry_run=true" : "") }

    /// Says that it was one: `can`, a clause of what could be done.
    func report(_ can: String) {
        if isDryRun { Console.error("Dry run: \(can). Nothing was changed.") }
    }
}

enum OutputFormat: String, ExpressibleByArgument, CaseIterable {
    case table
    case json
}

struct OutputOptions: ParsableArguments {
    @Option(help: ArgumentHelp("How results are shown: table, or json for programs.", valueName: "table|json"))
    var output: OutputFormat = .table
}
