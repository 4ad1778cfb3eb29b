import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Radial's interface for clients and for submissions, with all the real programs. Backends send Radial's XML to the
/// gateway over TLS. paytokend has the keys in an HSM token, and a simulated Radial receives the submissions.
@Suite struct RadialPaymentTests {
    /// paytokend, a gateway that uses it, and a simulated Radial to which the gateway submits payments.
    private final class Shop: Sendable {
        let harness: DaemonHarness
        let merchant: ForgedMerchant
        let directory: FreshDirectory
        let radial: SimulatedRadialService
        let key: String
        private let gateway: Shared<RunningProgram?>
        private let origin: Shared<String>

        /// - Parameters:
        ///   - host: the host of the processor's URL.
        ///   - trust: the root certificate that the gateway trusts for the processor.
        init(host: String = "localhost", trust: String = "root.crt") async throws {
            var configuration = DaemonConfiguration()
            configuration.logLevel = "trace"
            harness = try await DaemonHarness(configuration)
            merchant = try SharedForge.ecMerchant
            let imported = try await harness.importMerchant(merchant)
            try #require(imported.status == 0, "\(imported)")
            directory = try FreshDirectory()
            radial = try await SimulatedRadialService(in: directory)
            try await Self.writeCertificates(in: directory)
            try directory.write("apikey: k-of-the-store\n", to: "headers")
            let made = try await Program.run(Program.built("paytoken-gateway"), ["new-key", "--output", "json"])
            let newKey = try #require(try JSONValue(parsing: made.outputBytes).objectValue)
            key = try #require(newKey["key"]?.stringValue)
            try directory.write(
                Self.configuration(
                    keyHash: newKey["key_sha256"]?.stringValue ?? "", paytokend: harness.socket,
                    radial: radial.url(host: host), trust: trust), to: "c.yaml")
            gateway = Shared(nil)
            origin = Shared("")
            try await startGateway()
        }

        func startGateway() async throws {
            let program = try RunningProgram(
                Program.built("paytoken-gateway"), ["--config", directory.path("c.yaml")])
            gateway.change { $0 = program }
            try await wait(for: "the gateway to serve") { program.error.contains("\"serving\"") || !program.isRunning }
            let line = program.error.split(separator: "\n").first { $0.contains("\"message\":\"serving\"") }
            let address = try #require(
                JSONValue(parsing: Array((line ?? "").utf8)).objectValue?["address"]?.stringValue, "\(program.error)")
            origin.change { $0 = "https://\(address)" }
        }

        func stopGateway() async throws {
            gateway.current?.signal(SIGTERM)
            _ = try await gateway.current?.result()
        }

        static func configuration(
            keyHash: String, paytokend: String, radial: String, trust: String = "root.crt", more: String = ""
        ) -> String {
            """
            listener:
              address: "127.0.0.1:0"
              tls: { certificate: gateway.crt, private_key: gateway.key, client_ca: root.crt }
            admin: { socket: a }
            paytokend: { socket: "\(paytokend)", timeout: 60s }
            store: { url: "sqlite:payments.sqlite" }
            deadline: 20s
            processors:
              - { name: radial, kind: radial, url: "\(radial)", headers_file: headers, trust: [\(trust)], merchants: ["*"] }
            \(more)clients:
              - name: shop
                key_sha256: "\(keyHash)"
                merchants: ["*"]
                operations: [pay, status]
              - name: backend
                certificate_san: backend.shop.example
                merchants: ["*"]
                operations: [decrypt, pay, status]
            log: { level: trace }

            """
        }

        /// Writes a certificate for the gateway and one for a client, both under the simulated Radial's root.
        private static func writeCertificates(in directory: FreshDirectory) async throws {
            for (name, subject) in [("gateway", "IP:127.0.0.1"), ("backend", "DNS:backend.shop.example")] {
                try directory.write("subjectAltName=\(subject)\n", to: "\(name).ext")
                try await directory.openssl(
                    "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=\(name) -keyout \(name).key "
                        + "-out \(name).csr")
                try await directory.openssl(
                    "x509 -req -in \(name).csr -CA root.crt -CAkey root.key -CAcreateserial -extfile \(name).ext "
                        + "-days 30 -out \(name).crt")
            }
        }

