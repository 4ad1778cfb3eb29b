/// An address of BillingAddress or ShippingAddress, with the lengths of Radial's table.
public struct PhysicalAddress: Sendable, Equatable {
    /// 1 to 70 characters.
    public var line1: String
    /// Lines 2 to 4, each 1 to 70 characters; nil if omitted.
    public var line2: String?
    public var line3: String?
    public var line4: String?
    /// 1 to 40 characters.
    public var city: String
    /// State or province, 1 to 35 characters.
    public var mainDivision: String?
    /// 2 to 40 characters; Radial recommends the two letters of ISO 3166-1.
    public var countryCode: String
    /// 1 to 15 characters.
    public var postalCode: String?

    public init(
        line1: String, line2: String? = nil, line3: String? = nil, line4: String? = nil, city: String,
        mainDivision: String? = nil, countryCode: String, postalCode: String? = nil
    ) {
        (self.line1, self.line2, self.line3, self.line4) = (line1, line2, line3, line4)
        (self.city, self.mainDivision) = (city, mainDivision)
        (self.countryCode, self.postalCode) = (countryCode, postalCode)
    }

    private static let children: Set = [
        "Line1", "Line2", "Line3", "Line4", "City", "MainDivision", "CountryCode", "PostalCode",
    ]

    init(_ element: XMLElement, path: String) throws(DocumentError) {
        let fields = try ElementFields(element, path: path, children: Self.children, unknown: .refused)
        line1 = try fields.requiredText("Line1", Length.addressLine)
        line2 = try fields.nonblankText("Line2", Length.addressLine)
        line3 = try fields.nonblankText("Line3", Length.addressLine)
        line4 = try fields.nonblankText("Line4", Length.addressLine)
        city = try fields.requiredText("City", Length.city)
        mainDivision = try fields.nonblankText("MainDivision", Length.mainDivision)
        countryCode = try fields.requiredText("CountryCode", Length.countryCode)
        postalCode = try fields.nonblankText("PostalCode", Length.postalCode)
    }
}

/// The numbers of characters that values may have according to Radial's table.
enum Length {
    static let orderId = 1...20
    static let addressLine = 1...70
    /// The limit in Radial's table. The published schema, which is older, permits only 35.
    static let city = 1...40
    static let mainDivision = 1...35
    static let countryCode = 2...40
    static let postalCode = 1...15
    static let email = 1...70
    /// The limit in the schema (RequestId).
    static let requestId = 1...40
    /// The limit for names and telephone numbers, for which Radial's table has no limit; no real value is longer.
    static let name = 1...256
}
