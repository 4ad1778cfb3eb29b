import Crypto
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

extension PaymentTests {
    /// A wallet in which the tests pay. The raw value is its name in the gateway's paths.
    enum ShopWallet: String, CaseIterable, Sendable {
        case applePay = "apple-pay"
        case googlePay = "google-pay"
    }

    /// A payment token of a shop's wallet.
    struct ShopToken: Sendable {
        let transactionIdentifier: String
        let json: [UInt8]
    }

    /// paytokend, a gateway that uses it, and a simulator to which the gateway submits payments.
    final class Shop: Sendable {
        let wallet: ShopWallet
        /// Google and the merchant's key, in a shop with Google Pay.
        private let google = GooglePayDecryptionTests()
        private let googleKey: [UInt8]
        let harness: DaemonHarness
        let merchant: ForgedMerchant
        let directory: FreshDirectory
        let keys: [String: String]
        private let gateway: Shared<RunningProgram?>
        private let simulator: Shared<RunningProgram?>

        /// - Parameters:
        ///   - wallet: the wallet of ``token(_:)`` and ``request(_:orderId:of:)``. Apple Pay is always possible too.
        ///   - deadline: the gateway's time limit for a payment.
        init(_ wallet: ShopWallet = .applePay, deadline: String = "20s") async throws {
            self.wallet = wallet
            var configuration = DaemonConfiguration()
            configuration.logLevel = "trace"
            let googlePay = "google_pay: { merchants: [\(GooglePayDecryptionTests.merchant)]"
            switch wallet {
            case .applePay:
                harness = try await DaemonHarness(configuration)
                googleKey = []
            case .googlePay:
                configuration.googlePay = "google.json"
                configuration.access = [
                    """
                    { name: checkout, user: "\(geteuid())", roles: [decrypt, audit, admin], \
                    wallets: [apple-pay, google-pay], \(googlePay), auth_methods: [CRYPTOGRAM_3DS, PAN_ONLY] } }
                    """
                ]
                harness = try await DaemonHarness(prepared: configuration)
                try harness.directory.write(google.forge.rootKeys(expiration: google.nextWeek), to: "google.json")
                try await harness.start()
                googleKey = try await google.key(harness).point
            }
            merchant = try SharedForge.ecMerchant
            let imported = try await harness.importMerchant(merchant)
            try #require(imported.status == 0, "\(imported)")
            directory = try FreshDirectory()
            var (keys, clients): ([String: String], String) = ([:], "")
            for (client, merchants) in [("shop", "*"), ("other", "*"), ("outsider", "merchant.com.outsider.*")] {
                let made = try await Program.run(Program.built("paytoken-gateway"), ["new-key", "--output", "json"])
                let newKey = try #require(try JSONValue(parsing: made.outputBytes).objectValue)
                keys[client] = try #require(newKey["key"]?.stringValue)
                clients += """
                      - name: \(client)
                        key_sha256: "\(newKey["key_sha256"]?.stringValue ?? "")"
                        merchants: ["\(merchants)"]
                        operations: [pay, status]\(client == "outsider" || wallet == .applePay ? "" : "\n    \(googlePay) }")

                    """
            }
            self.keys = keys
            try directory.write(
                """
                listener: { address: "unix:g" }
                admin: { socket: a }
                paytokend: { socket: "\(harness.socket)", timeout: 60s }
                limits: { requests_per_second: 10000 }
                store: { url: "sqlite:payments.sqlite" }
                deadline: \(deadline)
                processors:
                  - { name: acquirer, kind: simulator, url: "unix:\(directory.path("s"))", merchants: ["*"]\(wallet == .applePay ? "" : ", \(googlePay) }") }
                clients:
                \(clients)log: { level: trace }
                """, to: "c.yaml")
            gateway = Shared(nil)
            simulator = Shared(nil)
            try await startSimulator()
            try await startGateway()
        }

        func startSimulator() async throws {
            let program = try RunningProgram(
                Program.built("processor-simulator"),
                ["--listen", "unix:\(directory.path("s"))", "--log", directory.path("log")])
            simulator.change { $0 = program }
            let socket = directory.path("s")
            try await wait(for: "the simulator to listen") {
                FileManager.default.fileExists(atPath: socket) || !program.isRunning
            }
        }

        func startGateway() async throws {
            let program = try RunningProgram(
                Program.built("paytoken-gateway"), ["--config", directory.path("c.yaml")])
            gateway.change { $0 = program }
            try await wait(for: "the gateway to serve") { program.error.contains("\"serving\"") || !program.isRunning }
        }

        func stopGateway(by signal: Int32) async throws -> String {
            guard let program = gateway.current else { return "" }
            program.signal(signal)
            _ = try await program.result()
            return program.error
        }

        func stopSimulator() async throws {
            simulator.current?.signal(SIGKILL)
            _ = try await simulator.current?.result()
            try? FileManager.default.removeItem(atPath: directory.path("s"))
        }

        /// Returns the body of a payment request for this amount in cents.
        func request(
            _ cents: Int, orderId: String = "order-1", expecting amount: String? = nil,
            _ token: MintedToken? = nil, payload: PayloadRecipe? = nil
        ) throws -> [UInt8] {
            var recipe = payload ?? PayloadRecipe()
            recipe.amount = "\(cents)"
            let token =
                try token ?? SharedForge.mint.mint(TokenRecipe(merchant: merchant.merchant, payload: recipe.json))
            let decimal = amount ?? "\(cents / 100).\(String(format: "%02d", cents % 100))"
            return Array("{\"token\":".utf8) + token.paymentToken
                + Array(
                    ",\"orderId\":\"\(orderId)\",\"expected\":{\"amount\":\"\(decimal)\",\"currency\":\"USD\"}}".utf8)
        }

