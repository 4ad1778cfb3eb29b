package import ArgumentParser
import DaemonAPI
import Encodings

extension AsyncParsableCommand {
    /// Parses the process's arguments and runs the command that they name. An error ends the process as in
    /// ``ArgumentParser/ParsableCommand/endProcess(_:)``.
    nonisolated(nonsending) package static func runProcess() async {
        do {
            try await runCommand()
        } catch {
            endProcess(error)
        }
    }

    /// Parses the process's arguments and runs the command that they name.
    ///
    /// A suspension makes the concurrency runtime open descriptors. If standard output is closed, a new descriptor
    /// would get the number 1, and results would be written to that descriptor. Therefore this method runs on the
    /// caller's actor, and only shell completions suspend during parsing.
    nonisolated(nonsending) package static func runCommand() async throws {
        let isCompletion = CommandLine.arguments.dropFirst().first == "---completion"
        var command = isCompletion ? try await asyncParseAsRoot() : try parseAsRoot()
        if var asynchronous = command as? any AsyncParsableCommand {
            try await asynchronous.run()
        } else {
            try command.run()
        }
    }
}

extension ParsableCommand {
    /// Ends the process as the error requires. A ``CommandEnding`` has its own text and exit status. For
    /// ArgumentParser's errors, the text is help, the version or a usage error. Any other error is reported as a defect
    /// of the program.
    ///
    /// For an unknown command, the message contains that command and the command that was probably meant. If help or
    /// the version cannot be written to standard output, the exit status reports the failure. ArgumentParser's own
    /// `exit(withError:)` would exit with 0.
    package static func endProcess(_ error: any Error) -> Never {
        if let ending = error as? any CommandEnding { end(ending.failure) }
        let code = exitCode(for: error)
        if code == .success || code == .validationFailure,
            let message = UnknownCommand.message(Array(CommandLine.arguments.dropFirst()), root: self)
        {
            end(CommandFailure(.usage, "Error: \(message)"))
        }
        if code == .failure, !(error is ExitCode) {
            let program = configuration.commandName ?? ""
            end(
                CommandFailure(
                    .defect,
                    "internal_error: \(type(of: error)). This is a defect of \(program); please report it."))
        }
        guard code == .success else { exit(withError: error) }
        do throws(CommandFailure) {
            let message = fullMessage(for: error)
            if !message.isEmpty { try Console.output(message + "\n") }
        } catch {
            end(error)
        }
        exit(withError: ExitCode.success)
    }

    private static func end(_ failure: CommandFailure) -> Never {
        for line in (failure.message.map { [$0] } ?? []) + failure.more { Console.error(line) }
        exit(withError: ExitCode(failure.status.rawValue))
    }
}

/// The first word on a command line that should be a command or subcommand but is unknown.
enum UnknownCommand {
    /// Returns a sentence that names the unknown word and the command that was probably meant. Returns nil if no word
    /// is unknown.
    ///
    /// - Parameter arguments: the command line without the program's name; `help` may be its first word.
    static func message(_ arguments: [String], root: any ParsableCommand.Type) -> String? {
        var path = name(root)
        var subcommands = root.configuration.subcommands
        for word in arguments.first == "help" ? arguments.dropFirst() : arguments[...] {
            // After an option, a word may be the option's value. After a command without subcommands, a word is an
            // argument.
            guard !word.hasPrefix("-"), !subcommands.isEmpty else { return nil }
            guard let next = subcommands.first(where: { name($0) == word }) else {
                let names = subcommands.filter { $0.configuration.shouldDisplay }.map { name($0) }
                let advice =
                    NearestName.suggestion(for: word, among: names).map { "did you mean \(path) \($0)?" }
                    ?? "the commands are \(names.joined(separator: ", "))."
                return "there is no command \(path) \(word.prefix(64)); \(advice) See \(path) --help."
            }
            path += " " + word
            subcommands = next.configuration.subcommands
        }
        return nil
    }

    private static func name(_ command: any ParsableCommand.Type) -> String {
        command.configuration.commandName ?? ""
    }
}
