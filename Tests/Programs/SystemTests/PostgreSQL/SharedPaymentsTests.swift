import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Two gateways that share a store in PostgreSQL, one paytokend and one simulator, whose log shows the submissions.
@Suite("Payments at two gateways that share a store in PostgreSQL") struct SharedPaymentsTests {
    private final class Gateways: Sendable {
        let harness: DaemonHarness
        let merchant: ForgedMerchant
        let directory: FreshDirectory
        let server: PostgreSQLServer
        private let key: String
        private let simulator: RunningProgram
        private let programs: [Shared<RunningProgram?>]

        init(deadline: String = "20s") async throws {
            harness = try await DaemonHarness(DaemonConfiguration())
            merchant = try SharedForge.ecMerchant
            let imported = try await harness.importMerchant(merchant)
            try #require(imported.status == 0, "\(imported)")
            server = try await PostgreSQLServer()
            try await server.sql("CREATE ROLE payments_owner LOGIN")
            try await server.sql("CREATE ROLE gateway LOGIN")
            try await server.sql("CREATE DATABASE payments OWNER payments_owner")
            let created = try await Program.run(
                Program.built("paytoken-gateway"),
                [
                    "store", "create", "--grant", "gateway", "--output", "json",
                    server.url("payments", user: "payments_owner"),
                ])
            try #require(created.status == 0, "\(created)")
            try #require(JSONValue(parsing: created.outputBytes).objectValue?["status"]?.stringValue == "created")
            directory = try FreshDirectory()
            let made = try await Program.run(Program.built("paytoken-gateway"), ["new-key", "--output", "json"])
            let newKey = try #require(try JSONValue(parsing: made.outputBytes).objectValue)
            key = try #require(newKey["key"]?.stringValue)
            for name in ["g0", "g1"] {
                try directory.write(
                    """
                    listener: { address: "unix:\(name)" }
                    admin: { socket: \(name)a }
                    paytokend: { socket: "\(harness.socket)", timeout: 60s }
                    limits: { requests_per_second: 10000 }
                    store: { url: "\(server.url("payments", user: "gateway"))" }
                    deadline: \(deadline)
                    processors:
                      - { name: acquirer, kind: simulator, url: "unix:\(directory.path("s"))", merchants: ["*"] }
                    clients:
                      - name: shop
                        key_sha256: "\(newKey["key_sha256"]?.stringValue ?? "")"
                        merchants: ["*"]
                        operations: [pay, status]
                    """, to: "\(name).yaml")
            }
            simulator = try RunningProgram(
                Program.built("processor-simulator"),
                ["--listen", "unix:\(directory.path("s"))", "--log", directory.path("log")])
            programs = [Shared(nil), Shared(nil)]
            let (socket, simulator) = (directory.path("s"), simulator)
            try await wait(for: "the simulator to listen") {
                FileManager.default.fileExists(atPath: socket) || !simulator.isRunning
            }
            for number in [0, 1] { try await start(number) }
        }

        func start(_ number: Int) async throws {
            let program = try RunningProgram(
                Program.built("paytoken-gateway"), ["--config", directory.path("g\(number).yaml")])
            programs[number].change { $0 = program }
            try await wait(for: "the gateway to serve") { program.error.contains("\"serving\"") || !program.isRunning }
            try #require(program.isRunning, "\(program.error)")
        }

        func kill(_ number: Int) async throws {
            programs[number].current?.signal(SIGKILL)
            _ = try await programs[number].current?.result()
        }

        func mint(
            _ cents: Int, _ payload: PayloadRecipe = PayloadRecipe()
        ) throws -> (identifier: String, body: [UInt8]) {
            var payload = payload
            payload.amount = "\(cents)"
            let token = try SharedForge.mint.mint(TokenRecipe(merchant: merchant.merchant, payload: payload.json))
            let amount = "\(cents / 100).\(String(format: "%02d", cents % 100))"
            let body =
                Array("{\"token\":".utf8) + token.paymentToken
                + Array(",\"orderId\":\"order-1\",\"expected\":{\"amount\":\"\(amount)\",\"currency\":\"USD\"}}".utf8)
            return (token.transactionIdentifier, body)
        }

        func pay(_ body: [UInt8], at number: Int) async throws -> CurlAnswer {
            try await Curl.request(
                "/payments/apple-pay", socket: directory.path("g\(number)"), body: body,
                arguments: ["--header", "Authorization: Bearer \(key)"])
        }

        func status(_ transaction: String, at number: Int) async throws -> CurlAnswer {
            try await Curl.request(
                "/payments/apple-pay/\(transaction)", socket: directory.path("g\(number)"),
                arguments: ["--header", "Authorization: Bearer \(key)"])
        }

