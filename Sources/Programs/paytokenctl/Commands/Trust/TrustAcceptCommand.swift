import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import GooglePayToken

/// The arguments of both changes of the accepted keys.
struct AcceptedKeysOptions: ParsableArguments {
    @Argument(
        help: ArgumentHelp("The SHA-256 of the key's SubjectPublicKeyInfo: 64 digits.", valueName: "fingerprint"))
    var fingerprint: RootKeyFingerprint
    @Option(
        help: ArgumentHelp("The file of accepted keys (trust.google_pay).", valueName: "file"), completion: .file())
    var accepted = GoogleRootKeyFiles.accepted
    @Flag(help: "Changes the file only; the daemon reads it at its next reload or start.")
    var noReload = false
    @OptionGroup var change: ChangeOptions

    /// Replaces the file of accepted keys, and has the daemon reload its configuration, which records the person. Fails if
    /// the change has no effect there: the configuration may name another file.
    ///
    /// - Parameters:
    ///   - done: a sentence about the change.
    ///   - isTrusted: true if the daemon then trusts the key, and false if it does not.
    ///   - edit: returns the new keys; receives the old ones.
    func apply(
        _ done: String, isTrusted: Bool, _ edit: ([GoogleRootKey]) throws -> [GoogleRootKey]
    ) async throws {
        let file = change.dryRun.isDryRun ? nil : try GoogleRootKeyFiles.replacement(of: accepted)
        let old = try GoogleRootKeyFiles.read(accepted)
        guard old?.fetch == nil else {
            throw CommandFailure(
                .unreadable, "\(accepted) is a file of fetched keys, which no person has accepted. Name another file.")
        }
        let new = try edit(old?.keys ?? [])
        guard let file else { return change.dryRun.report(done) }
        if new != old?.keys { try GoogleRootKeyFiles.write(GoogleRootFile(keys: new), to: file) }
        Console.error("\(accepted): \(done).")
        guard !noReload else { return }
        do {
            try await ReloadCommand.reload(change)
        } catch let failure as CommandFailure {
            throw CommandFailure(
                failure.status, failure.message,
                more: failure.more + [
                    "The file is changed, and not yet in force; paytokenctl reload puts it in force."
                ])
        }
        let (status, _): (StatusAnswer, [UInt8])
        do {
            (status, _) = try await change.socket.connection.send(.get("/v1/status"), for: StatusAnswer.self)
        } catch let failure as CommandFailure {
            throw CommandFailure(
                failure.status, failure.message,
                more: failure.more + [
                    "The daemon has reloaded its configuration; paytokenctl status shows if it uses the change."
                ])
        }
        let trusted = (status.trust.googlePay ?? []).contains { $0.sha256 == fingerprint.hex }
        guard trusted == isTrusted else {
            throw CommandFailure(
                .no,
                isTrusted
                    ? "\(accepted) has the key, but the daemon does not trust it: its configuration may name other files. "
                        + "Compare trust.google_pay and trust.google_pay_fetched with --accepted and --fetched."
                    : "\(accepted) no longer has the key, but the daemon still trusts it: its configuration may name another "
                        + "file (trust.google_pay), or accept each fetched key (trust.google_pay_auto_accept).")
        }
    }
}

struct TrustAcceptCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accept",
        abstract: "Accepts a fetched root key, and reloads the daemon's configuration.",
        discussion: """
            A person with the private half of an accepted key can forge payments. So compare the \
            fingerprint with one that was fetched over another network, before you accept it.

              paytokenctl trust google-pay accept 3f5c…64 digits

            The command copies the key from the fetched file into the accepted one, which only an account that may change \
            the configuration can write. The reload records the person, and the keys before and after. If the daemon then \
            does not trust the key, because its configuration names other files, the exit status is 1.
            """)

    @OptionGroup var options: AcceptedKeysOptions
    @Option(
        help: ArgumentHelp("The file of fetched keys (trust.google_pay_fetched).", valueName: "file"),
        completion: .file())
    var fetched = GoogleRootKeyFiles.fetched
    @Flag(help: "Permits the key of Google's TEST environment, in which anyone can order payment tokens.")
    var test = false

    func run() async throws {
        let hex = options.fingerprint.hex
        guard let file = try GoogleRootKeyFiles.read(fetched) else {
            throw CommandFailure(.unreadable, "\(fetched) does not exist; fetch the keys first.")
        }
        guard let key = file.keys.first(where: { $0.hex == hex }) else {
            throw CommandFailure(.no, "\(fetched) has no key \(hex).")
        }
        guard Date() < key.expiration else {
            throw CommandFailure(.no, "The key \(hex) expired at \(RFC3339.string(key.expiration)).")
        }
        guard test || !key.isTest else {
            throw CommandFailure(
                .no,
                "The key \(hex) is of Google's TEST environment, in which anyone can order payment tokens with test "
                    + "cards; --test permits it.")
        }
        let done = "the key \(hex) is accepted until \(RFC3339.string(key.expiration))"
        try await options.apply(done, isTrusted: true) { old in
            old.filter { $0.hex != hex } + [key]
        }
    }
}

struct TrustRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Removes an accepted root key, and reloads the daemon's configuration.",
        discussion: """
            For a key that Google no longer lists, so that a damaged or older fetched file cannot bring it back. Any other \
            key stops counting at once.

              paytokenctl trust google-pay remove 3f5c…64 digits
            """)

    @OptionGroup var options: AcceptedKeysOptions

    func run() async throws {
        let hex = options.fingerprint.hex
        try await options.apply("the key \(hex) is removed", isTrusted: false) { old in
            let rest = old.filter { $0.hex != hex }
            guard rest.count < old.count else { throw CommandFailure(.no, "\(options.accepted) has no key \(hex).") }
            guard !rest.isEmpty else {
                throw CommandFailure(
                    .no,
                    "\(hex) is the only accepted key. To end Google Pay, remove trust.google_pay from the configuration."
                )
            }
            return rest
        }
    }
}
