import Foundation
import TestSupport
import Testing
import TokenForge

/// Absence of account numbers, cryptograms, PINs and keys from all output of the programs.
@Suite struct SecrecyTests {
    @Test(
        "writes no secrets to the log, the ledger and its server's files, the HSM store, metrics, status and refusals",
        .everyEngine)
    func nothingLeaks() async throws {
        var configuration = DaemonConfiguration()
        configuration.logLevel = "trace"
        if StorageEngine.current == .postgresql {
            // The test searches everything that the database server writes, so the server has verbose logs and keeps
            // its write-ahead log.
            let server = try await PostgreSQLServer(
                settings: ["log_statement=all", "log_min_messages=debug1", "wal_keep_size=1GB"])
            configuration.database = try await DaemonDatabase(on: DaemonDatabase.prepared(server))
        }
        let merchants = [try SharedForge.ecMerchant, try SharedForge.rsaMerchant]
        let harness = try await DaemonHarness(configuration, merchants: merchants)
        var secrets = Set<String>()
        // The secrets of the valid payment tokens in all encodings, such as hexadecimal and base64.
        var encoded: [[UInt8]] = []
        var written: [(String, [UInt8])] = []
        for merchant in merchants {
            let version = merchant.merchant.isEllipticCurve ? "EC_v1" : "RSA_v1"
            for deviation in [nil] + Deviation.allCases.map(Optional.some) {
                if let deviation, !deviation.applies(to: version) { continue }
                var payload = PayloadRecipe(deviation == .badTag ? .emv : .threeDSecure)
                payload.cardholderName = "Secretive Cardholder"
                payload.accountNumber = "4" + String((0..<15).map { _ in "0123456789".randomElement() ?? "0" })
                secrets.formUnion(payload.secrets)
                secrets.insert("Secretive Cardholder")
                let paymentToken = try SharedForge.mint.mint(
                    TokenRecipe(
                        merchant: merchant.merchant, payload: payload.json, applicationData: [1],
                        deviations: deviation.map { [$0] } ?? []))
                // Each payment token is sent with an unmet expectation and without one. A valid one is also sent with
                // each expectation that can fail.
                var expectations = ["{\"transactionAmount\":1}", nil]
                if deviation == nil {
                    expectations = Self.unmet.map(Optional.some) + expectations
                    encoded += payload.secrets.flatMap { SecretEncodings.of(Array($0.utf8)) }
                    encoded += SecretEncodings.of(payload.cryptogram)
                }
                for expected in expectations {
                    let answer = try await harness.decrypt(paymentToken, expected: expected, reference: "order")
                    if answer.status != 200 {
                        written.append(("refusal of \(deviation?.rawValue ?? "a good token")", answer.body))
                    }
                }
            }
        }
        let worker = try harness.worker()
        kill(worker, SIGKILL)
        try await wait(for: "another worker") { (try? harness.worker()).map { $0 != worker } == true }
        try await harness.waitUntilReady()
        for path in ["/metrics", "/v1/status", "/v1/keys", "/readyz"] {
            written.append((path, try await harness.admin(path).body))
        }
        let ended = try await harness.stop()
        #expect(ended.status == 0)
        #expect(ended.errorBytes.count > 1000, "the log is too short to tell anything")
        written += [("standard output", ended.outputBytes), ("standard error", ended.errorBytes)]
        let files = try harness.files().filter {
            !["pin", "so-pin"].contains(URL(filePath: $0.path).lastPathComponent)
        }
        #expect(files.contains { $0.path.hasSuffix("ledger.sqlite") } == (harness.database == nil))
        written += files.map { ($0.path, $0.bytes) }
        if let database = harness.database {
            let dump = try await database.server.dump(database.name)
            #expect(dump.holds(Array("COPY paytokend.audit_record".utf8)))
            written.append(("a dump of the database", dump))
        }

        var needles = secrets.map { ($0, Array($0.utf8)) }
        needles += encoded.map { ("card data, encoded", $0) }
        needles += [DaemonHarness.pin, DaemonHarness.securityOfficerPIN].map { ("a PIN", Array($0.utf8)) }
        for merchant in merchants {
            // The search uses the middle of the PKCS#8 file, which is private, in three encodings. The file ends with
            // the public key (EC) or the CRT numbers (RSA).
            let key = merchant.key.pkcs8
            let part =
                merchant.merchant.isEllipticCurve
                ? Array(key[36..<68]) : Array(key[(key.count - 300)..<(key.count - 200)])
            needles += [
                ("a private key", part), ("a private key", Array(Data(part).base64EncodedString().utf8)),
                ("a private key", Array(part.hexadecimal.utf8)),
            ]
        }
        if let server = harness.database?.server {
            try await search(server, for: needles, seeing: merchants[0].merchant.publicKeyHash)
        }
        for (place, bytes) in written {
            let data = Data(bytes)
            for (secret, needle) in needles {
                #expect(data.range(of: Data(needle)) == nil, "\(secret) in \(place)")
            }
        }
    }

