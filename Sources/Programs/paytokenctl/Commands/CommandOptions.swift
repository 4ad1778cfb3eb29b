import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings

// What commands share: how a result is shown, a dry run, a reason for the record, a key, and asking for a change.

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

/// A key as a command's argument.
struct KeyArgument: ParsableArguments {
    @Argument(
        help: ArgumentHelp("The key: its publicKeyHash in base64, or 8 to 64 characters of hex.", valueName: "key"),
        completion: .key, transform: KeyReference.parse)
    var key: KeyReference
}

/// Of every command that looks at something on the admin socket.
struct ReadOptions: ParsableArguments {
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    /// Asks and shows the answer.
    @discardableResult
    func show<Answer: Decodable>(
        _ request: ClientRequest, as type: Answer.Type, text: (Answer) -> String
    ) async throws -> Answer {
        let (answer, bytes) = try await socket.connection.send(request, for: type)
        try format.show(bytes, text(answer))
        return answer
    }
}

/// Of every command that changes something over the admin socket.
struct ChangeOptions: ParsableArguments {
    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    /// Asks for the change and shows the answer. Where it waits for a second person, the command ends with 75 and says what
    /// that person types.
    ///
    /// - Parameters:
    ///   - possible: a clause of what could be done, said after a dry run; nil where the answer says it.
    ///   - note: what else the person who asked should know of a change that waits.
    @discardableResult
    func post<Answer: Decodable>(
        _ path: String, _ body: some Encodable, for type: Answer.Type, dryRunSays possible: String?,
        whenPending note: (PendingAnswer) -> String? = { _ in nil }, text: (Answer) -> String
    ) async throws -> Answer {
        let (answer, bytes) = try await socket.connection.post(
            dryRun.target(path), body, for: type, whenPending: note)
        try format.show(bytes, text(answer))
        if let possible { dryRun.report(possible) }
        return answer
    }
}

extension KeyReference {
    /// KEY on the command line: what is wrong is said.
    static func parse(_ argument: String) throws -> KeyReference {
        guard let key = KeyReference(argument) else {
            throw ValidationError(
                "a key is named by its publicKeyHash: all 44 characters of base64, or at least 8 characters of hex from its "
                    + "beginning; key show tells both.")
        }
        return key
    }

    /// The beginning of a publicKeyHash in hex, as people pass it around; `-` for what is no base64.
    static func short(base64: String) -> String {
        Base64.decode(base64).map { Hexadecimal.encode($0.prefix(4)) } ?? "-"
    }
}

/// A duration as the configuration writes it.
struct ShortDuration: ExpressibleByArgument, Equatable {
    let seconds: Double

    init?(argument: String) {
        guard let duration = DurationText.duration(argument) else { return nil }
        seconds = duration / .seconds(1)
    }
}
