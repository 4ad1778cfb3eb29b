import ArgumentParser
import CommandOutput
import DaemonAPI
import Encodings
import FixedHosts
import Foundation
import GooglePayToken
import OutgoingConnections
import StrictJSON

struct TrustCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trust", abstract: "The root keys with which payment tokens are verified.",
        subcommands: [TrustGooglePayCommand.self])
}

struct TrustGooglePayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "google-pay",
        abstract: "Google's root keys: fetch them, and accept or remove one.",
        discussion: """
            A key counts if it is in two files: the accepted one (trust.google_pay), which a person changes, and the \
            fetched one (trust.google_pay_fetched), which an account with access to the network replaces. So that account \
            can end the trust in a key, and cannot begin it.

              paytokenctl trust google-pay fetch google-pay-keys.json
              paytokenctl trust google-pay accept FINGERPRINT
              paytokenctl trust google-pay remove FINGERPRINT
            """,
        subcommands: [TrustFetchCommand.self, TrustAcceptCommand.self, TrustRemoveCommand.self])
}

struct TrustFetchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fetch",
        abstract: "Fetches Google's file of root keys, checks it, and replaces a file with its keys for ECv2.",
        discussion: """
            Run it with an account that may use the network and write the file's directory; it asks the daemon nothing. \
            The command connects to Google's host only, verifies TLS, and follows no redirect. A file without a key for \
            ECv2 that has not expired, with a key that is not on the curve, or for production with the key of Google's \
            TEST environment is refused. Then the old file stays, as after any other failure. A file that this command has \
            not written is never replaced.

            As long as Google's answer said that the file stays fresh (Cache-Control, at most seven days), no request is \
            made. The timer paytoken-outbound-google-keys.timer runs it each hour.

              paytokenctl trust google-pay fetch \\
                  /var/lib/paytoken-outbound/google-pay-keys.json

            Exit status: 0 the file is Google's; 1 Google's file is refused; 66 the file cannot be used; 69 Google was not \
            reached; 75 another command replaces a file there.
            """)

    @Argument(help: ArgumentHelp("The file to replace.", valueName: "file"), completion: .file())
    var file: String
    @Flag(help: "Fetches the file of Google's TEST environment.")
    var test = false
    @Flag(help: "Makes the request even if the file is fresh.")
    var now = false
    @Option(
        help: ArgumentHelp("An HTTP proxy (CONNECT), as http://HOST:PORT.", valueName: "url"))
    var proxy: String?
    @Option(
        help: ArgumentHelp(
            "For tests: trusts the roots in this PEM file instead of the system's.", valueName: "file",
            visibility: .hidden), completion: .file())
    var trust: String?
    @Option(
        help: ArgumentHelp(
            "For tests: a server at this loopback address instead of Google's.", valueName: "address:port",
            visibility: .hidden))
    var testServer: String?
    @OptionGroup var format: OutputOptions

    func validate() throws {
        if let proxy, HTTPProxy(proxy) == nil {
            throw ValidationError("--proxy is http://HOST:PORT, without a user, a password or a path.")
        }
        if let testServer, FixedHost.Way.testServer(testServer) == nil {
            throw ValidationError("--test-server is a loopback address and a port, as in 127.0.0.1:9443.")
        }
    }

    func run() async throws {
        let source = try GoogleRootKeySource(isTest: test, way())
        // The lock is taken first: a directory that cannot be written costs no request, and of two commands one makes it.
        let replacement = try GoogleRootKeyFiles.replacement(of: file)
        let old = try GoogleRootKeyFiles.read(file)
        if let old, old.fetch == nil {
            throw CommandFailure(
                .unreadable,
                "\(file) was not written by this command, and is not replaced: a person may have accepted its keys. "
                    + "Name another file.")
        }
        if let old, !now, isFresh(old) { return try show(old, replacing: old, isFresh: true) }
        let new = try await source.fetch()
        try GoogleRootKeyFiles.write(new, to: replacement)
        try show(new, replacing: old, isFresh: false)
    }

    private func way() throws -> FixedHost.Way {
        var way = FixedHost.Way()
        way.proxy = proxy.flatMap { HTTPProxy($0) }
        if let trust {
            guard let roots = FixedHost.Way.roots(inFile: trust) else {
                throw CommandFailure(.unreadable, "\(trust) has no certificate in PEM.")
            }
            way.trust = roots
            Console.error("warning: Google's host is verified with the roots in \(trust) instead of the system's.")
        }
        if let testServer {
            way.testServer = FixedHost.Way.testServer(testServer)
            Console.error("warning: the keys come from a server on this host and not from Google.")
        }
        return way
    }

    /// Returns true if the file's keys are of the requested environment, and need not be fetched yet.
    private func isFresh(_ old: GoogleRootFile) -> Bool {
        guard let fetch = old.fetch else { return false }
        let now = Date()
        // A time of fetching in the future, or one long before the end, is not one that this command wrote.
        return fetch.at <= now && now < fetch.freshUntil
            && fetch.freshUntil <= fetch.at.addingTimeInterval(TimeInterval(Freshness.maximumSeconds))
            && old.keys.contains(where: \.isTest) == test
    }

    private func show(_ new: GoogleRootFile, replacing old: GoogleRootFile?, isFresh: Bool) throws {
        let difference = GoogleRootTrust(accepted: old?.keys ?? [], fetched: new.keys)
        let (added, removed) = (difference.notAccepted, difference.vanished)
        let json = JSONWriter.object { json in
            json.member("file", file)
            json.member("status", isFresh ? "fresh" : "fetched")
            json.member("freshUntil", new.fetch.map { RFC3339.string($0.freshUntil) })
            json.member("keys", objects: new.keys) { key, json in
                json.member("sha256", key.hex)
                json.member("notAfter", RFC3339.string(key.expiration))
                json.member("test", key.isTest)
            }
            json.member("added", added.map(\.hex))
            json.member("removed", removed.map(\.hex))
        }
        var table = Table(columns: ["KEY", "UNTIL", "CHANGE"])
        for key in new.keys {
            table.add([key.hex, RFC3339.string(key.expiration), added.contains(key) ? "added" : "-"])
        }
        for key in removed { table.add([key.hex, RFC3339.string(key.expiration), "removed"]) }
        try format.show(json, table.text)
        if isFresh, let fetch = new.fetch {
            Console.error("No request was made: the file is fresh until \(RFC3339.string(fetch.freshUntil)).")
        }
        if !added.isEmpty {
            Console.error(
                "An added key counts after a person has accepted it: paytokenctl trust google-pay accept FINGERPRINT")
        }
        if !removed.isEmpty { Console.error("A removed key counts until the daemon reloads its configuration.") }
    }
}
