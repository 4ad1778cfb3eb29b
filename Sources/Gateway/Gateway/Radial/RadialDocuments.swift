import Payments
import Processors
import Radial
import StrictJSON

extension PaymentRequest {
    /// Converts Radial's request. Its addresses become contacts. Radial's request has no element for expectations, so
    /// the result contains none.
    init(_ request: CreditCardAuthRequest) throws(GatewayRefusal) {
        // The identifier is compared with the one in the processor's response, and it is displayed. Therefore this
        // check permits fewer characters than Radial's table.
        guard Self.isOrderId(request.orderId) else {
            var refusal = GatewayRefusal(
                .daemon(.malformedRequest), "The OrderId must be printable ASCII characters without blanks.")
            refusal.element = "CreditCardAuthRequest/OrderId"
            throw refusal
        }
        self.init(
            walletRequest: try request.wallet.request, orderId: request.orderId,
            customer: Customer(
                billing: PaymentContact(request.billing, emailAddress: request.customerEmail),
                shipping: PaymentContact(request.shipTo), ipAddress: request.customerIPAddress))
    }

    /// Converts a document that contains only a payment token, which the client wants to have decrypted.
    init(_ wallet: WalletPaymentInformation) throws(GatewayRefusal) {
        self.init(walletRequest: try wallet.request, orderId: nil, customer: Customer())
    }
}

extension WalletPaymentInformation {
    /// The payment token as a request of Apple Pay.
    fileprivate var request: ApplePayRequest {
        get throws(GatewayRefusal) {
            guard let data = (try? JSONValue(parsing: paymentData))?.objectValue else { throw .defect }
            return try ApplePayRequest(radial: data)
        }
    }
}

extension PaymentContact {
    fileprivate init(_ party: CreditCardAuthRequest.Party, emailAddress: String? = nil) {
        self.init()
        givenName = party.firstName
        familyName = party.lastName
        phoneNumber = party.phoneNumber
        self.emailAddress = emailAddress
        let address = party.address
        addressLines = [address.line1, address.line2, address.line3, address.line4].compactMap(\.self)
        locality = address.city
        administrativeArea = address.mainDivision
        postalCode = address.postalCode
        countryCode = address.countryCode
    }
}

extension GatewayRefusal {
    /// The refusal for an error in a document: 400, with the element's path.
    init(_ error: DocumentError) {
        let code: GatewayCode =
            switch error.reason {
            case .formatWithoutElements, .unknownFormat: .daemon(.unsupportedVersion)
            default: .daemon(error.isAboutToken ? .malformedToken : .malformedRequest)
            }
        self.init(code, error.description)
        element = error.element
    }
}

extension DocumentError {
    fileprivate var isAboutToken: Bool {
        if case .notXML = reason { return false }
        return element.split(separator: "/").contains("WalletPaymentInformation")
    }
}

extension CreditCardAuthReply {
    /// Returns true if a reply in Radial's form can express the state of the payment.
    ///
    /// For Radial's clients, TIMEOUT is a success. They accept the order, and Radial's Order Service authorizes the
    /// payment again with the account token in the reply. Therefore a client receives TIMEOUT only if Radial itself
    /// responded with TIMEOUT and an account token. After any other cause of a pending payment (a lost response,
    /// contradictory codes, a wrong key), no service would authorize the payment.
    static func canExpress(_ payment: Payment) -> Bool {
        guard [.submitting, .pending].contains(payment.state) else { return true }
        let code = payment.outcome?.reason.flatMap { ReplyCodes(text: $0) }?.responseCode
        return payment.outcome?.processorReference != nil
            && AuthorizationOutcome.timeoutCodes.contains(code ?? "")
    }

    /// Creates the reply for a payment that is `authorized`, `captured` or `declined`, and for a `pending` payment if
    /// ``canExpress(_:)`` returns true. Any other state throws ``GatewayRefusal/defect``.
    ///
    /// A value that the payment's processor did not return is omitted if the element is optional in Radial's table. It
    /// is empty if the element is required: CVV2ResponseCode and AVSResponseCode, and PaymentAccountUniqueId without a
    /// reference from the processor.
    init(_ payment: Payment, orderId: String) throws(GatewayRefusal) {
        guard let amount = payment.transaction?.amount else { throw .defect }
        let codes = payment.outcome?.reason.flatMap { ReplyCodes(text: $0) }
        let (response, authorization, bankCode): (String, String, String?)
        switch payment.state {
        case .authorized, .captured:
            (response, authorization, bankCode) = ("APPROVED", "AP01", payment.outcome?.authorizationCode)
        case .declined:
            let decline = codes?.responseCode.flatMap { AuthorizationOutcome.Decline(rawValue: $0) } ?? .declined
            // No public source lists the AuthorizationResponseCodes of declines, so the reply has the processor's own
            // code or, without one, the ResponseCode.
            (response, bankCode) = (decline.rawValue, nil)
            authorization = codes?.authorizationResponseCode ?? decline.rawValue
        case .submitting, .pending:
            (response, authorization, bankCode) = ("TIMEOUT", "TO01", nil)
        case .received, .decrypted, .error, .notSent, .released, .refused: throw .defect
        }
        var reference = payment.outcome?.processorReference ?? ""
        // A masked reference cannot be used to find a payment.
        if reference.contains("*") || reference.utf8.count > 22 { reference = "" }
        self.init(
            orderId: orderId, accountToken: reference, responseCode: response,
            authorizationResponseCode: authorization, bankAuthorizationCode: bankCode ?? "",
            cvv2ResponseCode: codes?.cvv2ResponseCode ?? "", avsResponseCode: codes?.avsResponseCode ?? "",
            phoneResponseCode: codes?.phoneResponseCode, nameResponseCode: codes?.nameResponseCode,
            emailResponseCode: codes?.emailResponseCode, amountAuthorized: amount, tenderType: codes?.tenderType)
    }
}
