package import ArgumentParser
package import DaemonAPI

package enum OutputFormat: String, ExpressibleByArgument, CaseIterable {
    case table
    case json
}

package struct OutputOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The form of results: table, or json for programs.", valueName: "table|json"))
    package var output: OutputFormat = .table

    package init() {}

    /// Writes a result to standard output: `json` with `--output json`, otherwise `text`.
    package func show(_ json: [UInt8], _ text: @autoclosure () -> String) throws {
        switch output {
        case .json: try Console.output(json: json)
        case .table: try Console.output(text())
        }
    }
}

/// The option `--reason` of the commands whose reason is stored, in an audit record or in a payment's history.
package struct ReasonOption: ParsableArguments {
    package static var help: ArgumentHelp {
        ArgumentHelp("The reason, for the record; at most 200 characters.", valueName: "text")
    }

    @Option(help: ReasonOption.help)
    package var reason: String

    package init() {}

    package func validate() throws { try Self.check(reason) }

    package static func check(_ reason: String) throws {
        guard (1...200).contains(reason.unicodeScalars.count) else {
            throw ValidationError("--reason has 1 to 200 characters.")
        }
    }
}

/// The option `--wide` of the commands that print a list.
package struct WideOption: ParsableArguments {
    @Flag(
        name: .customLong("wide"),
        help: "Shows every column in full, even in a narrow terminal. Files and pipes always get all columns.")
    package var isWide = false

    package init() {}
}

/// The options of a program that serves until a signal ends it.
package struct ServerOptions: ParsableArguments {
    @Option(name: .customLong("config"), help: ArgumentHelp("The configuration file (YAML).", valueName: "file"))
    package var configurationFile: String

    @Flag(help: "Report every problem of the configuration with its line, and exit 0 or 78.")
    package var check = false

    package init() {}

    /// Checks the configuration, or serves. Throws the exit status of a program that did not end as it should.
    package func run(
        _ check: (_ configurationFile: String) -> ExitStatus, serve: (_ configurationFile: String) async -> ExitStatus
    ) async throws {
        let status = self.check ? check(configurationFile) : await serve(configurationFile)
        if status != .done { throw ExitCode(status.rawValue) }
    }
}
