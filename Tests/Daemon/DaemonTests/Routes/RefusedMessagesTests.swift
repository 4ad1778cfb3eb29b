import Foundation
import Ledger
import PaymentToken
import Testing

@testable import Daemon

/// The memory of Google Pay messages that were refused after their decryption.
@Suite struct RefusedMessagesTests {
    private let messages: [TransactionIdentifier]

    init() throws {
        messages = try (0..<4).map { number in
            try #require(TransactionIdentifier(bytes: [UInt8](repeating: UInt8(number), count: 32)))
        }
    }

    private func useUp(
        _ message: Int, for caller: String = "shop", leaving: Int = 0, in refused: RefusedMessages
    ) {
        for _ in leaving..<Release.maximumRepeats { refused.count(.panOnly, of: messages[message], for: caller) }
    }

    @Test("counts each message of each caller by itself, up to the hundred")
    func each() {
        let refused = RefusedMessages()
        useUp(0, leaving: 1, in: refused)
        #expect(refused.usedUp(messages[0], for: "shop") == nil)
        refused.count(.panOnly, of: messages[0], for: "shop")
        #expect(refused.usedUp(messages[0], for: "shop") == .panOnly)
        #expect(refused.usedUp(messages[0], for: "other") == nil)
        #expect(refused.usedUp(messages[1], for: "shop") == nil)
    }

    @Test("remembers a bounded number of messages, and forgets the oldest")
    func bounded() {
        let refused = RefusedMessages(capacity: 3)
        for message in 0..<3 { useUp(message, in: refused) }
        // A further refusal makes a message no newer.
        refused.count(.panOnly, of: messages[0], for: "shop")
        refused.count(.panOnly, of: messages[3], for: "shop")
        // Refusals for the times do not make it forget the counts.
        for message in messages { refused.remember(.now, .panOnly, of: message, for: "shop") }
        #expect(messages.map { refused.usedUp($0, for: "shop") } == [nil, .panOnly, .panOnly, nil])
        #expect(messages.map { refused.refusedForTimes($0, for: "shop") == nil } == [true, false, false, false])
    }

    @Test("remembers the expiration of each message for the caller whose request was refused, and counts it as no kind")
    func expirations() {
        let refused = RefusedMessages()
        let end = Date(timeIntervalSince1970: 1_000_000_000)
        useUp(0, leaving: 1, in: refused)
        refused.remember(end, .panOnly, of: messages[0], for: "shop")
        #expect(refused.usedUp(messages[0], for: "shop") == nil)
        refused.count(.panOnly, of: messages[0], for: "shop")
        #expect(refused.usedUp(messages[0], for: "shop") == .panOnly)
        #expect(refused.refusedForTimes(messages[0], for: "shop")?.expiration == end)
        #expect(refused.refusedForTimes(messages[0], for: "other") == nil)
        #expect(refused.refusedForTimes(messages[1], for: "shop") == nil)
    }
}
