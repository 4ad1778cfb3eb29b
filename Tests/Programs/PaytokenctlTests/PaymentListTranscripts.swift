import TestSupport
import Testing

@Suite("Transcripts: the gateway's payments")
struct PaymentListTranscripts {
    static let payment = """
        {"amount":"10.99","authorizationCode":null,"changedAt":"2026-01-31T12:00:00Z","client":"shop","currency":"USD",\
        "gateway":"g","merchantIdentifier":null,"orderId":"17","processor":null,"processorReference":null,\
        "purpose":"payment","reason":null,"receivedAt":"2026-01-31T12:00:00Z","state":"captured","transactionId":null}
        """

    private static func list(_ arguments: [String] = [], items: String) async throws -> ProgramResult {
        let gateway = try await FakeDaemon(["POST /v1/payments/list": .ok(#"{"items":[\#(items)]}"#)])
        return try await Program.run(
            Program.built("paytoken-gateway"), ["payment", "list", "--socket", gateway.path] + arguments)
    }

    @Test("aligns the columns of payment list")
    func payments() async throws {
        let result = try await Self.list(items: Self.payment)
        #expect(result.status == 0 && result.error.isEmpty, "\(result)")
        #expect(
            result.output == """
                RECEIVED              STATE     AMOUNT     CLIENT  ORDER  PROCESSOR  TRANSACTION  REASON
                2026-01-31T12:00:00Z  captured  10.99 USD  shop    17     -          -

                """)
    }

    @Test("says that there are no payments, without a table heading")
    func empty() async throws {
        let none = try await Self.list(items: "")
        #expect(none.status == 0 && none.output.isEmpty && none.error == "There are no payments.\n", "\(none)")
        let unfit = try await Self.list(["--state", "pending"], items: "")
        #expect(unfit.status == 0 && unfit.error == "No payment matches these conditions.\n", "\(unfit)")
        let json = try await Self.list(["--output", "json"], items: "")
        #expect(json.output == "{\"items\":[]}\n" && json.error.isEmpty, "\(json)")
    }
}
