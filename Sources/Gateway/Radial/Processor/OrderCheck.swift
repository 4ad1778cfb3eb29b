/// Checks an order according to Radial's table and collects every fault.
struct OrderCheck {
    private(set) var faults: [UnsuitableOrder.Fault] = []

    /// Returns the value if its number of characters is in `length`. Otherwise, or if a required value is blank,
    /// records a fault and returns nil.
    mutating func value(
        _ text: String?, _ element: UnsuitableOrder.Element, _ length: ClosedRange<Int>, isRequired: Bool = true
    ) -> String? {
        guard let text, !text.isXMLBlank else {
            if isRequired { faults.append(.init(element, .missing)) }
            return nil
        }
        guard XMLWriter.isAllowed(text) else {
            faults.append(.init(element, .character))
            return nil
        }
        guard length.contains(text.unicodeScalars.count) else {
            faults.append(.init(element, .length(length)))
            return nil
        }
        return text
    }

    mutating func ipv4Address(_ text: String?, _ element: UnsuitableOrder.Element) -> String? {
        guard let text = value(text, element, 1...256) else { return nil }
        guard IPv4Address.isDottedQuad(text) else {
            faults.append(.init(element, .notAnIPv4Address))
            return nil
        }
        return text
    }

    /// The elements of one party; a shipping party needs no telephone number.
    struct PartyElements {
        let firstName, lastName, phone, line, city, mainDivision, countryCode, postalCode: UnsuitableOrder.Element
        let needsPhone: Bool

        static let billing = PartyElements(
            firstName: .billingFirstName, lastName: .billingLastName, phone: .billingPhoneNo, line: .billingLine,
            city: .billingCity, mainDivision: .billingMainDivision, countryCode: .billingCountryCode,
            postalCode: .billingPostalCode, needsPhone: true)
        static let shipping = PartyElements(
            firstName: .shipToFirstName, lastName: .shipToLastName, phone: .shipToPhoneNo, line: .shippingLine,
            city: .shippingCity, mainDivision: .shippingMainDivision, countryCode: .shippingCountryCode,
            postalCode: .shippingPostalCode, needsPhone: false)
    }

    /// Returns nil and adds faults if the party is unsuitable.
    mutating func party(_ party: OrderDetails.Party, _ elements: PartyElements) -> CreditCardAuthRequest.Party? {
        let firstName = value(party.firstName, elements.firstName, Length.name)
        let lastName = value(party.lastName, elements.lastName, Length.name)
        let phone = value(party.phoneNumber, elements.phone, Length.name, isRequired: elements.needsPhone)
        let filled = party.addressLines.filter { !$0.isXMLBlank }
        if filled.count > 4 { faults.append(.init(elements.line, .tooManyLines)) }
        if filled.isEmpty { faults.append(.init(elements.line, .missing)) }
        let lines = filled.prefix(4).compactMap { value($0, elements.line, Length.addressLine) }
        let city = value(party.city, elements.city, Length.city)
        let division = value(party.mainDivision, elements.mainDivision, Length.mainDivision, isRequired: false)
        let country = value(party.countryCode, elements.countryCode, Length.countryCode)
        let postalCode = value(party.postalCode, elements.postalCode, Length.postalCode, isRequired: false)
        guard faults.isEmpty, let firstName, let lastName, let line1 = lines.first, let city, let country else {
            return nil
        }
        return CreditCardAuthRequest.Party(
            firstName: firstName, lastName: lastName, phoneNumber: phone,
            address: PhysicalAddress(
                line1: line1, line2: lines.dropFirst(1).first, line3: lines.dropFirst(2).first,
                line4: lines.dropFirst(3).first, city: city, mainDivision: division, countryCode: country,
                postalCode: postalCode))
    }
}
