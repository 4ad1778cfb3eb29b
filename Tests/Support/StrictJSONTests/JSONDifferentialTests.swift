import Foundation
import StrictJSON
import Testing

@Suite("JSON compared with Foundation's reader")
struct JSONDifferentialTests {
    @Test("Reads generated documents as JSONSerialization does", arguments: 0..<40 as Range<UInt64>)
    func generatedDocuments(seed: UInt64) throws {
        var generator = Generator(state: seed &* 0x9E37_79B9_7F4A_7C15 &+ 1)
        for _ in 0..<25 {
            let text = generator.document(depth: 0)
            let ours = try JSONValue(parsing: text)
            let theirs = try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)
            #expect(agrees(ours, theirs), "\(text)")
        }
    }

    @Test(
        "Accepts a document with one changed byte exactly if JSONSerialization does, except for duplicate members",
        arguments: 0..<20 as Range<UInt64>)
    func changedDocuments(seed: UInt64) {
        var generator = Generator(state: seed &* 0xD134_2543_DE82_EF95 &+ 7)
        for _ in 0..<50 {
            var bytes = [UInt8](generator.document(depth: 0).utf8)
            let position = Int(generator.next(below: UInt64(bytes.count)))
            let replacements = Array("{}[]:,\"\\ 0129eE+-.tfn".utf8)
            bytes[position] = replacements[Int(generator.next(below: UInt64(replacements.count)))]
            let theirs = try? JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
            switch kind(of: bytes) {
            case nil: #expect(theirs != nil, "\(String(decoding: bytes, as: UTF8.self))")
            // Foundation accepts a repeated member name, which this parser refuses.
            case .duplicateMember: break
            default: #expect(theirs == nil, "\(String(decoding: bytes, as: UTF8.self))")
            }
        }
    }

    private func agrees(_ ours: JSONValue, _ theirs: Any) -> Bool {
        switch ours {
        case .null: theirs is NSNull
        case .bool(let value): (theirs as? Bool) == value
        case .number(let number): (theirs as? NSNumber)?.doubleValue == Double(number.text)
        case .string(let text): (theirs as? String).map { other in other.utf8.elementsEqual(text.utf8) } ?? false
        case .array(let elements):
            (theirs as? [Any]).map { others in
                others.count == elements.count && zip(elements, others).allSatisfy { pair in agrees(pair.0, pair.1) }
            } ?? false
        case .object(let object):
            (theirs as? [String: Any]).map { others in
                others.count == object.members.count
                    && object.members.allSatisfy { member in
                        others[member.name].map { other in agrees(member.value, other) } ?? false
                    }
            } ?? false
        }
    }
}

/// Generates random JSON documents; equal seeds give equal documents.
private struct Generator {
    var state: UInt64

    /// Returns a random number below `bound` by the generator Xorshift64*.
    mutating func next(below bound: UInt64) -> UInt64 {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return (state &* 0x2545_F491_4F6C_DD1D) >> 16 % bound
    }

    mutating func document(depth: Int) -> String {
        switch next(below: depth < 5 ? 9 : 6) {
        case 0: "null"
        case 1: "true"
        case 2: "false"
        case 3: number()
        case 4, 5: string()
        case 6: space() + "[" + list { generator in generator.document(depth: depth + 1) } + "]" + space()
        default:
            "{" + members(depth: depth) + "}" + space()
        }
    }

    private mutating func members(depth: Int) -> String {
        let count = next(below: 20)
        return (0..<count).map { index in
            space() + "\"\(index):" + string().dropFirst() + space() + ":" + document(depth: depth + 1)
        }.joined(separator: ",")
    }

    private mutating func list(_ element: (inout Generator) -> String) -> String {
        let count = next(below: 5)
        return (0..<count).map { _ in element(&self) }.joined(separator: "," + space())
    }

    private mutating func space() -> String {
        ["", "", " ", "\n", "\t\r"][Int(next(below: 5))]
    }

    private mutating func number() -> String {
        var text = next(below: 2) == 0 ? "-" : ""
        text += String(next(below: [1, 10, 100_000][Int(next(below: 3))]))
        if next(below: 2) == 0 { text += "." + String(next(below: 1_000)) }
        if next(below: 3) == 0 { text += ["e", "E", "e+", "E-"][Int(next(below: 4))] + String(next(below: 30)) }
        return text
    }

    private mutating func string() -> String {
        let pieces = [
            "a", "0", "~", " ", "é", "€", "𝄞", "\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\u00e9", "\\uD834\\uDD1E",
            "\u{7F}",
        ]
        let count = next(below: 8)
        return "\"" + (0..<count).map { _ in pieces[Int(next(below: UInt64(pieces.count)))] }.joined() + "\""
    }
}
