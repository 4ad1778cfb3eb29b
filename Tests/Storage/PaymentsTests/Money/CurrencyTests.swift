import Payments
import Testing

@Suite("Currencies of ISO 4217")
struct CurrencyTests {
    @Test(
        "gives each currency its letters, number and decimals",
        arguments: [
            ("USD", "840", 2), ("EUR", "978", 2), ("GBP", "826", 2), ("JPY", "392", 0), ("KRW", "410", 0),
            ("CLP", "152", 0),
            ("KWD", "414", 3), ("BHD", "048", 3), ("TND", "788", 3), ("AUD", "036", 2), ("ALL", "008", 2),
            ("VND", "704", 0),
        ])
    func known(_ letters: String, _ number: String, _ decimals: Int) {
        let currency = Currency(letters: letters)
        #expect(currency?.number == number)
        #expect(currency?.decimals == decimals)
        #expect(currency == Currency(number: number))
    }

    @Test(
        "excludes metals, funds, test codes, withdrawn and misspelt currencies",
        arguments: [
            "XAU", "XXX", "XTS", "XDR", "CHE", "CLF", "USN", "DEM", "BGN", "ANG", "usd", "US", "USDX", "", "US\u{0}",
        ])
    func unknown(_ letters: String) {
        #expect(Currency(letters: letters) == nil)
    }

    @Test(
        "accepts only three ASCII digits that ISO 4217 assigns to a currency",
        arguments: ["36", "0036", "999", "000", "", "8 4", "-40", "٨٤٠"])
    func numbers(_ number: String) {
        #expect(Currency(number: number) == nil)
    }

    @Test("lists each currency once, with three letters and three digits")
    func table() {
        for currency in Currency.all {
            #expect(currency.letters.utf8.count == 3 && currency.letters.allSatisfy { $0.isASCII && $0.isUppercase })
            #expect(currency.number.utf8.count == 3 && currency.number.allSatisfy { $0.isASCII && $0.isNumber })
            #expect((0...4).contains(currency.decimals))
        }
        #expect(Currency.all.count == 157)
        #expect(Currency.all.map(\.letters) == Currency.all.map(\.letters).sorted())
    }
}
