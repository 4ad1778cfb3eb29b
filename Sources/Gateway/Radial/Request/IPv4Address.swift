/// The schema's IPv4Address: four numbers from 0 to 255 separated by points, none with a leading zero.
enum IPv4Address {
    static func isDottedQuad(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        return parts.count == 4
            && parts.allSatisfy { part in
                (1...3).contains(part.count) && part.allSatisfy(digits.contains)
                    && (part.count == 1 || part.first != digits.lowerBound)
                    && part.reduce(0) { $0 * 10 + Int($1 - digits.lowerBound) } <= 255
            }
    }
}
