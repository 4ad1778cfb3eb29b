import ArgumentParser

enum OutputFormat: String, ExpressibleByArgument, CaseIterable {
    case table
    case json
}

struct OutputOptions: ParsableArguments {
    @Option(help: ArgumentHelp("How results are shown: table, or json for programs.", valueName: "table|json"))
    var output: OutputFormat = .table
}
