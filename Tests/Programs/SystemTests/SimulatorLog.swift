import Foundation
import StrictJSON

/// Reader of processor-simulator's log, which contains the submissions.
enum SimulatorLog {
    /// Returns the number of submissions for each transaction identifier.
    static func submissions(in path: String) throws -> [String: Int] {
        let text = try String(contentsOfFile: path, encoding: .utf8)
        return try text.split(separator: "\n").reduce(into: [:]) { count, line in
            let entry = try JSONValue(parsing: String(line)).objectValue
            guard entry?["event"]?.stringValue == "submitted", let payment = entry?["payment"]?.stringValue else {
                return
            }
            count[payment, default: 0] += 1
        }
    }
}
