import Encodings

/// A bar chart as SVG, with one bar for each ``ReportStep`` of the period. It needs no script and no external font.
struct Chart {
    /// The chart's title, which screen readers read instead of the bars.
    let title: String
    let steps: [ReportStep]
    let values: [Int]

    private static let (width, height, base) = (640.0, 96.0, 78.0)

    var svg: String {
        let most = max(1, values.max() ?? 1)
        let left = 56.0
        let pitch = (Self.width - left) / Double(max(1, steps.count))
        var svg =
            "<figure><figcaption>\(PageWriter.escaped(title))</figcaption>"
            + "<svg viewBox=\"0 0 640 96\" role=\"img\" aria-label=\"\(PageWriter.escaped(title)): at most "
            + "\(most.grouped) in one step\">"
        svg += "<line class=\"axis\" x1=\"56\" x2=\"640\" y1=\"\(Self.base)\" y2=\"\(Self.base)\"/>"
        svg += "<text x=\"50\" y=\"16\" text-anchor=\"end\">\(most.grouped)</text>"
        svg += "<text x=\"50\" y=\"\(Self.base)\" text-anchor=\"end\">0</text>"
        for (index, value) in values.enumerated() where index < steps.count {
            let height = Double(value) / Double(most) * (Self.base - 10)
            let x = left + Double(index) * pitch
            if value > 0 {
                // Keep a bar visible even if it is tiny compared with the others.
                let shown = max(height, 1)
                svg +=
                    "<rect x=\"\(Self.text(x + pitch * 0.1))\" y=\"\(Self.text(Self.base - shown))\" "
                    + "width=\"\(Self.text(pitch * 0.8))\" height=\"\(Self.text(shown))\"><title>"
                    + "\(steps[index].text): \(value.grouped)</title></rect>"
            }
        }
        for index in labelled {
            let x = left + Double(index) * pitch + pitch / 2
            svg += "<text x=\"\(Self.text(x))\" y=\"92\" text-anchor=\"middle\">\(steps[index].text)</text>"
        }
        return svg + "</svg></figure>\n"
    }

    /// The indexes of the steps whose dates are shown. At most six are shown, since more would overlap.
    private var labelled: [Int] {
        guard steps.count > 6 else { return Array(steps.indices) }
        let stride = (steps.count + 5) / 6
        return Swift.stride(from: stride / 2, to: steps.count, by: stride).map { $0 }
    }

    /// Returns a coordinate with one decimal digit, which is finer than a screen can show.
    private static func text(_ value: Double) -> String { String((value * 10).rounded() / 10) }
}