        /// Makes a payment token of the shop's wallet.
        ///
        /// - Parameters:
        ///   - cents: the amount, which Apple's payment token states.
        ///   - authMethod: the kind of card number in Google's.
        func token(_ cents: Int, authMethod: String = "CRYPTOGRAM_3DS") throws -> ShopToken {
            switch wallet {
            case .applePay:
                let minted = try SharedForge.mint.mint(
                    TokenRecipe(merchant: merchant.merchant, payload: PaymentTests.payload(cents).json))
                return ShopToken(transactionIdentifier: minted.transactionIdentifier, json: minted.paymentToken)
            case .googlePay:
                let plaintext = """
                    {"messageExpiration":"\(GooglePayText.time(google.nextWeek))","messageId":"\(UUID().uuidString)",\
                    "paymentMethod":"CARD","paymentMethodDetails":{"pan":"4111111111111111","expirationMonth":12,\
                    "expirationYear":2030,"authMethod":"\(authMethod)","cryptogram":"AgAAAAAABk4DWZ4C28yUQAAAAAA="}}
                    """
                let envelope = try google.forge.mint(
                    Array(plaintext.utf8), to: P256.KeyAgreement.PublicKey(x963Representation: googleKey),
                    recipient: "merchant:\(GooglePayDecryptionTests.merchant)", expiration: google.nextWeek)
                return ShopToken(
                    transactionIdentifier: Array(SHA256.hash(data: Data(envelope.signedMessage.utf8))).hexadecimal,
                    json: Array(envelope.json.utf8))
            }
        }

        /// Returns the body of a payment request of the shop's wallet for this amount in cents.
        func request(_ cents: Int, orderId: String = "order-1", of token: ShopToken) -> [UInt8] {
            let amount = "\"amount\":\"\(cents / 100).\(String(format: "%02d", cents % 100))\",\"currency\":\"USD\""
            let statement =
                wallet == .applePay
                ? "\"expected\":{\(amount)}"
                : "\(amount),\"merchantIdentifier\":\"\(GooglePayDecryptionTests.merchant)\""
            return Array("{\"token\":".utf8) + token.json + Array(",\"orderId\":\"\(orderId)\",\(statement)}".utf8)
        }

        func pay(
            _ body: [UInt8], as client: String = "shop", trace: String? = nil
        ) async throws -> CurlAnswer {
            try await Curl.request(
                "/payments/\(wallet.rawValue)", socket: directory.path("g"), body: body,
                arguments: ["--header", "Authorization: Bearer \(keys[client] ?? "")"]
                    + (trace.map { ["--header", "traceparent: \($0)"] } ?? []))
        }

        /// Sends a payment request in Radial's XML.
        func authorize(_ token: MintedToken, orderId: String = "order-1") async throws -> CurlAnswer {
            let data = try #require(JSONValue(parsing: token.paymentData).objectValue)
            let header = try #require(data["header"]?.objectValue)
            func text(_ name: String) -> String { (data[name] ?? header[name])?.stringValue ?? "" }
            let address = "<Line1>123 Main St</Line1><City>Philadelphia</City><CountryCode>US</CountryCode>"
            let body = """
                <CreditCardAuthRequest xmlns="http://api.gsicommerce.com/schema/checkout/1.0">
                <WalletPaymentInformation>
                <ApplePayTransactionId>\(text("transactionId"))</ApplePayTransactionId>
                <EphemeralPublicKey>\(text("ephemeralPublicKey"))</EphemeralPublicKey>
                <PublicKeyHash>\(text("publicKeyHash"))</PublicKeyHash><Version>\(text("version"))</Version>
                <Data>\(text("data"))</Data><Signature>\(text("signature"))</Signature>
                </WalletPaymentInformation><OrderId>\(orderId)</OrderId>
                <BillingFirstName>John</BillingFirstName><BillingLastName>Smith</BillingLastName>
                <BillingPhoneNo>6101234567</BillingPhoneNo><BillingAddress>\(address)</BillingAddress>
                <CustomerEmail>customer@sample.com</CustomerEmail>
                <CustomerIPAddress>208.247.73.130</CustomerIPAddress>
                <ShipToFirstName>John</ShipToFirstName><ShipToLastName>Smith</ShipToLastName>
                <ShippingAddress>\(address)</ShippingAddress><SchemaVersion>1.2</SchemaVersion>
                </CreditCardAuthRequest>
                """
            return try await Curl.request(
                "/radial/credit-card-auth", socket: directory.path("g"), body: Array(body.utf8),
                contentType: "text/xml", arguments: ["--header", "Authorization: Bearer \(keys["shop"] ?? "")"])
        }

        func status(_ transaction: String, as client: String = "shop") async throws -> CurlAnswer {
            try await Curl.request(
                "/payments/\(wallet.rawValue)/\(transaction)", socket: directory.path("g"),
                arguments: ["--header", "Authorization: Bearer \(keys[client] ?? "")"])
        }

        func command(_ arguments: String...) async throws -> ProgramResult {
            try await Program.run(
                Program.built("paytoken-gateway"), ["payment"] + arguments + ["--socket", directory.path("a")])
        }

        /// Returns the number of submissions of each payment from the simulator's log.
        func submissions() throws -> [String: Int] {
            try SimulatorLog.submissions(in: directory.path("log"))
        }
    }
}
