public import ArgumentParser

/// `--wide`, of every list.
public struct WideOption: ParsableArguments {
    @Flag(
        name: .customLong("wide"),
        help: "Shows every column in full, however narrow the terminal is, as files and pipes always get it.")
    public var isWide = false

    public init() {}
}
