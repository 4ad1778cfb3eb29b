import DaemonAPI
import KeyTypes
import Payments
import Processors
import Refusals

/// The gateway's own codes for payments, in addition to paytokend's codes. The raw values are part of the public
/// contract.
enum PaymentCode: String, CaseIterable, Sendable {
    /// The processor declined the payment.
    case declined = "payment_declined"
    /// The processor reported that it did not process the payment.
    case failed = "payment_failed"
    /// The payment token's data cannot be submitted to the processor, for example EMV data, a card's own number, several
    /// merchants, or no amount.
    case dataUnsupported = "payment_data_unsupported"
    /// The same client has used this payment token for another order, with other expectations, or to obtain its data.
    case usedDifferently = "token_used_differently"
    /// The request's `expected.currency`, for Google Pay `currency`, is not a currency of ISO 4217.
    case currencyUnknown = "currency_unknown"
    /// The request lacks a member that the wallet, the processor or the client's configuration requires.
    case elementMissing = "element_missing"
    /// No processor is configured for this merchant.
    case noProcessor = "no_processor"
    /// Another request is using this payment token now.
    case underWay = "payment_under_way"
    /// The payment was submitted, and its result is not known. Only responses in Radial's XML have this code; the JSON
    /// endpoint returns the payment as `pending` instead.
    case pending = "payment_pending"
    /// The processor could not be reached, so nothing was sent.
    case processorUnavailable = "processor_unavailable"
    case storeUnavailable = "store_unavailable"

    /// The refusal's HTTP status, and the seconds for its Retry-After header. `retryAfter` is nil if waiting does not
    /// help.
    var statusAndRetryAfter: (status: Int, retryAfter: Int?) {
        switch self {
        case .currencyUnknown, .elementMissing: (400, nil)
        case .declined, .failed, .dataUnsupported, .usedDifferently, .noProcessor: (422, nil)
        case .underWay: (503, 1)
        case .pending: (503, 30)
        case .processorUnavailable, .storeUnavailable: (503, 2)
        }
    }
}

extension GatewayRefusal {
    /// Creates the refusal for a payment in the state `declined`, `error` or `released`; returns nil for any other
    /// state. A repeated request gets the same refusal.
    init?(outcomeOf payment: Payment) {
        let reason = payment.outcome?.reason
        switch payment.state {
        case .declined:
            self.init(.payment(.declined), "The processor declined the payment.", details: reason)
        case .error:
            self.init(.payment(.failed), "The processor did not process the payment.", details: reason)
        case .released:
            self.init(
                .payment(.usedDifferently), "This payment token was decrypted for the client, so it is not paid here.")
        default: return nil
        }
    }

    init(_ error: PaymentStoreError) {
        switch error {
        case .superseded:
            self.init(
                .payment(.underWay),
                "Another request is processing this payment token by now; ask again for its outcome.")
        case .notFound: self.init(.daemon(.notFound), "There is no such payment.")
        case .unavailable, .overloaded, .inDoubt, .damaged:
            self.init(
                .payment(.storeUnavailable),
                "The store of payments is unavailable; send the same request again later for the payment's outcome."
            )
        }
    }

    static func merchantForbidden(_ wallet: Wallet) -> GatewayRefusal {
        GatewayRefusal(
            .daemon(.forbidden),
            "This client may not act for this merchant: clients[].\(wallet.merchantsKey) does not list it.")
    }

    static func noProcessor(_ wallet: Wallet) -> GatewayRefusal {
        GatewayRefusal(
            .payment(.noProcessor),
            "No processor is configured for this merchant: no entry of processors[].\(wallet.merchantsKey) matches it.")
    }

    static func dataUnsupported(_ reason: String) -> GatewayRefusal {
        GatewayRefusal(
            .payment(.dataUnsupported), "The payment token's data cannot be submitted to this processor.",
            details: reason)
    }

    fileprivate static let notSetUp = GatewayRefusal(
        .daemon(.internalError), "The gateway is not set up for this payment; its log says more.")

    static let transactionReplayed = GatewayRefusal(
        .daemon(.transactionReplayed),
        "This payment token was used before, and is not paid here. If an earlier request with it may have gone unanswered, check with the processor before the customer pays again."
    )
}

extension Wallet {
    /// The key of the configuration that lists this wallet's merchants, in an entry of `clients` or `processors`.
    fileprivate var merchantsKey: String { self == .applePay ? "merchants" : "google_pay.merchants" }
}

