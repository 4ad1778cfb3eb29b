import Encodings
import Testing

@Suite("Grouped digits")
struct GroupedDigitsTests {
    @Test("Groups thousands", arguments: [(0, "0"), (999, "999"), (1000, "1,000"), (-1_234_567, "-1,234,567")])
    func grouped(number: Int, text: String) {
        #expect(number.grouped == text)
    }
}
