/// The order that Radial requires in addition to the card. It is collected from a JSON request or from Radial's own
/// request, and then checked as a whole.
public struct OrderDetails: Sendable, Equatable {
    public var orderId: String?
    public var billing: Party
    /// The shipping party; nil for an order that is not shipped. The billing party is then used instead, as Radial
    /// requires.
    public var shipTo: Party?
    public var customerEmail: String?
    public var customerIPAddress: String?

    public init(
        orderId: String? = nil, billing: Party = Party(), shipTo: Party? = nil, customerEmail: String? = nil,
        customerIPAddress: String? = nil
    ) {
        self.orderId = orderId
        self.billing = billing
        self.shipTo = shipTo
        self.customerEmail = customerEmail
        self.customerIPAddress = customerIPAddress
    }

    /// The receiver of a bill or a parcel; nil and blank are equivalent.
    public struct Party: Sendable, Equatable {
        public var firstName: String?
        public var lastName: String?
        public var phoneNumber: String?
        /// One to four lines; blank lines are omitted.
        public var addressLines: [String]
        public var city: String?
        public var mainDivision: String?
        public var countryCode: String?
        public var postalCode: String?

        public init(
            firstName: String? = nil, lastName: String? = nil, phoneNumber: String? = nil, addressLines: [String] = [],
            city: String? = nil, mainDivision: String? = nil, countryCode: String? = nil, postalCode: String? = nil
        ) {
            (self.firstName, self.lastName, self.phoneNumber) = (firstName, lastName, phoneNumber)
            (self.addressLines, self.city, self.mainDivision) = (addressLines, city, mainDivision)
            (self.countryCode, self.postalCode) = (countryCode, postalCode)
        }
    }

    /// Takes an order from Radial's own request.
    public init(_ request: CreditCardAuthRequest) {
        self.init(
            orderId: request.orderId, billing: Party(request.billing), shipTo: Party(request.shipTo),
            customerEmail: request.customerEmail, customerIPAddress: request.customerIPAddress)
    }
}

extension OrderDetails.Party {
    init(_ party: CreditCardAuthRequest.Party) {
        let address = party.address
        self.init(
            firstName: party.firstName, lastName: party.lastName, phoneNumber: party.phoneNumber,
            addressLines: [address.line1, address.line2, address.line3, address.line4].compactMap(\.self),
            city: address.city, mainDivision: address.mainDivision, countryCode: address.countryCode,
            postalCode: address.postalCode)
    }
}

/// The error for an order that Radial would not accept. It contains all of the order's faults, but none of its values.
public struct UnsuitableOrder: Error, Sendable, Equatable, CustomStringConvertible {
    /// The faults in the order of Radial's table; at least one.
    public let faults: [Fault]

    /// The faults on one line, separated by semicolons.
    public var description: String { faults.map(\.description).joined(separator: "; ") }

    public struct Fault: Sendable, Equatable, CustomStringConvertible {
        public let element: Element
        public let reason: Reason

        public init(_ element: Element, _ reason: Reason) {
            (self.element, self.reason) = (element, reason)
        }

        /// The element and the reason, such as `BillingAddress/City: is required but missing`.
        public var description: String { "\(element.rawValue): \(reason)" }
    }

    public enum Reason: Sendable, Equatable, CustomStringConvertible {
        case missing
        /// The text's number of characters is outside this range.
        case length(ClosedRange<Int>)
        case notAnIPv4Address
        /// A character that XML does not permit, such as a control character.
        case character
        /// The address has more than four lines.
        case tooManyLines

        /// The fault or the requirement in a few words, which follow the element's name.
        public var description: String {
            switch self {
            case .missing: "is required but missing"
            case .length(let range): "must have \(range.lowerBound) to \(range.upperBound) characters"
            case .notAnIPv4Address: "must be a dotted quad, such as 192.0.2.1"
            case .character: "has a character that XML does not have, such as a control character"
            case .tooManyLines: "must have at most four lines"
            }
        }
    }

    /// An element of an order. The raw value is its path in Radial's CreditCardAuthRequest.
    public enum Element: String, Sendable, CaseIterable {
        case orderId = "OrderId"
        case billingFirstName = "BillingFirstName"
        case billingLastName = "BillingLastName"
        case billingPhoneNo = "BillingPhoneNo"
        case billingLine = "BillingAddress/Line1"
        case billingCity = "BillingAddress/City"
        case billingMainDivision = "BillingAddress/MainDivision"
        case billingCountryCode = "BillingAddress/CountryCode"
        case billingPostalCode = "BillingAddress/PostalCode"
        case customerEmail = "CustomerEmail"
        case customerIPAddress = "CustomerIPAddress"
        case shipToFirstName = "ShipToFirstName"
        case shipToLastName = "ShipToLastName"
        case shipToPhoneNo = "ShipToPhoneNo"
        case shippingLine = "ShippingAddress/Line1"
        case shippingCity = "ShippingAddress/City"
        case shippingMainDivision = "ShippingAddress/MainDivision"
        case shippingCountryCode = "ShippingAddress/CountryCode"
        case shippingPostalCode = "ShippingAddress/PostalCode"
    }
}