        enum Client {
            case key, certificate, nobody
        }

        func ask(_ path: String, _ body: String? = nil, as client: Client = .key) async throws -> CurlAnswer {
            var arguments = ["--cacert", directory.path("root.crt")]
            switch client {
            case .key: arguments += ["--header", "Authorization: Bearer \(key)"]
            case .certificate:
                arguments += ["--cert", directory.path("backend.crt"), "--key", directory.path("backend.key")]
            case .nobody: break
            }
            return try await Curl.request(
                path, socket: nil, origin: origin.current, body: body.map { Array($0.utf8) }, contentType: "text/xml",
                arguments: arguments)
        }

        func token(_ payload: PayloadRecipe) throws -> MintedToken {
            try SharedForge.mint.mint(TokenRecipe(merchant: merchant.merchant, payload: payload.json))
        }

        func command(_ arguments: String...) async throws -> ProgramResult {
            try await Program.run(
                Program.built("paytoken-gateway"), ["payment"] + arguments + ["--socket", directory.path("a")])
        }

        func metrics() async throws -> CurlAnswer {
            try await Curl.request("/metrics", socket: directory.path("a"))
        }

        var log: String { gateway.current?.error ?? "" }
    }

    private static let namespace = "xmlns=\"http://api.gsicommerce.com/schema/checkout/1.0\""

    /// Returns the XML elements of a payment token, as in Radial's example documents.
    private static func elements(_ token: MintedToken) throws -> String {
        let data = try #require(JSONValue(parsing: token.paymentData).objectValue)
        let header = try #require(data["header"]?.objectValue)
        func text(_ name: String) -> String { (data[name] ?? header[name])?.stringValue ?? "" }
        return """
            <ApplePayTransactionId>\(text("transactionId"))</ApplePayTransactionId>
            <EphemeralPublicKey>\(text("ephemeralPublicKey"))</EphemeralPublicKey>
            <PublicKeyHash>\(text("publicKeyHash"))</PublicKeyHash><Version>\(text("version"))</Version>
            <Data>\(text("data"))</Data><Signature>\(text("signature"))</Signature>
            """
    }

    private static func wallet(_ token: MintedToken) throws -> String {
        "<WalletPaymentInformation \(namespace)>\(try elements(token))</WalletPaymentInformation>"
    }

    private static func request(_ token: MintedToken, orderId: String) throws -> String {
        let address = "<Line1>123 Main St</Line1><City>Philadelphia</City><CountryCode>US</CountryCode>"
        return """
            <CreditCardAuthRequest \(namespace)>
            <WalletPaymentInformation>\(try elements(token))</WalletPaymentInformation><OrderId>\(orderId)</OrderId>
            <BillingFirstName>John</BillingFirstName><BillingLastName>Smith</BillingLastName>
            <BillingPhoneNo>6101234567</BillingPhoneNo><BillingAddress>\(address)</BillingAddress>
            <CustomerEmail>customer@sample.com</CustomerEmail><CustomerIPAddress>208.247.73.130</CustomerIPAddress>
            <ShipToFirstName>John</ShipToFirstName><ShipToLastName>Smith</ShipToLastName>
            <ShippingAddress>\(address)</ShippingAddress><SchemaVersion>1.2</SchemaVersion>
            </CreditCardAuthRequest>
            """
    }

    private static func payload(_ cents: Int) -> PayloadRecipe {
        var payload = PayloadRecipe()
        payload.amount = "\(1000 + cents)"
        return payload
    }

    private static func element(_ name: String, of answer: CurlAnswer) -> String {
        SimulatedRadialService.element(name, of: answer.text)
    }

    @Test("submits a payment in Radial's XML once to Radial with the decrypted data, and returns Radial's reply")
    func approvedPayment() async throws {
        let shop = try await Shop()
        let payload = Self.payload(0)
        let token = try shop.token(payload)
        let document = try Self.request(token, orderId: "order-1")
        for _ in 1...2 {
            let answer = try await shop.ask("/radial/credit-card-auth", document)
            #expect(answer.status == 200 && answer.header("Content-Type") == "text/xml", "\(answer)")
            for (name, value) in [
                ("ResponseCode", "APPROVED"), ("AuthorizationResponseCode", "AP01"),
                ("BankAuthorizationCode", "614653"),
                ("AVSResponseCode", "E"), ("AmountAuthorized", "10.00"), ("TenderType", "VC"), ("OrderId", "order-1"),
                ("PaymentAccountUniqueId", SimulatedRadialService.token),
            ] { #expect(Self.element(name, of: answer) == value, "\(name)") }
        }
        let sent = try #require(shop.radial.requests.first)
        #expect(shop.radial.requests.count == 1)
        #expect(sent.target == "/v1.0/stores/S1/payments/creditcard/auth/VC.xml")
        #expect(sent.headers.contains("apikey: k-of-the-store"))
        #expect(
            sent.body.contains("<PaymentAccountUniqueId isToken=\"false\">\(payload.accountNumber)<")
                && SimulatedRadialService.element("ExpirationDate", of: sent.body) == "2029-12"
                && SimulatedRadialService.element("Amount", of: sent.body) == "10.00")
        let cryptogram = payload.cryptogram.map { String(format: "%02X", $0) }.joined()
        #expect(SimulatedRadialService.element("CavvUcaf", of: sent.body) == cryptogram)
        let status = try await shop.ask("/payments/apple-pay/\(token.transactionIdentifier)")
        #expect(status.string("status") == "authorized" && status.string("authorizationCode") == "614653")
        // Another client with the same document learns nothing and cannot pay.
        let other = try await shop.ask("/radial/credit-card-auth", document, as: .certificate)
        #expect(other.status == 409 && Self.element("Code", of: other) == "transaction_replayed", "\(other)")
        #expect(shop.radial.requests.count == 1)
    }

    @Test(
        "submits nothing twice for any behaviour of Radial, and reports an unknown outcome as unknown"
    )
    func everyOutcome() async throws {
        let shop = try await Shop()
        typealias Cents = SimulatedRadialService.Cents
        // For each amount: the HTTP status, the ResponseCode of the reply or the Code of the Fault, the payment's
        // state, and the reason.
        let rows: [(cents: Int, status: Int, told: String, state: String, reason: String)] = [
            (Cents.declined, 200, "DECL", "declined", "Code=DECL Auth=ND01"),
            (Cents.timeout, 200, "TIMEOUT", "pending", "Code=TIMEOUT Auth=TO01"),
            (Cents.notTokenized, 503, "payment_pending", "pending", "account_number_not_tokenized"),
            (Cents.cut, 503, "payment_pending", "pending", "connection_lost"),
            (Cents.fault, 503, "payment_pending", "pending", "InvalidPan"),
            (Cents.unauthorized, 503, "payment_pending", "pending", "answer_not_understood"),
        ]
        for row in rows {
            let payload = Self.payload(row.cents)
            let token = try shop.token(payload)
            let document = try Self.request(token, orderId: "order-\(row.cents)")
            for _ in 1...3 {
                let answer = try await shop.ask("/radial/credit-card-auth", document)
                let told = answer.status == 200 ? "ResponseCode" : "Code"
                #expect(answer.status == row.status && Self.element(told, of: answer) == row.told, "\(answer)")
                #expect(!answer.text.contains(payload.accountNumber))
            }
            let status = try await shop.ask("/payments/apple-pay/\(token.transactionIdentifier)")
            #expect(status.string("status") == row.state, "\(status)")
            let shown = try await shop.command("show", token.transactionIdentifier)
            #expect(shown.output.contains(row.reason) && !shown.output.contains(payload.accountNumber), "\(shown)")
        }
        #expect(shop.radial.submissions == Dictionary(uniqueKeysWithValues: rows.map { ("order-\($0.cents)", 1) }))
        let metrics = try await shop.metrics()
        for reason in ["account_number_not_tokenized", "connection_lost", "answer_not_understood"] {
            #expect(
                metrics.metric("paytoken_gateway_submissions_in_doubt_total", ["reason=\"\(reason)\""]) == [1])
        }
        let alarms = shop.log.split(separator: "\n").filter { $0.contains("account_number_not_tokenized") }
        #expect(alarms.contains { $0.contains("\"level\":\"error\"") }, "\(alarms)")
    }

    @Test(
        "sends nothing to a server with the wrong name or root, and permits another attempt",
        arguments: [("127.0.0.1", "root.crt"), ("localhost", "gateway.crt")])
    func anotherServer(host: String, trust: String) async throws {
        let shop = try await Shop(host: host, trust: trust)
        let token = try shop.token(Self.payload(0))
        for _ in 1...2 {
            let answer = try await shop.ask("/radial/credit-card-auth", Self.request(token, orderId: "order-1"))
            #expect(answer.status == 503 && Self.element("Code", of: answer) == "processor_unavailable", "\(answer)")
            #expect(answer.text.contains("handshake_failed"), "\(answer)")
        }
        #expect(shop.radial.requests.isEmpty)
        #expect(try await shop.command("show", token.transactionIdentifier).output.contains("not_sent"))
    }

    @Test("returns decrypted data once, to the client with the certificate, and never pays with that payment token")
    func decrypt() async throws {
        let shop = try await Shop()
        let payload = Self.payload(0)
        let token = try shop.token(payload)
        let document = try Self.wallet(token)
        for (client, status) in [(Shop.Client.key, 403), (.nobody, 401)] {
            let refused = try await shop.ask("/radial/decrypt", document, as: client)
            #expect(refused.status == status && !refused.text.contains(payload.accountNumber), "\(refused.status)")
        }
        let answer = try await shop.ask("/radial/decrypt", document, as: .certificate)
        #expect(answer.status == 200 && answer.header("Cache-Control") == "no-store", "\(answer.status)")
        #expect(answer.string("applicationPrimaryAccountNumber") == payload.accountNumber)
        let again = try await shop.ask("/radial/decrypt", document, as: .certificate)
        #expect(again.status == 409 && !again.text.contains(payload.accountNumber))
        let order = try Self.request(token, orderId: "order-1")
        for (client, code) in [(Shop.Client.certificate, "token_used_differently"), (.key, "transaction_replayed")] {
            let paid = try await shop.ask("/radial/credit-card-auth", order, as: client)
            #expect(Self.element("Code", of: paid) == code, "\(paid)")
        }
        #expect(shop.radial.requests.isEmpty)
        #expect(try await shop.command("show", token.transactionIdentifier).output.contains("released"))
        // The gateway also refuses to return the data of a payment token that was paid.
        let paid = try shop.token(Self.payload(1))
        let first = try await shop.ask(
            "/radial/credit-card-auth", Self.request(paid, orderId: "order-2"), as: .certificate)
        #expect(first.status == 200, "\(first)")
        let refused = try await shop.ask("/radial/decrypt", Self.wallet(paid), as: .certificate)
        #expect(refused.status == 422 && Self.element("Code", of: refused) == "token_used_differently", "\(refused)")
    }

    @Test(
        "returns no data and pays nothing a second time after the store was restored from a copy")
    func restoredStore() async throws {
        let shop = try await Shop()
        try await shop.stopGateway()
        let store = shop.directory.path("payments.sqlite")
        try FileManager.default.copyItem(atPath: store, toPath: store + ".copy")
        try await shop.startGateway()
        let (released, paid) = try (shop.token(Self.payload(0)), shop.token(Self.payload(1)))
        func requests() async throws -> [CurlAnswer] {
            [
                try await shop.ask("/radial/decrypt", Self.wallet(released), as: .certificate),
                try await shop.ask(
                    "/radial/credit-card-auth", Self.request(paid, orderId: "order-1"), as: .certificate),
            ]
        }
        #expect(try await requests().map(\.status) == [200, 200])
        try await shop.stopGateway()
        for name in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: store + name) }
        try FileManager.default.moveItem(atPath: store + ".copy", toPath: store)
        try await shop.startGateway()
        let answers = try await requests()
        #expect(answers.map(\.status) == [409, 409], "\(answers.map(\.status))")
        #expect(answers.allSatisfy { Self.element("Code", of: $0) == "transaction_replayed" })
        // The gateway also refuses to decrypt the payment token that was paid, and to pay with the one that was
        // decrypted.
        let swapped = [
            try await shop.ask("/radial/decrypt", Self.wallet(paid), as: .certificate),
            try await shop.ask(
                "/radial/credit-card-auth", Self.request(released, orderId: "order-2"), as: .certificate),
        ]
        #expect(swapped.allSatisfy { [409, 422].contains($0.status) }, "\(swapped.map(\.status))")
        #expect(shop.radial.submissions == ["order-1": 1])
    }

    @Test("writes no card data to the gateway's logs, store, metrics and lists")
    func secrecy() async throws {
        let shop = try await Shop()
        var secrets: [String] = []
        for cents in [0, SimulatedRadialService.Cents.notTokenized, SimulatedRadialService.Cents.fault] {
            var payload = Self.payload(cents)
            payload.cardholderName = "Secretive Cardholder"
            secrets += payload.secrets + [payload.cryptogram.map { String(format: "%02X", $0) }.joined()]
            _ = try await shop.ask(
                "/radial/credit-card-auth", Self.request(shop.token(payload), orderId: "order-\(cents)"))
        }
        var released = Self.payload(2)
        released.cardholderName = "Secretive Cardholder"
        secrets += released.secrets + ["Secretive Cardholder", "6101234567", "customer@sample.com", "k-of-the-store"]
        #expect(
            try await shop.ask("/radial/decrypt", Self.wallet(shop.token(released)), as: .certificate).status == 200)
        let list = try await shop.command("list", "--output", "json")
        let store = ["", "-wal"].flatMap { suffix in
            [UInt8]((try? Data(contentsOf: URL(filePath: shop.directory.path("payments.sqlite" + suffix)))) ?? Data())
        }
        let written: [(String, [UInt8])] = [
            ("the log", Array(shop.log.utf8)), ("metrics", try await shop.metrics().body),
            ("a list", list.outputBytes), ("the store", store),
        ]
        #expect(written.allSatisfy { !$0.1.isEmpty })
        for (place, bytes) in written {
            for secret in secrets {
                #expect(Data(bytes).range(of: Data(secret.utf8)) == nil, "a secret in \(place)")
            }
        }
    }

    @Test("warns in --check that Radial was never tried, and refuses a simulator next to Radial unless allowed")
    func checkWarnings() async throws {
        let shop = try await Shop()
        func check(_ more: String) async throws -> ProgramResult {
            try shop.directory.write(
                Shop.configuration(
                    keyHash: String(repeating: "0", count: 64), paytokend: shop.harness.socket,
                    radial: shop.radial.url(), more: more), to: "other.yaml")
            return try await Program.run(
                Program.built("paytoken-gateway"), ["--config", shop.directory.path("other.yaml"), "--check"])
        }
        let alone = try await check("")
        #expect(alone.status == 0 && alone.error.contains("never tested against Radial"), "\(alone)")
        let simulator = "  - { name: s, kind: simulator, url: \"unix:/s\", merchants: [\"*\"]"
        let beside = try await check(simulator + " }\n")
        #expect(
            beside.status == 78 && beside.error.contains("is a simulator next to a processor that moves money"),
            "\(beside)")
        #expect(try await check(simulator + ", beside_real: true }\n").status == 0)
    }
}
