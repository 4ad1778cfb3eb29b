public import KeyTypes
public import Payments
public import SecretMemory

// Unsafe: The secret's pointer is used only within the closure, which copies the account number for the comparison.

/// The data of one payment that the gateway submits to a processor. It exists only in memory, from paytokend's answer
/// until the processor's answer.
public struct Submission: Sendable {
    /// The payment token's transaction identifier, 64 lower-case hex digits. A processor may use it as an idempotency
    /// key.
    public let transactionId: String
    public let wallet: Wallet
    /// The merchant's identifier at Apple or Google.
    public let merchantIdentifier: String
    public let orderId: String?
    /// The amount in Apple's payment token, or the one that the client states for Google's. It is nil or zero only for processors that accept such payments
    /// (``ProcessorCapabilities/takesNoAmount``).
    public let amount: Amount?
    public let credential: PaymentCredential
    public let customer: Customer

    public init(
        transactionId: String, wallet: Wallet = .applePay, merchantIdentifier: String, orderId: String?,
        amount: Amount?, credential: PaymentCredential, customer: Customer
    ) {
        self.transactionId = transactionId
        self.wallet = wallet
        self.merchantIdentifier = merchantIdentifier
        self.orderId = orderId
        self.amount = amount
        self.credential = credential
        self.customer = customer
    }
}

/// The values of `paymentDataType` in Apple's payment data.
public enum PaymentDataType: String, Sendable, CaseIterable {
    case threeDSecure = "3DSecure"
    case emv = "EMV"
}

/// Decrypted payment data as typed members: Apple's ("Payment token format reference", *Payment data keys*), or Google's
/// (PaymentMethodToken, *Encrypted message*), which has only the account number, the expiration and the proof.
///
/// Secrets are in memory that is wiped. ``dictionary`` also contains members that this type does not know.
public final class PaymentCredential: Sendable {
    /// The digits of Apple's `applicationPrimaryAccountNumber` or Google's `pan`. With ``PaymentProof/absent`` this is the
    /// number of the card itself.
    public let accountNumber: SecretBytes
    public let expirationDate: ExpirationDate
    /// `cardholderName` in UTF-8; empty if there is none.
    public let cardholderName: SecretBytes
    /// `deviceManufacturerIdentifier` in hexadecimal.
    public let deviceManufacturerIdentifier: String?
    /// The data that authenticates the payment.
    public let proof: PaymentProof
    /// The elements of `authenticationResponses`, one for each merchant in a payment to several merchants.
    public let merchantResponses: [MerchantResponse]
    /// `merchantTokenIdentifier`, an identifier for later payments by the same customer.
    public let merchantTokenIdentifier: String?
    /// `merchantTokenMetadata` as JSON; empty if there is none.
    public let merchantTokenMetadata: SecretBytes
    /// The whole dictionary as JSON without white space. Members, strings and numbers keep the form that the wallet gave
    /// them.
    public let dictionary: SecretBytes

    public init(
        accountNumber: consuming SecretBytes, expirationDate: ExpirationDate,
        cardholderName: consuming SecretBytes = SecretBytes(copying: []), deviceManufacturerIdentifier: String? = nil,
        proof: PaymentProof, merchantResponses: [MerchantResponse] = [], merchantTokenIdentifier: String? = nil,
        merchantTokenMetadata: consuming SecretBytes = SecretBytes(copying: []), dictionary: consuming SecretBytes
    ) {
        self.accountNumber = accountNumber
        self.expirationDate = expirationDate
        self.cardholderName = cardholderName
        self.deviceManufacturerIdentifier = deviceManufacturerIdentifier
        self.proof = proof
        self.merchantResponses = merchantResponses
        self.merchantTokenIdentifier = merchantTokenIdentifier
        self.merchantTokenMetadata = merchantTokenMetadata
        self.dictionary = dictionary
    }
}

extension PaymentOutcome {
    /// Returns the outcome with every text masked that contains the account number. The number is found even with
    /// separators between its digits and with other text around it.
    public func masked(_ accountNumber: borrowing SecretBytes) -> PaymentOutcome {
        let number = unsafe accountNumber.withUnsafeBytes { unsafe Array($0) }
        return masked { digits in !number.isEmpty && digits.contains(number) }
    }
}

/// The data that authenticates the payment.
public enum PaymentProof: Sendable {
    /// Apple's 3DSecure data, or Google's CRYPTOGRAM_3DS.
    case threeDSecure(ThreeDSecureProof)
    /// Apple's EMV data.
    case emv(EMVProof)
    /// None, for Google's PAN_ONLY.
    case absent
}

