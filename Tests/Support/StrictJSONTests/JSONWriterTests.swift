import StrictJSON
import Testing

@Suite("JSON writer")
struct JSONWriterTests {
    @Test("Writes commas between members and elements, and nowhere else")
    func commas() {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("a")
        writer.beginArray()
        writer.number(1)
        writer.bool(true)
        writer.null()
        writer.beginObject()
        writer.endObject()
        writer.beginArray()
        writer.endArray()
        writer.endArray()
        writer.member("b")
        writer.string("x")
        writer.member("c")
        writer.rawValue(Array("{\"raw\": 1}".utf8))
        writer.member("d")
        writer.number(0.5)
        writer.endObject()
        #expect(
            String(decoding: writer.bytes, as: UTF8.self)
                == #"{"a":[1,true,null,{},[]],"b":"x","c":{"raw": 1},"d":0.5}"#)
    }

    @Test("Writes characters of every UTF-8 length so that they read back the same")
    func escapes() throws {
        let text = String(String.UnicodeScalarView((0..<0x100).compactMap(Unicode.Scalar.init))) + "\u{20AC}\u{1D11E}"
        var writer = JSONWriter()
        writer.string(text)
        #expect(try JSONValue(parsing: writer.bytes) == .string(text))
        #expect(writer.bytes.allSatisfy { byte in byte >= 0x20 && byte != 0x7F })
    }

    @Test("Writes NaN and infinity as null")
    func notFinite() {
        for value in [Double.nan, .infinity, -.infinity] {
            var writer = JSONWriter()
            writer.number(value)
            #expect(writer.bytes == Array("null".utf8))
        }
    }

    @Test("Writes doubles of any magnitude as JSON numbers that read back the same")
    func doubles() throws {
        for value in [
            0, -0.0, 1, 0.1, 1e-7, 123_456.789, 1e22, 1.7976931348623157e308, .leastNonzeroMagnitude, -2.5e17,
        ] {
            var writer = JSONWriter()
            writer.number(value)
            let number = try #require(try JSONValue(parsing: writer.bytes).numberValue)
            #expect(Double(number.text) == value)
        }
    }

    @Test("Writes a parsed value as the same text, without white space")
    func roundTrip() throws {
        let text = #"{"a":[1.50,-0,{"b":null}],"c":"é\n","":{}}"#
        let value = try JSONValue(parsing: text)
        var writer = JSONWriter()
        writer.value(value)
        #expect(String(decoding: writer.bytes, as: UTF8.self) == text)
    }
}
