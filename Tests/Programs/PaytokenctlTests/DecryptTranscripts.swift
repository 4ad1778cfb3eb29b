import DaemonAPI
import Foundation
import StrictJSON
import TestSupport
import Testing

@Suite("Transcripts: decrypt and verify")
struct DecryptTranscripts {
    private let paymentToken = #"{"paymentData":{"data":"x"}}"#

    @Test("masks the account number and the cryptogram in the table of decrypt")
    func table() async throws {
        let daemon = try await FakeDaemon(["POST /v1/decrypt": .ok(Sample.decrypted)])
        let result = try await Command.paytokenctl(["decrypt", "-"], socket: daemon.path, input: paymentToken)
        #expect(result.status == 0)
        #expect(
            result.output == """
                transactionId                                    \(Sample.transaction)
                merchantIdentifier                               merchant.com.example
                publicKeyHash                                    \(Sample.hash)
                version                                          EC_v1
                signingTime                                      2026-01-31T12:00:00Z
                protection                                       C
                checked                                          currencyCode
                repeated                                         no
                paymentData.applicationPrimaryAccountNumber      ************1111
                paymentData.applicationExpirationDate            300131
                paymentData.currencyCode                         840
                paymentData.transactionAmount                    1099.0
                paymentData.deviceManufacturerIdentifier         040010030273
                paymentData.paymentDataType                      3DSecure
                paymentData.paymentData.onlinePaymentCryptogram  ********
                paymentData.paymentData.eciIndicator             7
                audit.node                                       backend-1
                audit.sequence                                   42

                """)
        #expect(result.error == "")
        #expect(!result.output.contains(Sample.accountNumber))
        #expect(!result.output.contains(Sample.cryptogram))
        #expect(
            daemon.asked == [
                .init(
                    method: "POST", target: "/v1/decrypt", contentType: "application/json",
                    body: Array(#"{"token":\#(paymentToken)}"#.utf8))
            ])
    }

    @Test("masks the output of decrypt --output json, and prints the daemon's bytes with --reveal")
    func json() async throws {
        let daemon = try await FakeDaemon(["POST /v1/decrypt": .ok(Sample.decrypted)])
        let masked = try await Command.paytokenctl(
            ["decrypt", "-", "--output", "json"], socket: daemon.path, input: paymentToken)
        let expected = Sample.decrypted.replacing(Sample.accountNumber, with: "************1111")
            .replacing(Sample.cryptogram, with: "********")
        #expect(masked.output == expected + "\n")
        let revealed = try await Command.paytokenctl(
            ["decrypt", "-", "--output", "json", "--reveal"], socket: daemon.path, input: paymentToken)
        #expect(revealed.output == Sample.decrypted + "\n")
        let shown = try await Command.paytokenctl(
            ["decrypt", "-", "--reveal"], socket: daemon.path, input: paymentToken)
        #expect(shown.output.contains(Sample.accountNumber) && shown.output.contains(Sample.cryptogram))
    }

