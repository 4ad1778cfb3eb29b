import Encodings
package import Payments
import StrictJSON

/// The content of a submission that the simulator keeps, without card data.
package struct Submission: Sendable, Equatable {
    /// The payment's name, which is the payment token's transactionId in 64 lower-case hexadecimal digits.
    package let payment: String
    package let amount: Amount

    package init(payment: String, amount: Amount) {
        (self.payment, self.amount) = (payment, amount)
    }

    var scenario: Scenario { Scenario(minorUnits: amount.minorUnits) }
}

/// The reason why a body is not a submission. Callers receive it, so it names members but never contains their values.
package struct MalformedSubmission: Error, Sendable, Equatable {
    package let message: String
}

extension Submission {
    /// Reads the body of `POST /authorizations`. The forms of account number, expiration and cryptogram are checked,
    /// and their values are discarded. Unknown members are ignored.
    package init(body: [UInt8]) throws(MalformedSubmission) {
        let members = try Members(body)
        payment = try members.string("payment")
        guard Self.isPayment(payment) else { throw Members.refusal("payment", "64 lower-case hexadecimal digits") }
        guard let currency = Currency(letters: try members.string("currency")) else {
            throw Members.refusal("currency", "three capital letters of ISO 4217")
        }
        guard let amount = Amount(decimal: try members.string("amount"), currency: currency) else {
            throw Members.refusal("amount", "a decimal in major units such as 10.99, as a string")
        }
        guard let minorUnits = members.integer("minorUnits") else {
            throw Members.refusal("minorUnits", "the amount in minor units, a whole number")
        }
        // The body states the amount as a decimal and in minor units. They differ if the client used the wrong number
        // of decimals.
        guard minorUnits == Int(amount.minorUnits) else {
            throw MalformedSubmission(message: "amount and minorUnits are different amounts in this currency.")
        }
        self.amount = amount
        try members.checkCard()
    }

    /// Returns true if the text can be a payment's name.
    package static func isPayment(_ text: String) -> Bool {
        text.utf8.count == 64 && Hexadecimal.isLowerCase(text.utf8)
    }
}

private struct Members {
    private let object: JSONObject

    init(_ body: [UInt8]) throws(MalformedSubmission) {
        do throws(JSONError) {
            guard let object = try JSONValue(parsing: body).objectValue else {
                throw JSONError(kind: .syntax, offset: 0)
            }
            self.object = object
        } catch {
            throw MalformedSubmission(message: "The body is not a JSON object: \(error).")
        }
    }

    static func refusal(_ member: String, _ form: String) -> MalformedSubmission {
        MalformedSubmission(message: "\(member) is needed: \(form).")
    }

    func string(_ member: String) throws(MalformedSubmission) -> String {
        guard let text = object[member]?.stringValue else { throw Self.refusal(member, "a string") }
        return text
    }

    func integer(_ member: String) -> Int? { object[member]?.numberValue?.int }

    func checkCard() throws(MalformedSubmission) {
        guard isDigits(try string("accountNumber"), 12...19) else {
            throw Self.refusal("accountNumber", "12 to 19 digits")
        }
        let expiration = Array(try string("expirationDate").utf8)
        guard isDigits(try string("expirationDate"), 6...6), (1...12).contains(twoDigits(expiration[2...3])),
            (1...31).contains(twoDigits(expiration[4...5]))
        else { throw Self.refusal("expirationDate", "YYMMDD") }
        // A card's own number comes without a cryptogram, and says so.
        if object["isCardNumberOnly"]?.boolValue == true, object["cryptogram"] == nil { return }
        let cryptogram = try string("cryptogram")
        guard (1...256).contains(cryptogram.utf8.count), Base64.decode(cryptogram) != nil else {
            throw Self.refusal("cryptogram", "base64")
        }
        if let indicator = object["eciIndicator"], !indicator.isNull {
            guard let text = indicator.stringValue, isDigits(text, 1...2) else {
                throw MalformedSubmission(message: "eciIndicator is one or two digits, as a string.")
            }
        }
    }

    private func isDigits(_ text: String, _ count: ClosedRange<Int>) -> Bool {
        count.contains(text.utf8.count)
            && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    private func twoDigits(_ digits: ArraySlice<UInt8>) -> Int {
        digits.reduce(0) { $0 * 10 + Int($1) - Int(UInt8(ascii: "0")) }
    }
}
