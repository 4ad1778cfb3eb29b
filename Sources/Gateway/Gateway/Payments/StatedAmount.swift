import Payments
import StrictJSON

// The reading of amounts and currencies that a client states, in the requests of both wallets.

extension Currency {
    /// Reads a currency.
    ///
    /// - Parameter name: the member's name in the request, for messages.
    /// - Throws: `malformed_request`, or `currency_unknown`.
    init(stated value: JSONValue, in name: String) throws(GatewayRefusal) {
        guard let letters = value.stringValue else { throw PaymentRequest.malformedMember(name, "is not a string") }
        guard let currency = Currency(letters: letters) else {
            throw GatewayRefusal(
                .payment(.currencyUnknown),
                "\(name) is not a currency of ISO 4217 in capital letters, such as USD.", details: name)
        }
        self = currency
    }
}

extension Amount {
    /// Reads an amount in major units.
    ///
    /// - Parameter name: the member's name in the request, for messages.
    /// - Throws: `malformed_request`.
    init(stated value: JSONValue, in name: String, currency: Currency) throws(GatewayRefusal) {
        guard let text = value.stringValue, let amount = Amount(decimal: text, currency: currency) else {
            throw PaymentRequest.malformedMember(
                name,
                "is not a decimal in a string, in major units, with at most \(currency.decimals) decimals, as in "
                    + (currency.decimals == 0 ? "\"1000\"" : "\"10.99\""))
        }
        self = amount
    }
}
