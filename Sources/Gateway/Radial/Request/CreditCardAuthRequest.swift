/// A backend's request to pay with an encrypted payment token: CreditCardAuthRequest of Radial's single-request flow.
///
/// The parser applies all restrictions in the table of request elements on Radial's page. Required values must not be
/// blank. The parser refuses an element that is in neither the table nor the schema. The amount is not in the document,
/// but in the payment token.
public struct CreditCardAuthRequest: Sendable, Equatable {
    /// The attribute requestId, 1 to 40 characters. A backend may omit the attribute: the schema requires it, but
    /// Radial's table does not mention it.
    public let requestId: String?
    public let wallet: WalletPaymentInformation
    /// 1 to 20 characters.
    public let orderId: String
    public let billing: Party
    /// 1 to 70 characters.
    public let customerEmail: String
    /// An IPv4 address, such as `192.0.2.1`.
    public let customerIPAddress: String
    public let shipTo: Party
    /// ``SchemaVersion/absent`` if the request states none, as in the example on Radial's page.
    public let schemaVersion: SchemaVersion
    /// Features/IncludePaymentAccountInformation: true to include the BIN prefix and the PAN suffixes in the reply.
    public let includesPaymentAccountInformation: Bool

    /// The receiver of a bill or a parcel.
    public struct Party: Sendable, Equatable {
        public var firstName: String
        public var lastName: String
        /// The telephone number. Required for a billing party; nil if a shipping party's is omitted or empty.
        public var phoneNumber: String?
        public var address: PhysicalAddress

        public init(firstName: String, lastName: String, phoneNumber: String?, address: PhysicalAddress) {
            self.firstName = firstName
            self.lastName = lastName
            self.phoneNumber = phoneNumber
            self.address = address
        }
    }

    private static let name = "CreditCardAuthRequest"

    private static let children: Set = [
        WalletPaymentInformation.name, "OrderId", "BillingFirstName", "BillingLastName", "BillingPhoneNo",
        "BillingAddress", "CustomerEmail", "CustomerIPAddress", "ShipToFirstName", "ShipToLastName", "ShipToPhoneNo",
        "ShippingAddress", "SchemaVersion", "Features",
    ]

    /// Parses the document.
    ///
    /// - Throws: ``DocumentError`` with the path of the first faulty element.
    public init(parsing bytes: [UInt8], limits: XMLLimits = XMLLimits()) throws(DocumentError) {
        let root = try ElementFields.root(bytes, Self.name, limits: limits)
        let fields = try ElementFields(
            root, path: Self.name, children: Self.children, attributes: ["requestId"], unknown: .refused)
        requestId = fields.attribute("requestId")
        if let requestId, !Length.requestId.contains(requestId.unicodeScalars.count) {
            throw DocumentError(.length(Length.requestId), "\(Self.name)/@requestId", line: root.line)
        }
        wallet = try WalletPaymentInformation(
            fields.required(WalletPaymentInformation.name), path: fields.path(WalletPaymentInformation.name))
        orderId = try fields.requiredText("OrderId", Length.orderId)
        billing = Party(
            firstName: try fields.requiredText("BillingFirstName", Length.name),
            lastName: try fields.requiredText("BillingLastName", Length.name),
            phoneNumber: try fields.requiredText("BillingPhoneNo", Length.name),
            address: try PhysicalAddress(fields.required("BillingAddress"), path: fields.path("BillingAddress")))
        customerEmail = try fields.requiredText("CustomerEmail", Length.email)
        customerIPAddress = try fields.requiredText("CustomerIPAddress", 1...256)
        guard IPv4Address.isDottedQuad(customerIPAddress) else {
            throw fields.fault(.notAnIPv4Address, "CustomerIPAddress")
        }
        let phone = try fields.text("ShipToPhoneNo", atMost: Length.name.upperBound)
        shipTo = Party(
            firstName: try fields.requiredText("ShipToFirstName", Length.name),
            lastName: try fields.requiredText("ShipToLastName", Length.name),
            phoneNumber: phone.flatMap { $0.isXMLBlank ? nil : $0 },
            address: try PhysicalAddress(fields.required("ShippingAddress"), path: fields.path("ShippingAddress")))
        if let stated = try fields.nonblankText("SchemaVersion", 1...32) {
            guard let version = SchemaVersion(stated) else { throw fields.fault(.notASchemaVersion, "SchemaVersion") }
            schemaVersion = version
        } else {
            schemaVersion = .absent
        }
        includesPaymentAccountInformation = try Self.features(fields)
    }

    private static func features(_ fields: ElementFields) throws(DocumentError) -> Bool {
        guard let element = fields.element("Features") else { return false }
        let features = try ElementFields(
            element, path: fields.path("Features"), children: ["IncludePaymentAccountInformation"], unknown: .refused)
        return try features.boolean("IncludePaymentAccountInformation") ?? false
    }
}
