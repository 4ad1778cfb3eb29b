public import Payments
public import SecretMemory

/// The CreditCardAuthRequest with decrypted data that is sent to Radial. **Never tested against Radial.**
///
/// The source of each element, in eBayEnterprise/RetailOrderManagement-SDK, Schemas/checkout/1.0, unless stated
/// otherwise:
///
/// - `Payment-Service-CreditCardAuth-1.0.xsd`: the root with requestId, and the sequence PaymentContext,
///   ExpirationDate, Amount, names, telephone numbers and addresses, CustomerEmail, CustomerIPAddress,
///   isRequestToCorrectCVVOrAVSError, SecureVerificationData. CardSecurityCode is omitted, since a payment token has
///   none.
/// - `Payment-Datatypes-1.0.xsd`: PaymentContext (OrderId, PaymentAccountUniqueId with isToken), Amount's currencyCode,
///   and SecureVerificationData. The elements of SecureVerificationData describe 3-D Secure. The message has the
///   payment token's cryptogram and ECI in CavvUcaf and ECI; AuthenticationAvailable and AuthenticationStatus are `Y`.
///   The schema also requires TransactionId (3-D Secure's XID) and PayerAuthenticationResponse. The message leaves them
///   empty, since a payment token has neither.
/// - `Checkout-Datatypes-1.0.xsd`: the address's parts, lengths of e-mail addresses and requestId, IPv4 addresses, and
///   the rule that an amount has at most two decimals.
/// - SchemaVersion is in no published schema. Radial's page "Credit Card Authorization (card not present)" has it after
///   isRequestToCorrectCVVOrAVSError, in an example without SecureVerificationData. Without SchemaVersion, a reply has
///   no ResponseCode. Except for SchemaVersion, and for cities of 36 to 40 characters, which the newer page permits,
///   the document is valid according to the published schemas.
public struct CreditCardAuthMessage: Sendable, Equatable {
    /// The identifier by which Radial recognises a repeated request, 1 to 40 characters.
    public let requestId: String
    public let orderId: String
    public let billing: CreditCardAuthRequest.Party
    public let shipTo: CreditCardAuthRequest.Party
    public let customerEmail: String
    public let customerIPAddress: String

    /// The version that the message requests for its reply.
    public static let schemaVersion = "1.2"

    /// Checks everything except the payment data. The check can therefore take place before a payment token is
    /// decrypted.
    ///
    /// - Parameter requestId: 1 to 40 characters of the caller's choice; Radial recognises repeated requests by it.
    /// - Throws: ``UnsuitableOrder`` with everything that is missing or unsuitable.
    public init(requestId: String, _ order: OrderDetails) throws(UnsuitableOrder) {
        precondition(Length.requestId.contains(requestId.unicodeScalars.count), "a requestId has 1 to 40 characters")
        var check = OrderCheck()
        let orderId = check.value(order.orderId, .orderId, Length.orderId)
        let billing = check.party(order.billing, .billing)
        let email = check.value(order.customerEmail, .customerEmail, Length.email)
        let address = check.ipv4Address(order.customerIPAddress, .customerIPAddress)
        // If nothing is shipped, the billing party is used without a second check, which would report its faults twice.
        let shipTo = order.shipTo.map { check.party($0, .shipping) } ?? billing
        guard check.faults.isEmpty, let orderId, let billing, let email, let address, let shipTo else {
            throw UnsuitableOrder(faults: check.faults)
        }
        self.requestId = requestId
        self.orderId = orderId
        self.billing = billing
        self.shipTo = shipTo
        customerEmail = email
        customerIPAddress = address
    }

    /// The reason why the decrypted data cannot be written into a message. It contains no part of the data.
    public enum PaymentDataError: Error, Sendable, Equatable {
        /// The account number is not 12 to 19 digits.
        case accountNumber
        /// The card is not a Visa, Mastercard or American Express card.
        case unknownTender
        /// The date is not six digits of year, month and day.
        case expirationDate
        /// The cryptogram is not base64, or too long for CavvUcaf.
        case cryptogram
        /// The ECI is not one or two digits.
        case eciIndicator
        /// The currency has more than two decimals.
        case currency
        /// The amount is zero.
        case amount
    }

