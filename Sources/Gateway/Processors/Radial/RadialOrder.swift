import Payments
import Radial

extension OrderDetails {
    /// Converts the order details of a payment request to Radial's elements.
    init(_ customer: Customer, orderId: String?) {
        var billing = Party(customer.billing ?? PaymentContact())
        billing.phoneNumber = customer.phoneNumber
        // If nothing is shipped, Apple's shippingContact has at most a telephone number and an e-mail address. Such a
        // contact does not become the order's shipTo.
        let shipTo = customer.shipping.flatMap { $0.hasPlace ? Party($0) : nil }
        self.init(
            orderId: orderId, billing: billing, shipTo: shipTo, customerEmail: customer.emailAddress,
            customerIPAddress: customer.ipAddress)
    }
}

extension OrderDetails.Party {
    fileprivate init(_ contact: PaymentContact) {
        self.init(
            firstName: contact.givenName, lastName: contact.familyName, phoneNumber: contact.phoneNumber,
            addressLines: contact.addressLines, city: contact.locality, mainDivision: contact.administrativeArea,
            countryCode: contact.countryCode, postalCode: contact.postalCode)
    }
}

extension PaymentContact {
    /// Returns true if the contact has a postal address.
    fileprivate var hasPlace: Bool {
        let place = addressLines + [locality, administrativeArea, postalCode, countryCode].compactMap(\.self)
        return place.contains { $0.contains { !$0.isWhitespace } }
    }
}

extension RequiredElement {
    /// Creates the name of the payment request's element that supplies the value of an element of Radial's order.
    init(_ element: UnsuitableOrder.Element) {
        self =
            switch element {
            case .orderId: .orderId
            case .billingFirstName: .billing(.givenName)
            case .billingLastName: .billing(.familyName)
            case .billingPhoneNo: .billing(.phoneNumber)
            case .billingLine: .billing(.addressLines)
            case .billingCity: .billing(.locality)
            case .billingMainDivision: .billing(.administrativeArea)
            case .billingCountryCode: .billing(.countryCode)
            case .billingPostalCode: .billing(.postalCode)
            case .customerEmail: .billing(.emailAddress)
            case .customerIPAddress: .customerIPAddress
            case .shipToFirstName: .shipping(.givenName)
            case .shipToLastName: .shipping(.familyName)
            case .shipToPhoneNo: .shipping(.phoneNumber)
            case .shippingLine: .shipping(.addressLines)
            case .shippingCity: .shipping(.locality)
            case .shippingMainDivision: .shipping(.administrativeArea)
            case .shippingCountryCode: .shipping(.countryCode)
            case .shippingPostalCode: .shipping(.postalCode)
            }
    }
}
