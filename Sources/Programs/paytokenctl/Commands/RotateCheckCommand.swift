import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import Foundation
import StrictJSON

struct RotateCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Compares Apple's list of a merchant's certificates with the keys here.",
        discussion: """
            Reads the list through Apple's App Store Connect API, with the service key in the HSM token; \
            paytoken-outbound makes the requests. It finds certificates that wallets use and whose keys are unknown or \
            not active here, so that payments fail now; certificates of unknown keys that wallets do not use; keys \
            that are active here only; ends within 60, 30 and 15 days; two certificates of one key; certificates of \
            a wrong type; and certificates of which Apple does not say if wallets use them. It changes nothing here or \
            at Apple, and needs the role audit.

            --all checks every merchant that has a key here that is not destroyed. If a merchant's list cannot be \
            read, the others are still compared. The timer paytokend-rotate-check.timer does this each day.

              paytokenctl rotate check merchant.com.example
              paytokenctl rotate check --all --output json | jq '.[].findings[].kind'

            Exit status: 0 nothing found; 1 findings, also if other lists were not read; 75 no findings, and a list of \
            Apple was not read: try again later. This has never been tried against Apple's API, only against a simulator of its published specification.
            """)

    @Argument(help: ArgumentHelp("The merchant identifier.", valueName: "merchant"), completion: .merchant)
    var merchant: String?

    @Flag(help: "Check every merchant that has a processing or identity key here.")
    var all = false

    @OptionGroup var format: OutputOptions
    @OptionGroup var socket: AdminSocketOption

    /// The longest time in which the daemon and the outbound program read a list: two requests, each as long as its
    /// JSON Web Token is valid.
    static let longestRead = Duration.seconds(180)
    private static let pause = Duration.milliseconds(300)

    func validate() throws {
        guard (merchant != nil) != all else {
            throw ValidationError("Name a merchant, or give --all.")
        }
    }

    func run() async throws {
        let connection = socket.connection
        let merchants = if let merchant { [merchant] } else { try await Self.merchants(connection) }
        // All reads are requested first. The outbound program then makes one after another without a pause.
        var failures: [String: CommandFailure] = [:]
        for merchant in merchants {
            failures[merchant] = try await failure { _ = try await Self.request(merchant, connection) }
        }
        var (read, unread, hasFindings): ([JSONValue], [String], Bool) = ([], [], false)
        var text: [String] = []
        var ends = ContinuousClock.now + Self.longestRead
        for merchant in merchants {
            var found: (answer: PortalCheckAnswer, bytes: [UInt8])?
            if failures[merchant] == nil {
                failures[merchant] = try await failure {
                    found = try await Self.answer(for: merchant, connection, before: ends)
                }
            }
            let (answer, bytes) = try found ?? Self.unread(merchant, failures[merchant])
            read.append(try JSONValue(parsing: bytes))
            if answer.readAt == nil {
                unread.append("\(merchant): \(answer.fault ?? Self.lateRead)")
            } else {
                text.append(Self.text(answer))
            }
            // The next read gets its time only if the program that makes the reads has just ended this one.
            if answer.readAt != nil || answer.fault != nil { ends = ContinuousClock.now + Self.longestRead }
            hasFindings = hasFindings || !answer.findings.isEmpty
        }
        try format.show(JSONValue.array(read).compact, text.joined(separator: "\n"))
        if !unread.isEmpty {
            let message = "Apple's list was not read."
            guard hasFindings else { throw CommandFailure(.tryAgainLater, message, more: unread) }
            for line in [message] + unread { Console.error(line) }
        }
        if hasFindings { throw CommandFailure(.no, nil) }
    }

    /// Returns the failure of a step for one of several merchants, so that the others are still compared. If a merchant
    /// was named, the failure is the command's.
    private func failure(of step: () async throws -> Void) async throws -> CommandFailure? {
        do {
            try await step()
            return nil
        } catch let ending as any CommandEnding where all {
            return ending.failure
        }
    }

    /// The answer for a merchant whose list was not read.
    private static func unread(
        _ merchant: String, _ failure: CommandFailure?
    ) throws -> (answer: PortalCheckAnswer, bytes: [UInt8]) {
        let answer = PortalCheckAnswer(
            merchantIdentifier: merchant, requestedAt: Date(), fault: failure?.message ?? "unknown")
        return (answer, try JSONCoding.encode(answer))
    }

    static let lateRead = "not in time. Does paytoken-outbound run on the daemon's host?"

    /// Returns the merchants that have a processing or identity key here that is not destroyed, in the order of their
    /// identifiers. Wallets may still use the certificate of a compromised key.
    private static func merchants(_ connection: DaemonConnection) async throws -> [String] {
        let keys = try await connection.allKeys().keys.filter {
            ["processing", "identity"].contains($0.use) && $0.state != "destroyed"
        }
        let merchants = Set(keys.compactMap(\.merchantIdentifier)).sorted()
        guard !merchants.isEmpty else {
            throw CommandFailure(
                .no, "No merchant has a key in this ledger, so nothing was compared.",
                more: ["Ask a host whose ledger has the merchants' keys."])
        }
        return merchants
    }

    static func request(
        _ merchant: String, _ connection: DaemonConnection
    ) async throws -> (answer: PortalCheckAnswer, bytes: [UInt8]) {
        try await connection.post(
            "/v1/portal/checks", PortalCheckRequest(merchantIdentifier: merchant), for: PortalCheckAnswer.self)
    }

    /// Waits for the end of a read. The result has neither `readAt` nor `fault` if the read takes too long.
    static func answer(
        for merchant: String, _ connection: DaemonConnection, before ends: ContinuousClock.Instant
    ) async throws -> (answer: PortalCheckAnswer, bytes: [UInt8]) {
        while true {
            let last = try await connection.send(
                .get("/v1/portal/certificates?merchantIdentifier=\(PercentEncoding.encoded(merchant))"),
                for: PortalCheckAnswer.self)
            guard last.answer.readAt == nil, last.answer.fault == nil, ContinuousClock.now < ends else { return last }
            try await Task.sleep(for: pause)
        }
    }

    /// The list and the findings as text for display.
    static func text(_ answer: PortalCheckAnswer) -> String {
        var text = Table(pairs: [
            ("Merchant", answer.merchantIdentifier), ("At Apple", answer.appleId ?? "-"),
            ("Read", answer.readAt.map(RFC3339.string) ?? "-"),
        ]).text
        if !answer.certificates.isEmpty {
            var table = Table(columns: ["CERTIFICATE", "TYPE", "ACTIVATED", "EXPIRES", "PUBLICKEYHASH"])
            for certificate in answer.certificates {
                table.add([
                    certificate.certificateId, certificate.type,
                    certificate.activated.map { $0 ? "yes" : "no" } ?? "unknown",
                    certificate.notAfter.map { String(RFC3339.string($0).prefix(10)) } ?? "-",
                    certificate.publicKeyHash ?? "-",
                ])
            }
            text += "\n" + table.text
        }
        guard !answer.findings.isEmpty else { return text + "\nNothing found.\n" }
        var table = Table(columns: ["SEVERITY", "FINDING", "CERTIFICATE", "TEXT"])
        for finding in answer.findings {
            table.add([finding.severity, finding.kind, finding.certificateId ?? "-", finding.text])
        }
        return text + "\n" + table.text
    }
}
