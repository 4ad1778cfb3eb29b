import CommandOutput
import DaemonAPI
import Encodings
import Foundation

/// Rotations as text for display.
enum RotationText {
    /// One rotation with its steps, its keys and the next step.
    static func one(_ rotation: RotationStatus) -> String {
        let guidance = RotationGuidance(rotation)
        var text = Table(pairs: [
            ("Merchant", rotation.merchantIdentifier), ("Use", rotation.use), ("Algorithm", rotation.algorithm),
            ("Phase", rotation.phase),
        ]).text
        if !rotation.steps.isEmpty {
            text += "\n" + steps(rotation.steps, text: guidance.text)
        }
        if rotation.newKey != nil || !rotation.oldKeys.isEmpty { text += "\n" + keys(of: rotation) }
        if let node = rotation.refusedOn {
            text += line(
                "OPENED/H is counted over all hosts, \(refusedColumn(rotation)) by \(node) alone: run the command on each host "
                    + "for its own."
            )
        }
        return text + (rotation.remarks + ["Next: \(guidance.next)"]).map(line).joined()
    }

    /// The old keys that were deactivated.
    static func retired(_ answer: RotationFinishAnswer) -> String {
        var table = Table(columns: ["OLD KEY", "OPENS LATE PAYMENT TOKENS UNTIL"])
        for key in answer.retired { table.add([key, answer.cutOff.map(RFC3339.string) ?? "now"]) }
        return table.text
    }

    /// A table of steps.
    static func steps(_ steps: [RotationStatus.Step], text: (RotationStatus.Step) -> String) -> String {
        var table = Table(columns: ["STEP", "", ""])
        for step in steps { table.add([step.name, marks[step.status] ?? "-", text(step)]) }
        return table.text
    }

    /// A line after an empty one.
    static func line(_ text: String) -> String { "\n\(Printable.text(text))\n" }

    /// One line for each rotation.
    static func several(_ rotations: [RotationStatus]) -> Table {
        var table = Table(columns: [
            Table.Column("MERCHANT", shortening: .beginning), "USE", Table.Column("TYPE", importance: 2), "PHASE",
            Table.Column("NEW/H", importance: 3), Table.Column("OLD/H", importance: 4),
            Table.Column("NEXT", importance: 1, shortening: .words),
        ])
        for rotation in rotations {
            table.add([
                rotation.merchantIdentifier, rotation.use, rotation.algorithm, rotation.phase,
                String(rotation.newKey?.openedLastHour ?? 0),
                String(rotation.oldKeys.reduce(0) { $0 + $1.openedLastHour }), RotationGuidance(rotation).next,
            ])
        }
        return table
    }

    private static func keys(of rotation: RotationStatus) -> String {
        var table = Table(columns: [
            "KEY", "PUBLICKEYHASH", "STATE", "EXPIRES", rotation.use == "identity" ? "SIGNED/H" : "OPENED/H",
            Table.Column(refusedColumn(rotation)), "LAST",
        ])
        func add(_ what: String, _ key: RotationKey) {
            let state = key.condition == "served" ? key.state : "\(key.state) (\(key.condition))"
            table.add([
                what, key.publicKeyHash, key.cutOff.map { "\(state) until \(RFC3339.string($0))" } ?? state,
                key.notAfter.map { String(RFC3339.string($0).prefix(10)) } ?? "-", String(key.openedLastHour),
                String(key.refusedLastHour), key.lastUse.map(RFC3339.string) ?? "-",
            ])
        }
        if let key = rotation.newKey { add(rotation.phase == "none" ? "key" : "new", key) }
        for key in rotation.oldKeys { add("old", key) }
        return table.text
    }

    /// The heading of the refused payment tokens. Only for Google Pay is it certain which key they were for.
    private static func refusedColumn(_ rotation: RotationStatus) -> String {
        rotation.use == "google-pay" ? "REFUSED/H" : "UNVERIFIED/H"
    }

    private static let marks = ["done": "done", "next": "NEXT"]
}
