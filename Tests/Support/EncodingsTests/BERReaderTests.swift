import Encodings
import SwiftASN1
import TestSupport
import Testing
import TokenForge

@Suite("Elements of BER and DER, X.690 §8 and §10")
struct BERReaderTests {
    /// SEQUENCE { INTEGER 5, [0] { OCTET STRING 01 02 } }, in which both constructed elements have an indefinite
    /// length.
    private static let indefinite: [UInt8] = [
        0x30, 0x80, 0x02, 0x01, 0x05, 0xA0, 0x80, 0x04, 0x02, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00,
    ]

    @Test("Reports each element's position, for definite and indefinite lengths")
    func ranges() throws {
        var reader = BERReader(Self.indefinite, .basic)
        let sequence = try reader.next(BERElement.sequence)
        #expect(sequence.range == 0..<15)
        #expect(sequence.content == 2..<13)
        #expect(reader.isAtEnd)
        var members = try reader.elements(of: sequence)
        let number = try members.next(BERElement.integer)
        #expect(Array(members.encoding(of: number)) == [0x02, 0x01, 0x05])
        #expect(Array(members.content(of: number)) == [0x05])
        #expect(members.nextIdentifier == BERElement.constructed(contextSpecific: 0))
        let tagged = try members.next()
        #expect(members.isAtEnd)
        #expect(members.nextIdentifier == nil)
        var inside = try members.elements(of: tagged)
        #expect(Array(inside.content(of: try inside.next(BERElement.octetString))) == [1, 2])
        #expect(inside.isAtEnd)
    }

    @Test("Refuses an encoding that is truncated anywhere, without reading past its end")
    func truncated() {
        for count in Self.indefinite.indices {
            var reader = BERReader(Array(Self.indefinite[..<count]), .basic)
            #expect(throws: BERReader.Malformed.self) { try reader.next() }
        }
    }

    @Test(
        "Refuses encodings that neither BER nor DER permits",
        arguments: [
            [], [0x30], [0x1F, 0x01, 0x00], [0x00, 0x00], [0x20, 0x80, 0x00, 0x00], [0x04, 0x80, 0x00, 0x00],
            [0x04, 0x02, 0x01], [0x04, 0x85, 0, 0, 0, 0, 0], [0x04, 0xFF, 0x01], [0x04, 0x84, 0x7F, 0xFF, 0xFF, 0xFF],
            [0x30, 0x80, 0x02, 0x01], [0x30, 0x80, 0x02, 0x01, 0x05], [0x30, 0x80, 0x00],
        ] as [[UInt8]])
    func refused(bytes: [UInt8]) {
        for rules in [BERReader.Rules.basic, .distinguished] {
            var reader = BERReader(bytes, rules)
            #expect(throws: BERReader.Malformed.self) { try reader.next() }
        }
    }

    @Test(
        "Permits indefinite lengths, and lengths in more octets than needed, in BER only",
        arguments: [
            [0x30, 0x80, 0x00, 0x00], [0x04, 0x81, 0x01, 0x09], [0x04, 0x82, 0x00, 0x01, 0x09], [0x04, 0x81, 0x00],
            [0x04, 0x82, 0x00, 0x80] + [UInt8](repeating: 9, count: 128),
        ] as [[UInt8]])
    func rules(bytes: [UInt8]) throws {
        var basic = BERReader(bytes, .basic)
        #expect(try basic.next().range == bytes.indices)
        var distinguished = BERReader(bytes, .distinguished)
        #expect(throws: BERReader.Malformed.self) { try distinguished.next() }
    }

    @Test(
        "Reads a DER length of every size, encoded in the fewest octets",
        arguments: [0, 1, 127, 128, 255, 256, 65_535, 65_536])
    func lengths(count: Int) throws {
        var serializer = DER.Serializer()
        try serializer.serialize(ASN1OctetString(contentBytes: [UInt8](repeating: 7, count: count)[...]))
        var reader = BERReader(serializer.serializedBytes, .distinguished)
        #expect(try reader.next(BERElement.octetString).content.count == count)
        #expect(reader.isAtEnd)
    }

    @Test("Refuses elements nested deeper than the limit")
    func depth() throws {
        func nested(_ depth: Int) -> [UInt8] {
            (0..<depth).flatMap { _ in [0x30, 0x80] as [UInt8] } + [UInt8](repeating: 0, count: 2 * depth)
        }
        var shallow = BERReader(nested(BERReader.maximumDepth), .basic)
        #expect(throws: Never.self) { try shallow.next() }
        var deep = BERReader(nested(BERReader.maximumDepth + 1), .basic)
        #expect(throws: BERReader.Malformed.self) { try deep.next() }
        // `next()` does not read inside an element of definite length. There, only `checkNested()` limits the depth.
        var definite: [UInt8] = []
        for _ in 0..<BERReader.maximumDepth { definite = [0x30, UInt8(definite.count)] + definite }
        #expect(throws: Never.self) { try BERReader(definite, .distinguished).checkNested() }
        #expect(throws: BERReader.Malformed.self) {
            try BERReader([0x30, UInt8(definite.count)] + definite, .distinguished).checkNested()
        }
    }

    @Test("Reads the same elements of a signature as swift-asn1, and accepts nothing that swift-asn1 refuses")
    func agreesWithSwiftASN1() throws {
        for wire in [WireForm.since2014, .since2023, .distinguished] {
            let signature = try SharedForge.mint.mint(
                TokenRecipe(merchant: SharedForge.ecMerchant.merchant, wire: wire)
            )
            .signature
            try Self.compare(BERReader(signature, .basic), [try BER.parse(signature)])
            var generator = SeededGenerator(seed: 20_261_122)
            for _ in 0..<4_000 {
                var changed = signature
                for _ in 0..<Int.random(in: 1...3, using: &generator) {
                    let position = Int.random(in: changed.indices, using: &generator)
                    switch Int.random(in: 0..<3, using: &generator) {
                    case 0: changed[position] = UInt8.random(in: .min ... .max, using: &generator)
                    case 1: changed.remove(at: position)
                    default: changed.insert([0x00, 0x30, 0x80].randomElement(using: &generator) ?? 0, at: position)
                    }
                }
                var reader = BERReader(changed, .basic)
                guard (try? reader.next()) != nil, reader.isAtEnd,
                    (try? BERReader(changed, .basic).checkNested()) != nil
                else { continue }
                let node = try BER.parse(changed)
                try Self.compare(BERReader(changed, .basic), [node])
            }
        }
    }

    private static func compare(_ reader: BERReader, _ nodes: some Sequence<ASN1Node>) throws {
        var reader = reader
        for node in nodes {
            let element = try reader.next()
            #expect(reader.encoding(of: element) == node.encodedBytes)
            switch node.content {
            case .primitive(let content): #expect(reader.content(of: element) == content)
            case .constructed(let children): try compare(reader.elements(of: element), children)
            }
        }
        #expect(reader.isAtEnd)
    }
}
