package import ArgumentParser
import DaemonAPI
import Encodings

extension AsyncParsableCommand {
    /// Parses the process's arguments and runs the command, as ArgumentParser's `main()` does. It ends like
    /// ``ArgumentParser/ParsableCommand/endProcess(_:)``.
    package static func runProcess() async {
        do {
            var command = try await asyncParseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch {
            endProcess(error)
        }
    }
}

extension ParsableCommand {
    /// Ends the process with what ArgumentParser says: help, version, wrong usage, or an exit status.
    ///
    /// A word that is no command is named, with the command that was probably meant. A text that cannot be written to
    /// standard output is a failure, for which ArgumentParser's own `exit(withError:)` ends with 0.
    package static func endProcess(_ error: any Error) -> Never {
        let code = exitCode(for: error)
        if code == .success || code == .validationFailure,
            let message = UnknownCommand.message(Array(CommandLine.arguments.dropFirst()), root: self)
        {
            StandardError.write("Error: \(message)")
            exit(withError: ExitCode.validationFailure)
        }
        if let lost = error as? LostOutput { exit(withError: lost) }
        guard code == .success else { exit(withError: error) }
        do {
            let message = fullMessage(for: error)
            if !message.isEmpty { try StandardOutput.write(message + "\n") }
        } catch {
            exit(withError: error)
        }
        exit(withError: ExitCode.success)
    }

    private static func exit(withError lost: LostOutput) -> Never {
        StandardError.write(lost.description)
        exit(withError: ExitCode(lost.exitStatus.rawValue))
    }
}

/// The first word of a command line that should be a command and is none.
enum UnknownCommand {
    /// Says which word it is, and which command was probably meant; nil where all words are commands.
    ///
    /// - Parameter arguments: without the program's name; `help` may come first.
    static func message(_ arguments: [String], root: any ParsableCommand.Type) -> String? {
        var path = name(root)
        var subcommands = root.configuration.subcommands
        for word in arguments.first == "help" ? arguments.dropFirst() : arguments[...] {
            // The value of an option may follow it, and arguments follow the last command.
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
