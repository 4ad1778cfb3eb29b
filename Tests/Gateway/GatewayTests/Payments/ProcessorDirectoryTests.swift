import ConfigurationFile
import Payments
import TestSupport
import Testing

@testable import Gateway
@testable import Processors

/// The selection of the processors whose rules a request must follow before paytokend has determined the merchant.
@Suite("Candidate processors of a request")
struct ProcessorDirectoryTests {
    /// A processor that requires an order of at most three characters.
    private struct Strict: Processor {
        let capabilities = ProcessorCapabilities(needs: [.orderId])

        func unsuitable(_ customer: Customer, orderId: String?) -> [UnsuitableElement] {
            (orderId ?? "").utf8.count > 3 ? [UnsuitableElement(.orderId, "too long")] : []
        }

        func authorize(
            _ submission: Submission, before deadline: ContinuousClock.Instant, late: @escaping LateOutcome
        ) async -> SubmissionOutcome { .notSent(.tooLate) }
    }

    private let directory = ProcessorDirectory(processors: [
        ConfiguredProcessor(
            name: "easy", merchants: [MerchantPattern("merchant.easy")],
            processor: ScriptedProcessor([.notSent(.tooLate)])),
        ConfiguredProcessor(name: "strict", merchants: [MerchantPattern("*")], processor: Strict()),
    ])

    private func client(_ merchants: [String]) -> GatewayClient {
        GatewayClient(
            name: "shop", credentials: [.bearerKey(sha256: [])], operations: [.pay],
            merchants: merchants.map { MerchantPattern($0) }, domains: [])
    }

    @Test(
        "are those of the client's merchants if named, otherwise all",
        arguments: [
            (["merchant.easy"], String?.none, false), (["merchant.other"], nil, true),
            (["merchant.easy", "merchant.other"], nil, true), (["merchant.*"], nil, true),
            (["merchant.*"], "merchant.easy", false), (["merchant.*"], "merchant.other", true),
        ])
    func candidates(merchants: [String], stated: String?, areStrict: Bool) throws {
        let expected = stated.map { #"{"merchantIdentifier":"\#($0)"}"# } ?? "{}"
        let request = try PaymentRequest(parsing: RadialDocument().submission(expected: expected), of: .applePay)
        let found = directory.candidates(for: client(merchants), request.walletRequest)
        #expect(found.requiredElements == (areStrict ? [.orderId] : []))
        #expect(
            found.unsuitableElements(Customer(), orderId: "1234")
                == (areStrict ? [UnsuitableElement(.orderId, "too long")] : []))
    }
}
