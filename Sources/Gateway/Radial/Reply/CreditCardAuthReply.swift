public import Payments

/// CreditCardAuthReply: Radial's response to an authorization, and the gateway's response to a merchant's backend.
public struct CreditCardAuthReply: Sendable, Equatable {
    /// PaymentContext/OrderId, 1 to 20 characters.
    public var orderId: String
    /// PaymentContext/PaymentAccountUniqueId, 1 to 22 characters: an account token in place of the account number. It
    /// is never the number itself, nor a text of that form (``AccountNumberForm``).
    public var accountToken: String
    /// ResponseCode, from SchemaVersion 1.1 on. Like all codes here, it has at most ``maximumCodeCharacters`` characters.
    public var responseCode: String?
    public var authorizationResponseCode: String
    /// The bank's code; empty if the bank has not authorized the payment.
    public var bankAuthorizationCode: String
    public var cvv2ResponseCode: String
    public var avsResponseCode: String
    /// A code that only replies about American Express cards contain, like the two codes that follow.
    public var phoneResponseCode: String?
    public var nameResponseCode: String?
    public var emailResponseCode: String?
    public var amountAuthorized: Amount
    /// The kind of card, 2 to 4 characters, such as `VC`; from SchemaVersion 1.2 on.
    public var tenderType: String?
    public var paymentAccountInformation: PaymentAccountInformation?

    /// The first digits of the account number and its last digits, each at most 10 characters.
    public struct PaymentAccountInformation: Sendable, Equatable {
        public var binPrefix: String?
        public var panSuffix: String?
        /// The last digits of the card that a device's account number represents.
        public var originalPanSuffix: String?

        public init(binPrefix: String? = nil, panSuffix: String? = nil, originalPanSuffix: String? = nil) {
            (self.binPrefix, self.panSuffix, self.originalPanSuffix) = (binPrefix, panSuffix, originalPanSuffix)
        }
    }

    /// The maximum length of a code. Radial's page documents no limit. The schema limits only
    /// AuthorizationResponseCode, to 16 characters.
    public static let maximumCodeCharacters = 64

    public init(
        orderId: String, accountToken: String, responseCode: String? = nil, authorizationResponseCode: String,
        bankAuthorizationCode: String, cvv2ResponseCode: String, avsResponseCode: String,
        phoneResponseCode: String? = nil, nameResponseCode: String? = nil, emailResponseCode: String? = nil,
        amountAuthorized: Amount, tenderType: String? = nil,
        paymentAccountInformation: PaymentAccountInformation? = nil
    ) {
        self.orderId = orderId
        self.accountToken = accountToken
        self.responseCode = responseCode
        self.authorizationResponseCode = authorizationResponseCode
        self.bankAuthorizationCode = bankAuthorizationCode
        self.cvv2ResponseCode = cvv2ResponseCode
        self.avsResponseCode = avsResponseCode
        self.phoneResponseCode = phoneResponseCode
        self.nameResponseCode = nameResponseCode
        self.emailResponseCode = emailResponseCode
        self.amountAuthorized = amountAuthorized
        self.tenderType = tenderType
        self.paymentAccountInformation = paymentAccountInformation
    }

    /// The meaning of the reply's codes. An approval without ``bankAuthorizationCode`` is
    /// ``AuthorizationOutcome/other``, since Radial accepts no order without that code.
    public var outcome: AuthorizationOutcome {
        let outcome = AuthorizationOutcome(
            responseCode: responseCode, authorizationResponseCode: authorizationResponseCode)
        return outcome == .approved && bankAuthorizationCode.isXMLBlank ? .other : outcome
    }
}

extension CreditCardAuthReply {
    /// Returns the document for a caller.
    ///
    /// - Parameters:
    ///   - version: the request's version: below 1.1, the reply has no ResponseCode; below 1.2, no TenderType.
    ///   - withAccountInformation: true if the request includes PaymentAccountInformation.
    public func document(for version: SchemaVersion, withAccountInformation: Bool) -> [UInt8] {
        var xml = XMLWriter()
        xml.begin("CreditCardAuthReply", ["xmlns": radialNamespace])
        xml.begin("PaymentContext")
        xml.element("OrderId", orderId)
        xml.element("PaymentAccountUniqueId", accountToken, ["isToken": "true"])
        xml.end()
        if version.hasResponseCode { xml.element("ResponseCode", ifPresent: responseCode) }
        xml.element("AuthorizationResponseCode", authorizationResponseCode)
        xml.element("BankAuthorizationCode", bankAuthorizationCode)
        xml.element("CVV2ResponseCode", cvv2ResponseCode)
        xml.element("AVSResponseCode", avsResponseCode)
        xml.element("PhoneResponseCode", ifPresent: phoneResponseCode)
        xml.element("NameResponseCode", ifPresent: nameResponseCode)
        xml.element("EmailResponseCode", ifPresent: emailResponseCode)
        xml.element(
            "AmountAuthorized", amountAuthorized.decimal, ["currencyCode": amountAuthorized.currency.letters])
        if version.hasTenderType { xml.element("TenderType", ifPresent: tenderType) }
        if withAccountInformation, let information = paymentAccountInformation {
            xml.begin("PaymentAccountInformation")
            xml.element("BinPrefix", ifPresent: information.binPrefix)
            xml.element("PanSuffix", ifPresent: information.panSuffix)
            xml.element("OriginalPanSuffix", ifPresent: information.originalPanSuffix)
            xml.end()
        }
        return xml.finishWithoutSecrets()
    }
}