    /// Searches a server's tables, write-ahead log and log.
    ///
    /// - Parameter known: a value in the record of every release. The search must find it in all three places, or the
    ///   result would prove nothing.
    private func search(
        _ server: PostgreSQLServer, for needles: [(secret: String, bytes: [UInt8])], seeing known: [UInt8]
    ) async throws {
        let seen = try await server.stopAndSearch(
            for: [Data(known).base64EncodedString(), known.hexadecimal].map { Array($0.utf8) })
        for place in ["base/", "pg_wal/", "log"] { #expect(seen.contains { $0.hasPrefix(place) }, "\(place): \(seen)") }
        // The search works by line, so it uses the longest part of each secret without a line feed.
        let texts = needles.map { $0.bytes.split(separator: 0x0a).max { $0.count < $1.count }.map(Array.init) ?? [] }
        #expect(texts.allSatisfy { $0.count >= 6 })
        let found = try await server.stopAndSearch(for: texts)
        #expect(found.isEmpty, "\(found)")
    }

    /// One unmet expectation for each comparison. The payment tokens have the currency 840, the amount 1099 and the
    /// applicationData 01.
    private static let unmet = [
        #"{"currencyCode":"978"}"#, #"{"transactionAmount":1099.01}"#, #"{"applicationData":"Ag=="}"#,
        #"{"applicationData":null}"#, #"{"merchantIdentifier":"merchant.com.another"}"#,
    ]

    @Test("leaves no core file of the daemon or its worker")
    func noCore() async throws {
        let harness = try await SharedDaemon.harness
        for process in [try harness.daemon.processIdentifier, try harness.worker()] {
            let limits = try String(contentsOfFile: "/proc/\(process)/limits", encoding: .utf8)
            let core = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
            #expect(core.split(separator: " ").dropFirst(4).first == "0", "\(core)")
        }
    }

    // The Swift runtime's crash report would print memory to which registers point, which may contain a payment or a
    // PIN.
    @Test("prints no memory when the daemon, the worker or paytokenctl crashes")
    func crashReport() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let worker = try harness.worker()
        kill(worker, SIGSEGV)
        try await wait(for: "another worker") { (try? harness.worker()).map { $0 != worker } == true }
        try await harness.waitUntilReady()

        let paymentToken = try SharedForge.paymentToken()
        try harness.directory.write(paymentToken.paymentToken, to: "token.json")
        // While the daemon is stopped, the client waits for it, and the test crashes the client.
        try harness.daemon.signal(SIGSTOP)
        let client = try RunningProgram(
            Program.built("paytokenctl"),
            ["decrypt", harness.directory.path("token.json"), "--reveal", "--socket", harness.socket])
        try await wait(for: "the client's connection") { try Self.hasWaitingClient(harness.socket) }
        client.signal(SIGSEGV)
        let clientEnd = try await client.result()
        #expect(clientEnd.status == 128 + SIGSEGV)
        #expect(clientEnd.errorBytes.isEmpty, "\(clientEnd)")

        try harness.daemon.signal(SIGSEGV)
        try harness.daemon.signal(SIGCONT)
        let end = try await harness.daemon.result()
        #expect(end.status == 128 + SIGSEGV)
        for line in end.error.split(separator: "\n") { #expect(line.hasPrefix("{"), "\(line)") }
    }

    /// Returns true if a client waits on the socket at this path for the daemon to accept its connection.
    private static func hasWaitingClient(_ socket: String) throws -> Bool {
        let table = try FileHandle(forReadingFrom: URL(filePath: "/proc/net/unix")).readToEnd() ?? Data()
        return String(decoding: table, as: UTF8.self).split(separator: "\n").contains { line in
            // The fields are Num, RefCount, Protocol, Flags, Type, St (02 means connecting), Inode and Path.
            let fields = line.split(separator: " ")
            return fields.count == 8 && fields[5] == "02" && fields[7] == socket
        }
    }

    @Test("passes no PIN in command lines or environments, which other processes of the account cannot read")
    func processTable() async throws {
        let harness = try await SharedDaemon.harness
        for process in [try harness.daemon.processIdentifier, try harness.worker()] {
            let line = Array(try Data(contentsOf: URL(filePath: "/proc/\(process)/cmdline")))
            #expect(!line.isEmpty && !line.holds(Array(DaemonHarness.pin.utf8)))
            let environment = try? Data(contentsOf: URL(filePath: "/proc/\(process)/environ"))
            if geteuid() == 0 {
                #expect(try !Array(#require(environment)).holds(Array(DaemonHarness.pin.utf8)))
            } else {
                // The /proc entries of a process that is not dumpable belong to root.
                #expect(environment == nil)
            }
        }
    }
}