public final class ThreeDSecureProof: Sendable {
    /// Apple's `onlinePaymentCryptogram` or Google's `cryptogram`, in the base64 that the wallet sent.
    public let cryptogram: SecretBytes
    /// `eciIndicator`; nil if the card network sends none. Both wallets write one or two digits: `5` means `05`.
    public let eciIndicator: String?

    public init(cryptogram: consuming SecretBytes, eciIndicator: String?) {
        self.cryptogram = cryptogram
        self.eciIndicator = eciIndicator
    }
}

public final class EMVProof: Sendable {
    /// `emvData` in the base64 that Apple sent.
    public let data: SecretBytes
    /// `encryptedPINData` in hexadecimal; empty if there is none.
    public let encryptedPIN: SecretBytes

    public init(data: consuming SecretBytes, encryptedPIN: consuming SecretBytes) {
        self.data = data
        self.encryptedPIN = encryptedPIN
    }
}

/// One merchant's part of a payment to several merchants: an element of `authenticationResponses`.
public final class MerchantResponse: Sendable {
    public let merchantIdentifier: String
    /// `authenticationData` in the form that Apple sent.
    public let authenticationData: SecretBytes
    /// `transactionAmount` in the form that Apple sent.
    public let transactionAmount: String?

    public init(
        merchantIdentifier: String, authenticationData: consuming SecretBytes, transactionAmount: String?
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.authenticationData = authenticationData
        self.transactionAmount = transactionAmount
    }
}

/// The date on which a card expires.
public struct ExpirationDate: Sendable, Equatable {
    /// The parts of the date, each with two digits.
    public let year: String, month: String, day: String

    /// Parses Apple's `YYMMDD`. Returns nil unless the text is six digits with a month from 01 to 12 and a day from 01 to 31.
    public init?(_ text: String) {
        let digits = Array(text.utf8)
        guard digits.count == 6, digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
            return nil
        }
        func part(_ start: Int) -> String { String(decoding: digits[start..<(start + 2)], as: UTF8.self) }
        (year, month, day) = (part(0), part(2), part(4))
        guard let month = Int(month), (1...12).contains(month), let day = Int(day), (1...31).contains(day) else {
            return nil
        }
    }
}

extension ExpirationDate {
    /// The last day of a month of 2000 to 2099, which is how long a card is valid. Returns nil for any other month.
    public init?(year: Int, month: Int) {
        guard (2000...2099).contains(year), (1...12).contains(month) else { return nil }
        let isLeap = year.isMultiple(of: 4)
        let days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        let numbers = [year % 100, month, days[month - 1]]
        self.init(numbers.map { ($0 < 10 ? "0" : "") + String($0) }.joined())
    }
}

/// The customer that a payment request describes. The gateway sends this data to the processor and does not store it.
public struct Customer: Sendable, Equatable {
    public var billing: PaymentContact?
    public var shipping: PaymentContact?
    /// The customer's IP address, in dotted decimals (IPv4) or in the form of RFC 5952 (IPv6).
    public var ipAddress: String?

    public init(billing: PaymentContact? = nil, shipping: PaymentContact? = nil, ipAddress: String? = nil) {
        self.billing = billing
        self.shipping = shipping
        self.ipAddress = ipAddress
    }

    /// The number in billingContact, or in shippingContact if billingContact has none. Apple Pay often fills in only
    /// shippingContact.
    public var phoneNumber: String? { billing?.phoneNumber ?? shipping?.phoneNumber }
    public var emailAddress: String? { billing?.emailAddress ?? shipping?.emailAddress }

    /// Returns the given elements that are absent, empty or blank.
    public func missing(_ elements: [RequiredElement], orderId: String?) -> [RequiredElement] {
        elements.filter { element in
            let value: String? =
                switch element {
                case .orderId: orderId
                case .customerIPAddress: ipAddress
                case .billing(.phoneNumber): phoneNumber
                case .billing(.emailAddress): emailAddress
                case .billing(let element): billing?.value(of: element)
                case .shipping(let element): shipping?.value(of: element)
                }
            return value?.contains { !$0.isWhitespace } != true
        }
    }
}

/// A PaymentContact in the API for merchant servers.
public struct PaymentContact: Sendable, Equatable {
    public var phoneNumber: String?
    public var emailAddress: String?
    public var givenName: String?
    public var familyName: String?
    public var addressLines: [String] = []
    public var locality: String?
    public var administrativeArea: String?
    public var postalCode: String?
    public var countryCode: String?

    public init() {}

    func value(of element: ContactElement) -> String? {
        switch element {
        case .givenName: givenName
        case .familyName: familyName
        case .phoneNumber: phoneNumber
        case .emailAddress: emailAddress
        case .addressLines: addressLines.first
        case .locality: locality
        case .administrativeArea: administrativeArea
        case .postalCode: postalCode
        case .countryCode: countryCode
        }
    }
}