/// A failed decryption: the refusal that the client receives, and the state in which the attempt ends. Only this type
/// maps paytokend's codes to the gateway's responses for payments.
struct DecryptionFailure: Error, Sendable {
    let refusal: GatewayRefusal
    /// True if the attempt ends as `refused`. False if it ends as `not_sent`, because a later attempt may succeed.
    let isFinal: Bool
    /// The log message about a setting that the operator has to change, and the details of the message; nil if the
    /// operator need not act. The client receives neither.
    let operatorFault: (message: String, details: String?)?

    /// Creates the failure for a refusal that the gateway received from paytokend. If the code is unknown or not
    /// expected here, the client receives ``GatewayRefusal/defect``. The attempt then ends as `not_sent`, so the client
    /// may try again.
    init(code: String, message: String, details: String?, retryAfter: Int?) {
        guard let known = RefusalCode(rawValue: code) else {
            self.init(.defect, isFinal: false)
            return
        }
        let forwarded = GatewayRefusal(.daemon(known), message, details: details, retryAfter: retryAfter)
        switch known {
        // These refusals concern the payment token or the expectations that the client sent, so the client receives
        // them unchanged.
        case .malformedToken, .unsupportedVersion, .signatureInvalid, .certificateUntrusted, .markerOIDMissing,
            .signingTimeOutsideWindow, .unknownPublicKeyHash, .keyNotActive, .decryptionFailed, .merchantMismatch,
            .currencyMismatch, .amountMismatch, .applicationDataMismatch, .messageExpired, .authMethodNotAllowed,
            .transactionReplayed, .requestTooLarge:
            self.init(forwarded, isFinal: true)
        // paytokend's access rule for this gateway requires an expectation that the client's entry in the gateway's
        // configuration does not require. The client cannot know this requirement, so the operator has to change one of
        // the two settings.
        case .malformedRequest where DecryptRequest.isMissingExpected(known, details: details):
            self.init(
                .notSetUp, isFinal: false,
                operatorFault:
                    "paytokend's access rule for this gateway requires an expectation that the request does not state; remove it "
                    + "from the rule's require_expected, or, if all clients can state it, add it to clients[].require_expected",
                details)
        // The gateway sends the client's expectations to paytokend unchanged, so this fault is in the client's request.
        case .malformedRequest: self.init(forwarded, isFinal: true)
        case .forbidden where details == DecryptRequest.merchantsDetails:
            self.init(.merchantForbidden(.applePay), isFinal: true)
        case .forbidden:
            self.init(
                GatewayRefusal(
                    .session(.paytokendForbids),
                    "paytokend does not let this gateway decrypt for this merchant; its access rules need a rule with role decrypt, for Google Pay with google_pay."
                ), isFinal: true)
        // Only `/v1/google-pay/decrypt` can be missing.
        case .notFound:
            self.init(
                .notSetUp, isFinal: false,
                operatorFault: "paytokend does not serve Google Pay; set trust.google_pay in its configuration", details
            )
        case .hsmUnavailable, .ledgerUnavailable, .overloaded, .deadlineExceeded: self.init(forwarded, isFinal: false)
        default: self.init(.defect, isFinal: false)
        }
    }

    /// True if paytokend decrypted the payment token, but the decrypted data differ from the request's expectations.
    var isMismatch: Bool {
        let codes: [RefusalCode] = [.merchantMismatch, .currencyMismatch, .amountMismatch, .applicationDataMismatch]
        return codes.contains { refusal.code == .daemon($0) }
    }

    init(_ refusal: GatewayRefusal, isFinal: Bool, operatorFault: String? = nil, _ details: String? = nil) {
        self.refusal = refusal
        self.isFinal = isFinal
        self.operatorFault = operatorFault.map { ($0, details) }
    }

    /// The failure of a call to paytokend for which no slot became free in time. The request was not sent to paytokend.
    static let busy = DecryptionFailure(
        GatewayRefusal(
            .daemon(.overloaded),
            "Too many payments wait for paytokend; nothing was sent. Try again with the same request."
        ), isFinal: false)

    static let unreachable = DecryptionFailure(
        GatewayRefusal(
            .session(.paytokendUnavailable),
            "paytokend does not answer; nothing was sent. Try again with the same request."
        ), isFinal: false)
}
