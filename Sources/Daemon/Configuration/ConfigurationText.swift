/// Texts from the file: which are taken, and how they are shown.
enum ConfigurationText {
    /// No control characters.
    static func isPlain(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F } && text.utf8.count <= 4096
    }

    /// 1 to 64 letters, digits, `.`, `_`, `-` and `@`: what fits a metric's label and a record without escapes.
    static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.unicodeScalars.allSatisfy {
                $0.isASCII
                    && ($0.properties.isAlphabetic || $0.properties.numericType != nil
                        || "._-@".unicodeScalars.contains($0))
            }
    }

    /// A text of the file within a message, cut and without control characters.
    static func shown(_ text: String) -> String {
        let scalars = text.unicodeScalars.prefix(64).map { $0.value >= 0x20 && $0.value != 0x7F ? Character($0) : "?" }
        return String(scalars) + (text.unicodeScalars.count > 64 ? "…" : "")
    }
}

/// The known key that an unknown one was probably meant to be.
enum NearestKey {
    /// nil when nothing is near: more than a third of the longer one's letters would have to change.
    static func suggestion(for text: String, among keys: [String]) -> String? {
        guard text.utf8.count <= 64 else { return nil }
        let candidates = keys.map { (key: $0, distance: distance(text.lowercased(), $0)) }
        guard let nearest = candidates.min(by: { $0.distance < $1.distance }),
            nearest.distance * 3 <= max(text.count, nearest.key.count)
        else { return nil }
        return nearest.key
    }

    /// Levenshtein's distance in bytes.
    private static func distance(_ first: String, _ second: String) -> Int {
        let second = Array(second.utf8)
        var row = Array(0...second.count)
        for (index, byte) in first.utf8.enumerated() {
            var diagonal = row[0]
            row[0] = index + 1
            for column in second.indices {
                let substitution = diagonal + (byte == second[column] ? 0 : 1)
                diagonal = row[column + 1]
                row[column + 1] = min(substitution, row[column] + 1, diagonal + 1)
            }
        }
        return row[second.count]
    }
}
