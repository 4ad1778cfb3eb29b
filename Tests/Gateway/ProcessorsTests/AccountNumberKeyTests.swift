import Payments
import Processors
import SecretMemory
import Testing

@Suite("Account numbers found by a keyed digest")
struct AccountNumberKeyTests {
    private let key = AccountNumberKey(SecretBytes(copying: [UInt8](repeating: 1, count: 32)))

    private func secret(_ number: String) -> SecretBytes { SecretBytes(copying: Array(number.utf8)) }

    private func transaction(_ number: String, _ byte: UInt8 = 9) -> PaymentTransaction {
        let identifier = [UInt8](repeating: byte, count: 32)
        return PaymentTransaction(
            identifier: identifier, merchantIdentifier: "m", amount: nil, processor: "p",
            accountDigest: key.digest(of: secret(number), in: identifier))
    }

    @Test(
        "finds the payment's account number inside longer sequences of digits, with a valid or invalid check digit",
        arguments: ["4111111111111112", "41111111", "6304000000000000001"])
    func found(_ number: String) {
        let half = number.count / 2
        for text in [
            number, "00" + number, number + "123", "ref 7/" + number.prefix(half) + "x" + number.dropFirst(half) + "7",
        ] {
            let outcome = PaymentOutcome(reason: text, authorizationCode: text, processorReference: text)
            let masked = key.masked(outcome, of: transaction(number))
            #expect(masked.maskedTexts.isEmpty == (number.count < 12))
            for shown in [masked.reason, masked.authorizationCode, masked.processorReference] {
                #expect(shown?.filter(\.isNumber).count == 4, "\(text)")
            }
        }
    }

    @Test("finds neither another account number, nor one with another payment's digest or another gateway's key")
    func others() {
        let outcome = PaymentOutcome(reason: "7 4111111111111112", authorizationCode: "41", processorReference: "")
        #expect(key.masked(outcome, of: transaction("4111111111111112")) != outcome)
        #expect(key.masked(outcome, of: transaction("4111111111111113")) == outcome)
        let other = AccountNumberKey(SecretBytes(copying: [UInt8](repeating: 2, count: 32)))
        #expect(other.masked(outcome, of: transaction("4111111111111112")) == outcome && other.name != key.name)
        let moved = PaymentTransaction(
            identifier: [UInt8](repeating: 8, count: 32), merchantIdentifier: "m", amount: nil, processor: "p",
            accountDigest: transaction("4111111111111112").accountDigest)
        #expect(key.masked(outcome, of: moved) == outcome)
        let without = PaymentTransaction(
            identifier: moved.identifier, merchantIdentifier: "m", amount: nil, processor: "p")
        #expect(key.masked(outcome, of: without) == outcome)
    }

    @Test("makes digests of the stored length, which differ for two payments with the same card")
    func digests() {
        let (one, other) = (
            transaction("4111111111111112").accountDigest, transaction("4111111111111112", 8).accountDigest
        )
        #expect(one?.count == PaymentTransaction.accountDigestByteCount && one?.first == 16)
        #expect(one?.dropFirst() != other?.dropFirst())
    }
}
