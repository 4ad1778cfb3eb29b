import Encodings
import Radial

/// A payment in Radial's XML formats. Keys and signature of its payment token are invalid, because the simulated
/// paytokend does not verify them.
struct RadialDocument {
    var transactionId = Hexadecimal.encode((0..<32).map { _ in UInt8.random(in: .min ... .max) })
    var version = "EC_v1"
    var data = "AAECAwQF"
    var orderId = "order-1"
    var city = "Philadelphia"
    var schemaVersion: String? = "1.2"

    private var walletElements: String {
        """
        <ApplePayTransactionId>\(transactionId)</ApplePayTransactionId>
        <EphemeralPublicKey>AQID</EphemeralPublicKey>
        <PublicKeyHash>\(Base64.encode([UInt8](repeating: 7, count: 32)))</PublicKeyHash>
        <Version>\(version)</Version>
        <Data>\(data)</Data>
        <Signature>BAUG</Signature>
        """
    }

    /// The payment token as a separate document.
    var wallet: [UInt8] {
        Array(
            "<WalletPaymentInformation xmlns=\"\(radialNamespace)\">\(walletElements)</WalletPaymentInformation>".utf8)
    }

    private var address: String {
        "<Line1>123 Main St</Line1><City>\(city)</City><MainDivision>PA</MainDivision><CountryCode>US</CountryCode>"
            + "<PostalCode>19019</PostalCode>"
    }

    var request: [UInt8] {
        Array(
            """
            <?xml version="1.0" encoding="UTF-8"?>
            <CreditCardAuthRequest xmlns="\(radialNamespace)" requestId="1234567">
              <WalletPaymentInformation>\(walletElements)</WalletPaymentInformation>
              <OrderId>\(orderId)</OrderId>
              <BillingFirstName>John</BillingFirstName>
              <BillingLastName>Smith</BillingLastName>
              <BillingPhoneNo>6101234567</BillingPhoneNo>
              <BillingAddress>\(address)</BillingAddress>
              <CustomerEmail>customer@sample.com</CustomerEmail>
              <CustomerIPAddress>208.247.73.130</CustomerIPAddress>
              <ShipToFirstName>Jane</ShipToFirstName>
              <ShipToLastName>Smith</ShipToLastName>
              <ShippingAddress>\(address)</ShippingAddress>
              \(schemaVersion.map { "<SchemaVersion>\($0)</SchemaVersion>" } ?? "")
            </CreditCardAuthRequest>
            """.utf8)
    }

    /// The same payment token and order in the form of `POST /payments/apple-pay`.
    var submission: [UInt8] { submission(expected: #"{"amount":"10.99","currency":"USD"}"#) }

    /// - Parameter expected: the member `expected` in JSON.
    func submission(expected: String) -> [UInt8] {
        Array(
            """
            {"token":{"paymentData":{"version":"\(version)","data":"\(data)","signature":"BAUG","header":{\
            "ephemeralPublicKey":"AQID","publicKeyHash":"\(Base64.encode([UInt8](repeating: 7, count: 32)))",\
            "transactionId":"\(transactionId)"}},"paymentMethod":{},"transactionIdentifier":"x"},\
            "orderId":"\(orderId)","expected":\(expected)}
            """.utf8)
    }
}
