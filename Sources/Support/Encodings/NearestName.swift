/// Suggests the known name that the user probably meant.
package enum NearestName {
    /// The nearest name; nil if more than a third of the longer name's letters would have to change.
    package static func suggestion(for text: String, among names: [String]) -> String? {
        guard text.utf8.count <= 64 else { return nil }
        let candidates = names.map { (name: $0, distance: distance(text.lowercased(), $0)) }
        guard let nearest = candidates.min(by: { $0.distance < $1.distance }),
            nearest.distance * 3 <= max(text.count, nearest.name.count)
        else { return nil }
        return nearest.name
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