    /// Returns the document, in secret memory.
    ///
    /// - Parameters:
    ///   - accountNumber: applicationPrimaryAccountNumber, 12 to 19 digits in ASCII.
    ///   - expirationDate: applicationExpirationDate, `YYMMDD`; Radial receives `20YY-MM`.
    ///   - cryptogram: onlinePaymentCryptogram, base64 in ASCII.
    ///   - eciIndicator: one or two digits; nil if Apple gave none.
    public func document(
        amount: Amount, accountNumber: borrowing SecretBytes, expirationDate: String, cryptogram: borrowing SecretBytes,
        eciIndicator: String?
    ) throws(PaymentDataError) -> SecretBytes {
        guard amount.currency.decimals <= 2 else { throw .currency }
        guard amount.minorUnits > 0 else { throw .amount }
        guard Self.isAccountNumber(accountNumber) else { throw .accountNumber }
        guard let tender = TenderType(accountNumber: accountNumber) else { throw .unknownTender }
        guard let month = Self.yearAndMonth(expirationDate) else { throw .expirationDate }
        guard eciIndicator.map({ (1...2).contains($0.utf8.count) && Self.areDigits($0) }) ?? true else {
            throw .eciIndicator
        }
        guard let cavv = CavvUcaf.text(cryptogram, tender) else { throw .cryptogram }

        var xml = XMLWriter()
        xml.begin("CreditCardAuthRequest", ["xmlns": radialNamespace, "requestId": requestId])
        xml.begin("PaymentContext")
        xml.element("OrderId", orderId)
        xml.element("PaymentAccountUniqueId", secret: accountNumber, ["isToken": "false"])
        xml.end()
        xml.element("ExpirationDate", month)
        xml.element("Amount", amount.decimal, ["currencyCode": amount.currency.letters])
        xml.element("BillingFirstName", billing.firstName)
        xml.element("BillingLastName", billing.lastName)
        xml.element("BillingPhoneNo", billing.phoneNumber ?? "")
        xml.begin("BillingAddress")
        xml.address(billing.address)
        xml.end()
        xml.element("CustomerEmail", customerEmail)
        xml.element("CustomerIPAddress", customerIPAddress)
        xml.element("ShipToFirstName", shipTo.firstName)
        xml.element("ShipToLastName", shipTo.lastName)
        // The schema requires this element, but permits it to be empty.
        xml.element("ShipToPhoneNo", shipTo.phoneNumber ?? "")
        xml.begin("ShippingAddress")
        xml.address(shipTo.address)
        xml.end()
        xml.element("isRequestToCorrectCVVOrAVSError", "false")
        xml.begin("SecureVerificationData")
        xml.element("AuthenticationAvailable", "Y")
        xml.element("AuthenticationStatus", "Y")
        xml.element("CavvUcaf", secret: cavv)
        xml.element("TransactionId", "")
        xml.element("ECI", ifPresent: eciIndicator)
        xml.element("PayerAuthenticationResponse", "")
        xml.end()
        xml.element("SchemaVersion", Self.schemaVersion)
        return xml.finish()
    }

    private static func areDigits(_ text: String) -> Bool {
        text.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
    }

    private static func isAccountNumber(_ number: borrowing SecretBytes) -> Bool {
        (12...19).contains(number.count) && number.areDigits
    }

    /// Returns `2031-12` for `311231`: xsd:gYearMonth.
    private static func yearAndMonth(_ date: String) -> String? {
        guard date.utf8.count == 6, areDigits(date) else { return nil }
        let month = date.dropFirst(2).prefix(2)
        guard ("01"..."12").contains(month) else { return nil }
        return "20\(date.prefix(2))-\(month)"
    }
}

extension XMLWriter {
    fileprivate mutating func address(_ address: PhysicalAddress) {
        element("Line1", address.line1)
        element("Line2", ifPresent: address.line2)
        element("Line3", ifPresent: address.line3)
        element("Line4", ifPresent: address.line4)
        element("City", address.city)
        element("MainDivision", ifPresent: address.mainDivision)
        element("CountryCode", address.countryCode)
        element("PostalCode", ifPresent: address.postalCode)
    }
}