extension CreditCardAuthReply {
    static let name = "CreditCardAuthReply"

    private static let children: Set = [
        "PaymentContext", "ResponseCode", "AuthorizationResponseCode", "BankAuthorizationCode", "CVV2ResponseCode",
        "AVSResponseCode", "PhoneResponseCode", "NameResponseCode", "EmailResponseCode", "AmountAuthorized",
        "TenderType", "PaymentAccountInformation",
    ]

    init(_ root: XMLElement) throws(DocumentError) {
        let fields = try ElementFields(root, path: Self.name, children: Self.children, unknown: .skipped)
        let context = try ElementFields(
            fields.required("PaymentContext"), path: fields.path("PaymentContext"),
            children: ["OrderId", "PaymentAccountUniqueId"], unknown: .skipped)
        _ = try context.required("PaymentAccountUniqueId")
        guard context.attribute("isToken", of: "PaymentAccountUniqueId") == "true" else {
            throw context.fault(.accountNumberNotTokenized, "PaymentAccountUniqueId")
        }
        orderId = try context.requiredText("OrderId", Length.orderId).trimmingXMLWhiteSpace
        accountToken = try context.requiredText("PaymentAccountUniqueId", 1...22).trimmingXMLWhiteSpace
        guard !AccountNumberForm.isIn(accountToken, separatedBy: .nonLetters) else {
            throw context.fault(.accountNumberNotTokenized, "PaymentAccountUniqueId")
        }
        responseCode = try Self.code("ResponseCode", fields)
        authorizationResponseCode = try fields.requiredText("AuthorizationResponseCode", 1...Self.maximumCodeCharacters)
            .trimmingXMLWhiteSpace
        bankAuthorizationCode = try Self.requiredCode("BankAuthorizationCode", fields)
        cvv2ResponseCode = try Self.requiredCode("CVV2ResponseCode", fields)
        avsResponseCode = try Self.requiredCode("AVSResponseCode", fields)
        amountAuthorized = try Self.amount(fields)
        phoneResponseCode = Self.optional("PhoneResponseCode", 0...Self.maximumCodeCharacters, fields)
        nameResponseCode = Self.optional("NameResponseCode", 0...Self.maximumCodeCharacters, fields)
        emailResponseCode = Self.optional("EmailResponseCode", 0...Self.maximumCodeCharacters, fields)
        tenderType = Self.optional("TenderType", 2...4, fields)
        paymentAccountInformation = try fields.element("PaymentAccountInformation").map {
            element throws(DocumentError) in
            let fields = try ElementFields(
                element, path: fields.path("PaymentAccountInformation"),
                children: ["BinPrefix", "PanSuffix", "OriginalPanSuffix"], unknown: .skipped)
            return PaymentAccountInformation(
                binPrefix: Self.optional("BinPrefix", 0...10, fields),
                panSuffix: Self.optional("PanSuffix", 0...10, fields),
                originalPanSuffix: Self.optional("OriginalPanSuffix", 0...10, fields))
        }
    }

    /// Returns an optional element's text; nil if it is absent or not as documented. A faulty optional element is not
    /// an error, because it does not determine whether a payment was authorized.
    private static func optional(_ name: String, _ length: ClosedRange<Int>, _ fields: ElementFields) -> String? {
        let text = ((try? fields.text(name, atMost: length.upperBound)) ?? nil)?.trimmingXMLWhiteSpace
        return text.flatMap { $0.unicodeScalars.count >= length.lowerBound ? $0 : nil }
    }

    private static func code(_ name: String, _ fields: ElementFields) throws(DocumentError) -> String? {
        try fields.text(name, atMost: maximumCodeCharacters)?.trimmingXMLWhiteSpace
    }

    /// Returns a code that must be present, but may be empty: a declined payment has no code from the bank.
    private static func requiredCode(_ name: String, _ fields: ElementFields) throws(DocumentError) -> String {
        guard let code = try code(name, fields) else { throw fields.fault(.missing, name) }
        return code
    }

    private static func amount(_ fields: ElementFields) throws(DocumentError) -> Amount {
        let name = "AmountAuthorized"
        var decimal = try fields.requiredText(name, 1...32).trimmingXMLWhiteSpace
        guard let currency = fields.attribute("currencyCode", of: name).flatMap(Currency.init(letters:)) else {
            throw DocumentError(
                .notACurrency, "\(fields.path(name))/@currencyCode", line: fields.element(name)?.line)
        }
        // The schema writes every amount with two decimals, even 1000.00 yen. `Amount` refuses more decimals than the
        // currency has, so `.00` is removed first.
        if decimal.hasSuffix(".00") { decimal.removeLast(3) }
        guard let amount = Amount(decimal: decimal, currency: currency) else { throw fields.fault(.notAnAmount, name) }
        return amount
    }
}