    @Test("sends the expectations and the reference to the daemon")
    func expectations() async throws {
        let daemon = try await FakeDaemon(["POST /v1/decrypt": .ok(Sample.decrypted)])
        let file = try daemon.directory.write(paymentToken, to: "token.json")
        let data = try daemon.directory.write([1, 2, 3], to: "application-data")
        let result = try await Command.paytokenctl(
            [
                "decrypt", file, "--reference", "order-1234", "--expect-currency", "840", "--expect-amount", "1099",
                "--expect-merchant", "merchant.com.example", "--expect-application-data", data,
            ], socket: daemon.path)
        #expect(result.status == 0)
        let body = try JSONValue(parsing: #require(daemon.asked.first).body)
        let expected = """
            {"token":\(paymentToken),"expected":{"currencyCode":"840","transactionAmount":1099,"applicationData":"AQID",\
            "merchantIdentifier":"merchant.com.example"},"reference":"order-1234"}
            """
        #expect(try body == JSONValue(parsing: expected))
    }

    @Test(
        "prints a refusal's code only on standard error, and exits with the status for the code",
        arguments: [
            (422, "amount_mismatch", Int32(1)), (409, "transaction_replayed", 1), (403, "forbidden", 77),
            (503, "hsm_unavailable", 75), (503, "overloaded", 75), (500, "internal_error", 70),
            (422, "a_code_of_tomorrow", 1),
        ])
    func refusals(http: Int, code: String, status: Int32) async throws {
        let daemon = try await FakeDaemon([
            "POST /v1/decrypt": .refusal(http, code, "A sentence.", details: "more")
        ])
        let result = try await Command.paytokenctl(["decrypt", "-"], socket: daemon.path, input: paymentToken)
        #expect(result.status == status)
        #expect(result.output == "")
        let hint = code == "hsm_unavailable" ? "See: paytokenctl status\n" : ""
        #expect(result.error == "\(code): A sentence. (more)\n\(hint)")
    }

    @Test("refuses input that is not exactly one JSON document before it asks the daemon")
    func notJSON() async throws {
        let daemon = try await FakeDaemon([:])
        for input in [#"{"a":1},"expected":{}"#, #"{"a":1,"a":2}"#, "no", String(repeating: "[", count: 30000)] {
            let result = try await Command.paytokenctl(["decrypt", "-"], socket: daemon.path, input: input)
            #expect(result.status == 1)
            #expect(result.error.hasPrefix("malformed_request: Standard input is not one JSON document: "))
        }
        #expect(daemon.asked == [])
    }

    @Test("exits with 66 for an absent, empty or oversized file, and for a directory")
    func files() async throws {
        let directory = try FreshDirectory()
        let empty = try directory.write([], to: "empty")
        let large = try directory.write([UInt8](repeating: 0x20, count: 1 << 20 + 1), to: "large")
        let expected = [
            directory.path("absent"): "does not exist.", directory.path: "is a directory, not a file.",
            empty: "is empty.", large: "is larger than 1048576 bytes.",
        ]
        for (path, sentence) in expected {
            for command in ["decrypt", "verify"] {
                let result = try await Command.paytokenctl([command, path], socket: "/nowhere")
                #expect(result.status == 66)
                #expect(result.error == "\(path) \(sentence)\n")
            }
        }
    }

    @Test("shows the certificate chain with verify, and sends the time of verification")
    func verify() async throws {
        let daemon = try await FakeDaemon(["POST /v1/verify": .ok(Sample.verified)])
        let result = try await Command.paytokenctl(
            ["verify", "-", "--at", "2026-01-31T12:00:00Z"], socket: daemon.path, input: paymentToken)
        #expect(result.status == 0)
        let sha256 = String(repeating: "0f", count: 32)
        #expect(
            result.output == """
                Version        EC_v1
                transactionId  \(Sample.transaction)
                publicKeyHash  \(Sample.hash)
                Signing time   2026-01-31T12:00:00Z

                CERTIFICATE   SUBJECT  NOT BEFORE            NOT AFTER             SHA-256
                leaf          CN=leaf  2020-01-01T00:00:00Z  2040-01-01T00:00:00Z  \(sha256)
                intermediate  CN=CA    2020-01-01T00:00:00Z  2040-01-01T00:00:00Z  \(sha256)
                root          CN=root  2020-01-01T00:00:00Z  2040-01-01T00:00:00Z  \(sha256)

                """)
        let body = String(decoding: try #require(daemon.asked.first).body, as: UTF8.self)
        #expect(body == #"{"token":\#(paymentToken),"at":"2026-01-31T12:00:00Z"}"#)
        let json = try await Command.paytokenctl(
            ["verify", "-", "--output", "json"], socket: daemon.path, input: paymentToken)
        #expect(json.output == Sample.verified + "\n")
    }

    @Test(
        "recognises Google Pay's token by its members, as object and as string, and asks for its merchant",
        arguments: [#"{"protocolVersion":"ECv2"}"#, #"{"signedMessage":""}"#, #""{\"signedMessage\":\"\"}""#])
    func verifyGooglePay(token: String) async throws {
        let daemon = try await FakeDaemon(["POST /v1/google-pay/verify": .ok(Sample.verifiedGooglePay)])
        let result = try await Command.paytokenctl(
            ["verify", "-", "--merchant-identifier", "BCR2", "--at", "2026-01-31T12:00:00Z"], socket: daemon.path,
            input: token)
        #expect(result.status == 0)
        #expect(
            result.output == """
                Version        ECv2
                transactionId  \(Sample.transaction)
                Merchant       BCR2

                KEY           NOT AFTER             SHA-256
                intermediate  2030-01-01T00:00:00Z  \(String(repeating: "0e", count: 32))
                root          2038-04-14T03:00:00Z  \(String(repeating: "0f", count: 32))

                """)
        let body = String(decoding: try #require(daemon.asked.first).body, as: UTF8.self)
        #expect(body == #"{"token":\#(token),"at":"2026-01-31T12:00:00Z","merchantIdentifier":"BCR2"}"#)
        let without = try await Command.paytokenctl(["verify", "-"], socket: daemon.path, input: token)
        #expect(without.status == 64 && without.error.contains("--merchant-identifier"), "\(without)")
    }

    @Test("decrypts a payment token of Google Pay, masks its card, and states amount and currency")
    func decryptGooglePay() async throws {
        let decrypted = """
            {"transactionId":"\(Sample.transaction)","messageId":"m1","authMethod":"CRYPTOGRAM_3DS",\
            "merchantIdentifier":"12345678901234567890","publicKeyHash":"\(Sample.hash)","protection":"C",\
            "repeated":false,"paymentData":{"messageId":"m1","paymentMethodDetails":{"pan":"\(Sample.accountNumber)",\
            "expirationMonth":12,"cryptogram":"\(Sample.cryptogram)","eciIndicator":"07"}}}
            """
        let daemon = try await FakeDaemon(["POST /v1/google-pay/decrypt": .ok(decrypted)])
        let token = #"{"protocolVersion":"ECv2"}"#
        let stated = ["--merchant-identifier", "12345678901234567890", "--amount", "10.99", "--currency", "EUR"]
        let result = try await Command.paytokenctl(
            ["decrypt", "-", "--reference", "r", "--expect-auth-method", "CRYPTOGRAM_3DS"] + stated,
            socket: daemon.path, input: token)
        #expect(result.status == 0)
        #expect(
            result.output == """
                transactionId                                     \(Sample.transaction)
                messageId                                         m1
                authMethod                                        CRYPTOGRAM_3DS
                merchantIdentifier                                12345678901234567890
                publicKeyHash                                     \(Sample.hash)
                protection                                        C
                repeated                                          no
                paymentData.messageId                             m1
                paymentData.paymentMethodDetails.pan              ************1111
                paymentData.paymentMethodDetails.expirationMonth  12
                paymentData.paymentMethodDetails.cryptogram       ********
                paymentData.paymentMethodDetails.eciIndicator     07

                """)
        #expect(
            String(decoding: try #require(daemon.asked.first).body, as: UTF8.self) == """
                {"token":\(token),"merchantIdentifier":"12345678901234567890","amount":"10.99","currency":"EUR",\
                "expected":{"authMethod":"CRYPTOGRAM_3DS"},"reference":"r"}
                """)
        let revealed = try await Command.paytokenctl(
            ["decrypt", "-", "--output", "json", "--reveal"] + stated, socket: daemon.path, input: token)
        #expect(revealed.output == decrypted + "\n")
    }

    @Test(
        "refuses options of the other wallet, and Google's payment token without a statement, and asks nothing",
        arguments: [
            (#"{"protocolVersion":"ECv2"}"#, ["--amount", "1"], "give --merchant-identifier, --currency."),
            (
                #"{"protocolVersion":"ECv2"}"#, ["--expect-amount", "1", "--expect-merchant", "m"],
                "leave out --expect-amount, --expect-merchant."
            ), (#"{"paymentData":{"data":"x"}}"#, ["--currency", "EUR"], "leave out --currency."),
        ])
    func optionsOfOtherWallet(token: String, options: [String], part: String) async throws {
        let daemon = try await FakeDaemon([:])
        let result = try await Command.paytokenctl(["decrypt", "-"] + options, socket: daemon.path, input: token)
        #expect(result.status == 64 && result.error.contains(part), "\(result)")
        #expect(daemon.asked == [])
    }

    @Test("refuses a Google merchant with Apple's payment token, and asks nothing")
    func merchantOfOtherWallet() async throws {
        let daemon = try await FakeDaemon([:])
        let result = try await Command.paytokenctl(
            ["verify", "-", "--merchant-identifier", "BCR2"], socket: daemon.path, input: paymentToken)
        #expect(result.status == 64 && result.error.contains("leave out --merchant-identifier"), "\(result)")
        #expect(result.error.contains("paymentMethodData.tokenizationData.token"), "\(result)")
        #expect(daemon.asked == [])
    }
}
