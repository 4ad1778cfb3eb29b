import Radial
import StrictJSON
import Testing

@Suite("WalletPaymentInformation")
struct WalletPaymentInformationTests {
    /// The element WalletPaymentInformation of the published request, as a separate document.
    private static let document: String = {
        let request = PublishedExamples.request
        return Documents.element("WalletPaymentInformation", in: request).replacing(
            "<WalletPaymentInformation>", with: "<WalletPaymentInformation xmlns=\"\(radialNamespace)\">")
    }()

    private func read(_ document: String) throws(DocumentError) -> WalletPaymentInformation {
        try WalletPaymentInformation(parsing: Array(document.utf8))
    }

    private func fault(_ old: String, _ new: String) -> DocumentError? {
        precondition(Self.document.contains(old), "the example has no such text")
        do {
            _ = try read(Self.document.replacing(old, with: new))
            return nil
        } catch { return error }
    }

    @Test("reads the published payment token as a separate document and in its request")
    func published() throws {
        let wallet = try read(Self.document)
        #expect(wallet.transactionId == "84a7e17570c940f6a268d9121a4c090f1d2e22bab4da0f2054c7ba53035dc79a")
        #expect(wallet.publicKeyHash == "i3F+FlIbyhjfYqMqm3M/dpeWRO9tnD+U9BJng3tkkig=")
        #expect(wallet.version == "EC_v1")
        #expect(wallet.ephemeralPublicKey.hasPrefix("MFkwEwYHKoZIzj0CAQYI"))
        #expect(wallet.data.hasSuffix("HGrOoc/I="))
        #expect(wallet.signature.hasPrefix("MIAGCSqGSIb3DQEHAqCA"))
        #expect(wallet.applicationData == nil)
        #expect(try CreditCardAuthRequest(parsing: Documents.request).wallet == wallet)
    }

    @Test("writes paymentData as Apple does, in JSON")
    func paymentData() throws {
        let wallet = try read(Self.document)
        let object = try #require(try JSONValue(parsing: wallet.paymentData).objectValue)
        #expect(object.members.map(\.name) == ["version", "data", "signature", "header"])
        #expect(object["version"]?.stringValue == "EC_v1")
        #expect(object["data"]?.stringValue == wallet.data)
        #expect(object["signature"]?.stringValue == wallet.signature)
        let header = try #require(object["header"]?.objectValue)
        #expect(header.members.map(\.name) == ["ephemeralPublicKey", "publicKeyHash", "transactionId"])
        #expect(header["ephemeralPublicKey"]?.stringValue == wallet.ephemeralPublicKey)
        #expect(header["publicKeyHash"]?.stringValue == wallet.publicKeyHash)
        #expect(header["transactionId"]?.stringValue == wallet.transactionId)
    }

    @Test("reads the extension ApplicationData: 64 hexadecimal digits that become the header's applicationData")
    func applicationData() throws {
        let hash = "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"
        let wallet = try read(
            Self.document.replacing("<Version>", with: "<ApplicationData>\(hash)</ApplicationData><Version>"))
        #expect(wallet.applicationData == hash.lowercased())
        let header = try #require(
            try JSONValue(parsing: wallet.paymentData).objectValue?["header"]?.objectValue)
        #expect(header["applicationData"]?.stringValue == hash.lowercased())
        #expect(
            fault("<Version>", "<ApplicationData>\(hash.dropLast(2))</ApplicationData><Version>")
                == DocumentError(.notHexadecimal(digits: 64), "WalletPaymentInformation/ApplicationData", line: 5))
        #expect(fault("<Version>", "<ApplicationData> </ApplicationData><Version>")?.reason == .blank)
    }

    @Test("ignores white space in values, because Radial's examples wrap them")
    func lineBreaks() throws {
        let broken = Self.document
            .replacing("MFkwEwYHKoZIzj0CAQYI", with: "MFkwEwYHKoZI\r\n   zj0CAQYI\t")
            .replacing("dc79a</ApplePay", with: "dc79a\n    </ApplePay")
            .replacing("84a7e175", with: "84A7E175")
            .replacing("EC_v1", with: "\n EC_v1 \n")
        #expect(try read(broken) == read(Self.document))
    }

    @Test(
        "requires each part, not blank",
        arguments: ["ApplePayTransactionId", "EphemeralPublicKey", "PublicKeyHash", "Version", "Data", "Signature"])
    func required(_ name: String) {
        let path = "WalletPaymentInformation/\(name)"
        let element = Documents.element(name, in: Self.document)
        #expect(fault(element, "")?.somewhere == DocumentError(.missing, path))
        #expect(fault(element, "<\(name)/>")?.somewhere == DocumentError(.blank, path))
        #expect(fault(element, element + element)?.somewhere == DocumentError(.repeated, path))
    }

    @Test(
        "refuses a payment token of an RSA key, which has no elements here, and says so",
        arguments: ["RSA_v1", "RSA_v2"]
    )
    func rsa(_ version: String) {
        let path = "WalletPaymentInformation/Version"
        #expect(fault("EC_v1", version)?.reason == .formatWithoutElements)
        #expect(fault("EC_v1", version)?.element == path)
        #expect(fault("EC_v1", version)?.description.contains("wrappedKey") == true)
        // In a document of version EC_v1, the element WrappedKey itself is the fault.
        #expect(fault("<Version>EC_v1", "<WrappedKey>AAAA</WrappedKey><Version>EC_v1")?.reason == .unknownElement)
    }

    @Test("refuses any other format", arguments: ["EC_v2", "ec_v1", "EC_V1", "EC v1"])
    func format(_ version: String) {
        #expect(fault("EC_v1", version)?.reason == .unknownFormat)
    }

    @Test("reports the element that is not base64, or of the wrong length")
    func encodings() {
        let path = "WalletPaymentInformation"
        #expect(fault("MFkwEwYH", "MFkw*wYH") == DocumentError(.notBase64, "\(path)/EphemeralPublicKey", line: 3))
        #expect(
            fault("i3F+FlIb", "FlIb") == DocumentError(.notBase64OfBytes(32), "\(path)/PublicKeyHash", line: 4))
        #expect(fault("GcUsL3Zg", "GcUsL3Z-") == DocumentError(.notBase64, "\(path)/Data", line: 6))
        #expect(fault("MIAGCSqG", "MIAG!SqG") == DocumentError(.notBase64, "\(path)/Signature", line: 7))
        #expect(
            fault("84a7e175", "84a7e17")
                == DocumentError(.notHexadecimal(digits: 64), "\(path)/ApplePayTransactionId", line: 2))
        #expect(fault("84a7e175", "84a7e17g")?.reason == .notHexadecimal(digits: 64))
    }

    @Test("has Radial's namespace as a separate document")
    func root() {
        let expected = DocumentError(.otherRoot, "WalletPaymentInformation", line: 1)
        #expect(fault(" xmlns=\"\(radialNamespace)\"", "") == expected)
        #expect(fault(radialNamespace, "urn:other") == expected)
        #expect(fault("WalletPaymentInformation", "WalletInformation") == expected)
    }
}
