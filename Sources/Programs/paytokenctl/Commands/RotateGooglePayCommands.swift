import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation

struct RotateAddedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "added",
        abstract: "States that a Google Pay key is in Google's console; from then on it serves.",
        discussion: """
            Google issues no certificate, and its console has no API, so a person states it. Every node of the ledger must \
            have proved the key within the last 24 hours (key prove, on each host): messages to a key that a host lacks \
            fail there. From then on the key opens messages, and GET /v1/google-pay/public-key gives it to site and apps.

              paytokenctl key prove 9c1185a5
              paytokenctl key public-key 9c1185a5
              paytokenctl rotate added 9c1185a5

            Between the second and the third, add the public key in Google's console. A node that was taken out of service \
            is left out with --exclude-node; the record's reason names it.

            GET /v1/google-pay/public-key returns the active key that came into the ledger last. So import an older key first. \
            Within a minute, a host finds a key that was copied into its HSM token.
            """)

    @OptionGroup var key: KeyArgument

    @Option(
        help: ArgumentHelp("A node whose proof is not needed; repeat it for several.", valueName: "node"),
        completion: .node)
    var excludeNode: [String] = []

    @Option(help: ReasonOption.help)
    var reason = RotationAddedRequest.standardReason

    @OptionGroup var change: ChangeOptions

    func validate() throws { try ReasonOption.check(reason) }

    func run() async throws {
        let isDryRun = change.dryRun.isDryRun
        try await change.post(
            "/v1/rotations/added",
            RotationAddedRequest(
                key: key.key.hex, excludeNodes: excludeNode.isEmpty ? nil : excludeNode, reason: reason),
            for: RotationImportAnswer.self, dryRunSays: "the key can serve"
        ) { isDryRun ? MerchantKeyTable.one($0.key).text : RotationText.one($0.rotation) }
    }
}

struct RotateRemovedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "removed",
        abstract: "States that an old Google Pay key was removed in Google's console, and ends it after a while.",
        discussion: """
            Refused while payments with the old key come, or came within google_pay.quiet (30 days by default): apps in the \
            field send an old key for months. Also refused until the new key has opened a message. --force records the \
            removal all the same, unless the cut-off has passed: no key in use stops at once. Each ledger knows its own \
            payments only; if your hosts have one each, run rotate status on every host first.

            Google asks to keep the private key for eight days after the removal. The key opens late messages until \
            its cut-off, ten days after the removal by default, then nothing: paytokenctl key destroy removes it.

              paytokenctl rotate removed 4be01c77
              paytokenctl rotate removed 4be01c77 --at 2027-03-01T09:00:00Z --cut-off 14d
            """)

    @OptionGroup var key: KeyArgument

    @Option(
        help: ArgumentHelp("When it was removed, as in 2027-03-01T09:00:00Z. Default: now.", valueName: "time"),
        transform: Self.time)
    var at: Date?

    @Option(
        help: ArgumentHelp(
            "The time from the removal to the cut-off, at least 8d. Default: 10d.", valueName: "duration"))
    var cutOff: ShortDuration?

    @Option(help: ReasonOption.help)
    var reason = RotationRemovedRequest.standardReason

    @Flag(help: "Records it although the old key is in use, or the new one is not.")
    var force = false

    @OptionGroup var change: ChangeOptions

    func validate() throws { try ReasonOption.check(reason) }

    func run() async throws {
        // The request names the time if the cut-off depends on it.
        let removedAt =
            at ?? cutOff.map { _ in Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down)) }
        try await change.post(
            "/v1/rotations/removed",
            RotationRemovedRequest(
                key: key.key.hex, removedAt: removedAt,
                cutOff: cutOff.flatMap { removedAt?.addingTimeInterval($0.seconds) }, force: force, reason: reason),
            for: RotationFinishAnswer.self, dryRunSays: "the old key can be deactivated"
        ) { RotationText.retired($0) }
    }

    private static func time(_ argument: String) throws -> Date {
        guard let time = RFC3339.date(argument) else {
            throw ValidationError("a time is written as in 2027-03-01T09:00:00Z.")
        }
        return time
    }
}
