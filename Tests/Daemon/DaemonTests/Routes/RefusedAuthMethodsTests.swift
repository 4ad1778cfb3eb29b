import Ledger
import PaymentToken
import Testing

@testable import Daemon

/// The counts of Google Pay messages that were refused for their kind of card number.
@Suite struct RefusedAuthMethodsTests {
    private let messages: [TransactionIdentifier]

    init() throws {
        messages = try (0..<4).map { number in
            try #require(TransactionIdentifier(bytes: [UInt8](repeating: UInt8(number), count: 32)))
        }
    }

    private func useUp(
        _ message: Int, for caller: String = "shop", leaving: Int = 0, in refused: RefusedAuthMethods
    ) {
        for _ in leaving..<Release.maximumRepeats { refused.count(.panOnly, of: messages[message], for: caller) }
    }

    @Test("counts each message of each caller by itself, up to the hundred")
    func each() {
        let refused = RefusedAuthMethods()
        useUp(0, leaving: 1, in: refused)
        #expect(refused.usedUp(messages[0], for: "shop") == nil)
        refused.count(.panOnly, of: messages[0], for: "shop")
        #expect(refused.usedUp(messages[0], for: "shop") == .panOnly)
        #expect(refused.usedUp(messages[0], for: "other") == nil)
        #expect(refused.usedUp(messages[1], for: "shop") == nil)
    }

    @Test("remembers a bounded number of messages, and forgets the oldest")
    func bounded() {
        let refused = RefusedAuthMethods(capacity: 3)
        for message in 0..<3 { useUp(message, in: refused) }
        // A further refusal makes a message no newer.
        refused.count(.panOnly, of: messages[0], for: "shop")
        refused.count(.panOnly, of: messages[3], for: "shop")
        #expect(messages.map { refused.usedUp($0, for: "shop") } == [nil, .panOnly, .panOnly, nil])
    }
}
