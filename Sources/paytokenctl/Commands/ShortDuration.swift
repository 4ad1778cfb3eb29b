import ArgumentParser

/// A duration as the configuration writes it: a whole number and `ms`, `s`, `m`, `h` or `d`.
struct ShortDuration: ExpressibleByArgument, Equatable {
    let seconds: Double

    init?(argument: String) {
        let digits = argument.prefix { ("0"..."9").contains($0) }
        // Ten thousand years of days: more only overflows the calendar.
        guard let number = Int(digits), digits.utf8.count <= 12 else { return nil }
        let unit: Double
        switch argument.dropFirst(digits.count) {
        case "ms": unit = 0.001
        case "s": unit = 1
        case "m": unit = 60
        case "h": unit = 3_600
        case "d": unit = 86_400
        default: return nil
        }
        seconds = Double(number) * unit
        guard seconds <= 3_652_425 * 86_400 else { return nil }
    }
}
