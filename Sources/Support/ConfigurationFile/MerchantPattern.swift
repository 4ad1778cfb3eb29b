/// A merchant identifier in which `*` matches any number of characters, including none: `merchant.com.example.*`.
package struct MerchantPattern: Sendable, Equatable {
    package let text: String

    package init(_ text: String) {
        self.text = text
    }

    /// Returns true if the identifier matches. It compares bytes, including case, because identifiers are opaque.
    package func matches(_ merchantIdentifier: String) -> Bool {
        // A greedy search that backtracks to the last star: linear space, and at worst quadratic time, never
        // exponential.
        let pattern = Array(text.utf8)
        let name = Array(merchantIdentifier.utf8)
        let star = UInt8(ascii: "*")
        var patternIndex = 0
        var nameIndex = 0
        var afterStar: (pattern: Int, name: Int)?
        while nameIndex < name.count {
            if patternIndex < pattern.count, pattern[patternIndex] == star {
                afterStar = (patternIndex + 1, nameIndex)
                patternIndex += 1
            } else if patternIndex < pattern.count, pattern[patternIndex] == name[nameIndex] {
                patternIndex += 1
                nameIndex += 1
            } else if let restart = afterStar {
                afterStar = (restart.pattern, restart.name + 1)
                patternIndex = restart.pattern
                nameIndex = restart.name + 1
            } else {
                return false
            }
        }
        return pattern[patternIndex...].allSatisfy { $0 == star }
    }
}
