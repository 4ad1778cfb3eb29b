import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings

// The parts that commands share: output formats, dry runs, reasons, keys, and requests for changes.

/// `--dry-run`, for every command that changes something.
struct DryRunOption: ParsableArguments {
    @Flag(name: .customLong("dry-run"), help: "Checks everything and changes nothing.")
    var isDryRun = false

    /// A path of the daemon's API, with `dry_run=true` if this is a dry run.
    func target(_ path: String) -> String { path + (isDryRun ? "?dry_run=true" : "") }

    /// Reports that this was a dry run. `can` is a clause that says what could be done.
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

/// The options of every command that reads from the admin socket.
struct ReadOptions: ParsableArguments {
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    /// Sends the request and shows the response.
    @discardableResult
    func show<Answer: Decodable>(
        _ request: ClientRequest, as type: Answer.Type, text: (Answer) -> String
    ) async throws -> Answer {
        let (answer, bytes) = try await socket.connection.send(request, for: type)
        try format.show(bytes, text(answer))
        return answer
    }
}

/// The options of every command that changes something through the admin socket.
struct ChangeOptions: ParsableArguments {
    @OptionGroup var dryRun: DryRunOption
    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    /// Requests the change and shows the response. If the change needs a second person, the command exits with 75 and
    /// shows the command that this person must enter.
    ///
    /// - Parameters:
    ///   - possible: a clause that says what could be done, shown after a dry run; nil if the response contains it.
    ///   - note: further information for the requester of a change that needs approval.
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
    /// Parses KEY on the command line; the error describes the fault.
    static func parse(_ argument: String) throws -> KeyReference {
        guard let key = KeyReference(argument) else {
            throw ValidationError(
                "a key is named by its publicKeyHash: all 44 characters of base64, or at least 8 characters of hex from its "
                    + "beginning; key show prints both.")
        }
        return key
    }

    /// The beginning of a publicKeyHash in hexadecimal, as people quote it; `-` for invalid base64.
    static func short(base64: String) -> String {
        Base64.decode(base64).map { Hexadecimal.encode($0.prefix(4)) } ?? "-"
    }
}

/// A duration in the configuration's form.
struct ShortDuration: ExpressibleByArgument, Equatable {
    let seconds: Double

    init?(argument: String) {
        guard let duration = DurationText.duration(argument) else { return nil }
        seconds = duration / .seconds(1)
    }
}
