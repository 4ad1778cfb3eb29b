import DaemonAPI
import Foundation

/// Merchant keys as people read them.
enum KeyTable {
    static func show(_ key: KeySummary, _ bytes: [UInt8], _ format: OutputFormat) throws(CommandFailure) {
        switch format {
        case .json: try Console.output(json: bytes)
        case .table: try Console.output(one(key).text)
        }
    }

    static func one(_ key: KeySummary) -> Table {
        var pairs = [
            ("Merchant", key.merchantIdentifier ?? "-"),
            ("publicKeyHash", key.publicKeyHash),
            ("  in hex", Data(base64Encoded: key.publicKeyHash).map(hex) ?? "-"),
            ("Algorithm", key.algorithm),
            ("State", state(key)),
            ("Expires", key.notAfter.map(RFC3339.string) ?? "-"),
            ("Days left", key.daysLeft.map(String.init) ?? "-"),
            ("Tier", key.tier ?? "-"),
            ("Last use", key.lastUse.map(RFC3339.string) ?? "-"),
            ("Uses", String(key.uses)),
            ("Tokens", key.tokens.isEmpty ? "-" : key.tokens.joined(separator: ", ")),
        ]
        if let remark = key.remark { pairs.append(("Remark", remark)) }
        return Table(pairs: pairs)
    }

    static func several(_ keys: [KeySummary]) -> Table {
        var table = Table(columns: [
            "MERCHANT", "PUBLICKEYHASH", "TYPE", "STATE", "EXPIRES", "DAYS", "TIER", "LAST USE", "USES",
        ])
        for key in keys {
            table.add([
                key.merchantIdentifier ?? "-", key.publicKeyHash, key.algorithm, state(key),
                key.notAfter.map { String(RFC3339.string($0).prefix(10)) } ?? "-",
                key.daysLeft.map(String.init) ?? "-", key.tier ?? "-", key.lastUse.map(RFC3339.string) ?? "-",
                String(key.uses),
            ])
        }
        return table
    }

    /// The state, and the condition where it keeps the key from being used.
    private static func state(_ key: KeySummary) -> String {
        key.condition == "served" ? key.state : "\(key.state) (\(key.condition))"
    }

    private static func hex(_ data: Data) -> String {
        data.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