        func ready(_ number: Int) async throws -> Int {
            try await Curl.request("/readyz", socket: directory.path("g\(number)a")).status
        }

        func command(_ arguments: String..., at number: Int) async throws -> ProgramResult {
            try await Program.run(
                Program.built("paytoken-gateway"),
                ["payment"] + arguments + ["--socket", directory.path("g\(number)a")])
        }

        /// Returns the number of submissions of each payment from the simulator's log.
        func submissions() throws -> [String: Int] {
            try SimulatorLog.submissions(in: directory.path("log"))
        }
    }

    private static func member(_ name: String, of answer: CurlAnswer) -> String? {
        (try? JSONValue(parsing: answer.body))?.objectValue?[name]?.stringValue
    }

    @Test(
        "submits each payment token once even if both gateways receive it repeatedly, and returns the outcome"
    )
    func sameTokens() async throws {
        let gateways = try await Gateways()
        let payments = try (0..<10).map { _ in try gateways.mint(1000) }
        let answers = try await withThrowingTaskGroup(of: CurlAnswer.self) { group in
            for payment in payments {
                for number in [0, 1, 0, 1] { group.addTask { try await gateways.pay(payment.body, at: number) } }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        // While another request with the same payment token is under way, a request receives 503 or the current
        // outcome.
        for answer in answers where answer.status == 503 {
            #expect(Self.member("code", of: answer) == "payment_under_way", "\(answer)")
        }
        for answer in answers where answer.status == 200 {
            #expect(["authorized", "pending"].contains(Self.member("status", of: answer)), "\(answer)")
        }
        #expect(answers.allSatisfy { [200, 503].contains($0.status) }, "\(answers)")
        #expect(
            try gateways.submissions() == Dictionary(uniqueKeysWithValues: payments.map { ($0.identifier, 1) }))
        for payment in payments {
            for number in [0, 1] {
                let known = try await gateways.status(payment.identifier, at: number)
                #expect(Self.member("status", of: known) == "authorized", "\(known)")
            }
        }
    }

    @Test("reports a killed gateway's submission as pending at the other gateway, which then finds the outcome")
    func killed() async throws {
        let gateways = try await Gateways(deadline: "2s")
        // For this amount, the simulator records the payment and never answers.
        let payment = try gateways.mint(1084)
        async let lost = gateways.pay(payment.body, at: 0)
        try await wait(for: "the submission") { try gateways.submissions()[payment.identifier] == 1 }
        try await gateways.kill(0)
        _ = try? await lost
        let again = try await gateways.pay(payment.body, at: 1)
        #expect(again.status == 200 && Self.member("status", of: again) == "pending", "\(again)")
        try await wait(for: "the other gateway to settle it") {
            Self.member("status", of: try await gateways.status(payment.identifier, at: 1)) == "authorized"
        }
        let shown = try await gateways.command("show", payment.identifier, at: 1)
        #expect(shown.output.contains("interrupted"), "\(shown)")
        #expect(try gateways.submissions() == [payment.identifier: 1])
    }

    @Test("writes no card data to the database server's files and log")
    func secrecy() async throws {
        let gateways = try await Gateways()
        var payload = PayloadRecipe()
        payload.cardholderName = "Secretive Cardholder"
        for cents in [1000, 1081, 1090] {
            _ = try await gateways.pay(gateways.mint(cents, payload).body, at: 0)
        }
        #expect(try gateways.submissions().count == 3)
        let secrets = payload.secrets + ["Secretive Cardholder"]
        #expect(try await gateways.server.stopAndSearch(for: secrets.map { Array($0.utf8) }) == [])
        // The search must find data that is stored, or it would prove nothing.
        #expect(try await gateways.server.stopAndSearch(for: [Array("order-1".utf8)]) != [])
    }

    @Test("submits nothing while the database is away, reports this, and continues without intervention")
    func databaseAway() async throws {
        let gateways = try await Gateways()
        let payment = try gateways.mint(1000)
        try await gateways.server.stop(.immediate)
        let refused = try await gateways.pay(payment.body, at: 0)
        #expect(refused.status == 503 && Self.member("code", of: refused) == "store_unavailable", "\(refused)")
        try await wait(for: "the gateway to be unready") { try await gateways.ready(0) == 503 }
        #expect(try gateways.submissions() == [:])
        try await gateways.server.start()
        try await wait(for: "the gateway to be ready") { try await gateways.ready(0) == 200 }
        #expect(try await gateways.pay(payment.body, at: 1).status == 200)
        #expect(try gateways.submissions() == [payment.identifier: 1])
    }
}
