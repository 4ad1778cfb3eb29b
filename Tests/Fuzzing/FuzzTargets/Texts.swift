import AuditChain
import Encodings
import Foundation
import Radial
import StrictJSON

extension FuzzTarget {
    /// An audit export. The verdict is the same for pieces of any size, and a record's CSV has one value for each column.
    ///
    /// The first octet is the size of the pieces.
    static let auditLines = FuzzTarget(name: "audit-lines", longest: 4096, sources: ["AuditChain"]) { input in
        guard let first = input.first else { return }
        let export = input.dropFirst()
        let size = Int(first) + 1
        var whole = ChainVerifier(keys: nil, readsPins: true)
        whole.consume(export)
        var inPieces = ChainVerifier(keys: nil, readsPins: true)
        for start in stride(from: export.startIndex, to: export.endIndex, by: size) {
            inPieces.consume(export[start..<min(start + size, export.endIndex)])
        }
        try expect(
            whole.verdict() == inPieces.verdict(), "the verdict depends on the pieces in which the export arrives")
        for line in export.split(separator: UInt8(ascii: "\n")).map(Array.init) {
            _ = SignedCheckpoint(line: line)
            _ = RecordArchive(line: line)
            _ = KeyPin(line: line)
            guard let entry = try? AuditEntry(line: line) else { continue }
            _ = RecordArchive(entry)
            _ = KeyStatesPart(entry)
            let row = AuditCSV.row(entry)
            try expect(row.suffix(2) == Array("\r\n".utf8)[...], "a row of CSV does not end with CR LF")
            try expect(
                fields(ofCSV: row.dropLast(2)) == AuditCSV.columns.count, "a row of CSV has another number of fields")
        }
    }

    /// The number of fields of one row of CSV (RFC 4180); nil if it is malformed.
    private static func fields(ofCSV row: ArraySlice<UInt8>) -> Int? {
        var (count, isQuoted, wasQuoted, isEmpty) = (1, false, false, true)
        for byte in row {
            switch byte {
            case UInt8(ascii: "\"") where isQuoted: (isQuoted, wasQuoted) = (false, true)
            // A quotation mark opens a field, or is the second of two in it.
            case UInt8(ascii: "\""):
                guard isEmpty || wasQuoted else { return nil }
                (isQuoted, wasQuoted) = (true, false)
            case UInt8(ascii: ",") where !isQuoted:
                count += 1
                (isEmpty, wasQuoted) = (true, false)
                continue
            case UInt8(ascii: "\r") where !isQuoted, UInt8(ascii: "\n") where !isQuoted: return nil
            default: guard !wasQuoted else { return nil }
            }
            isEmpty = false
        }
        return isQuoted ? nil : count
    }

    /// A PKCS#11 URI. Foundation decodes the same label, and the URI without its query names the same HSM token.
    static let tokenURI = FuzzTarget(
        name: "token-uri", longest: 1100, sources: ["Encodings/TokenURI.swift", "Encodings/PercentEncoding.swift"]
    ) { input in
        guard let text = String(validating: input, as: UTF8.self), let uri = try? TokenURI(text) else { return }
        guard let short = try? TokenURI(uri.withoutQuery) else {
            throw Disagreement("the URI without its query is refused")
        }
        try expect(
            short.label == uri.label && short.serialNumber == uri.serialNumber && short.manufacturer == uri.manufacturer
                && short.model == uri.model, "the URI without its query names another HSM token")
        try expect(
            input.prefix(7).map { $0 < 0x80 ? $0 | 0x20 : $0 } == Array("pkcs11:".utf8), "the scheme is not pkcs11")
        try expect(short.pinFile == nil && short.withoutQuery == uri.withoutQuery, "the query is still there")
        try expect(uri.pinFile?.hasPrefix("/") != false, "the PIN's file has no absolute path")
        let attributes = uri.withoutQuery.dropFirst("pkcs11:".count).split(separator: ";")
        for (name, value) in [
            ("token", uri.label), ("serial", uri.serialNumber), ("manufacturer", uri.manufacturer),
            ("model", uri.model),
        ] {
            let texts = attributes.filter { $0.hasPrefix(name + "=") }.map { $0.dropFirst(name.count + 1) }
            try expect(texts.count == (value == nil ? 0 : 1), "\(name) is not read as it is written")
            try expect(
                texts.first.flatMap { String($0).removingPercentEncoding } == value,
                "\(name) is decoded otherwise than by Foundation")
        }
    }

    /// Radial's XML as a request, as payment information and as a processor's reply. What the replies say is written as
    /// XML that is read with the same meaning.
    ///
    /// An input that begins with an octet below 9 is the content of a reply's elements instead. Each part up to a zero octet
    /// begins with the element's position.
    static let radialXML = FuzzTarget(name: "radial-xml", longest: 4096, sources: ["Radial"]) { input in
        let input = input.first.map { $0 < 9 } == true ? reply(with: input) : input
        _ = try? WalletPaymentInformation(parsing: input)
        _ = try? CreditCardAuthRequest(parsing: input)
        guard let reply = try? RadialReply(parsing: input), case .reply(let reply) = reply else { return }
        // Version 1.2 has all elements.
        guard let version = SchemaVersion("1.2") else { throw Disagreement("1.2 is no version") }
        let document = reply.document(for: version, withAccountInformation: true)
        guard let again = try? RadialReply(parsing: document), case .reply(let second) = again else {
            throw Disagreement("the document of an accepted reply is refused")
        }
        try expect(second == reply, "the document of an accepted reply has another meaning")
    }

    private static func reply(with contents: [UInt8]) -> [UInt8] {
        var elements = [
            ("ResponseCode", "APPROVED"), ("AuthorizationResponseCode", "AP01"), ("BankAuthorizationCode", "614653"),
            ("CVV2ResponseCode", "0"), ("AVSResponseCode", "E"), ("PhoneResponseCode", ""), ("OrderId", "1"),
            ("TenderType", "VC"), ("AmountAuthorized", "15.00"),
        ].map { (name: $0, content: Array($1.utf8)) }
        for part in contents.split(separator: 0) {
            elements[Int(part[part.startIndex]) % elements.count].content = Array(part.dropFirst())
        }
        func element(_ name: String, _ attribute: String = "") -> [UInt8] {
            let content = elements.first { $0.name == name }?.content ?? []
            return Array("<\(name)\(attribute)>".utf8) + content + Array("</\(name)>".utf8)
        }
        let beginning = #"<CreditCardAuthReply xmlns="http://api.gsicommerce.com/schema/checkout/1.0"><PaymentContext>"#
        let account =
            #"<PaymentAccountUniqueId isToken="true">4054131ImpMJ6965</PaymentAccountUniqueId></PaymentContext>"#
        return Array(beginning.utf8) + element("OrderId") + Array(account.utf8)
            + elements.prefix(6).flatMap { element($0.name) } + element("AmountAuthorized", #" currencyCode="USD""#)
            + element("TenderType") + Array("</CreditCardAuthReply>".utf8)
    }
}
