extension Int {
    /// The number with commas between thousands, for human readers: `1,234,567`.
    public var grouped: String {
        var text = ""
        for (position, digit) in String(magnitude).reversed().enumerated() {
            if position > 0, position % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        return (self < 0 ? "-" : "") + String(text.reversed())
    }
}
