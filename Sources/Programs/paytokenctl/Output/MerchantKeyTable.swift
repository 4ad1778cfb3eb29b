import CommandOutput
import DaemonAPI
import Encodings
import Foundation

/// Merchant keys as tables for display.
enum MerchantKeyTable {
    static func one(_ key: KeySummary, now: Date = Date()) -> Table {
        var pairs = [
            ("Merchant", key.merchantIdentifier ?? "-"),
            ("publicKeyHash", key.publicKeyHash),
            ("  in hex", Base64.decode(key.publicKeyHash).map { Hexadecimal.encode($0) } ?? "-"),
            ("Use", key.use),
            ("Algorithm", key.algorithm),
            ("State", state(key, now, "opens late payment tokens until")),
            (key.replacementDue == nil ? "Expires" : "A year old at", key.end.map(RFC3339.string) ?? "-"),
            ("Days left", daysLeft(key, now)),
            ("Tier", key.tier ?? "-"),
            ("Last use", key.lastUse.map(RFC3339.string) ?? "-"),
            ("Uses", String(key.uses)),
            ("Tokens", key.tokens.isEmpty ? "-" : key.tokens.joined(separator: ", ")),
        ]
        for attributes in key.attributes ?? [] { pairs += lines(attributes) }
        if let nodes = key.nodes { pairs.append(("Nodes", nodes.isEmpty ? "-" : nodes.joined(separator: ", "))) }
        if let cutOff = key.cutOff {
            let place = (pairs.firstIndex { $0.0 == "State" } ?? 0) + 1
            pairs.insert(("Cut-off", RFC3339.string(cutOff)), at: place)
        }
        if KeyListCommand.isExpiring(key, before: now) {
            pairs.append((key.replacementDue == nil ? "Certificate" : "Age", NextStep.replaceKey(of: key.use)))
        }
        if let remark = key.remark { pairs.append(("Remark", remark)) }
        return Table(pairs: pairs)
    }

    /// One HSM token's attributes of the private key.
    private static func lines(_ key: KeyAttributes) -> [(String, String)] {
        guard let values = key.values else {
            return [("In \(key.token)", "unavailable: \(key.message ?? "no answer")")]
        }
        guard values != KeyAttributes.Values(shortcomings: values.shortcomings) else {
            return [("In \(key.token)", values.shortcomings.joined(separator: " "))]
        }
        let origin =
            switch values.local {
            case true?: "made in the HSM token"
            case false?: "not made in the HSM token, by its own statement"
            case nil: "origin unknown"
            }
        let uses = values.uses.isEmpty ? "no permitted uses" : "permits " + values.uses.joined(separator: ", ")
        return [
            ("In \(key.token)", "\(values.strength ?? "strength unknown"), \(uses), \(origin)"),
            ("  sensitive", "\(word(values.sensitive)), always: \(word(values.alwaysSensitive))"),
            ("  extractable", "\(word(values.extractable)), never: \(word(values.neverExtractable))"),
            ("  private", word(values.private)), ("  modifiable", word(values.modifiable)),
        ] + values.shortcomings.map { ("  shortcoming", $0) }
    }

    private static func word(_ flag: Bool?) -> String { flag.map { $0 ? "yes" : "no" } ?? "unknown" }

    static func several(_ keys: [KeySummary], now: Date = Date()) -> Table {
        let areOfNodes = keys.contains { $0.nodes != nil }
        var table = Table(
            columns: [
                // A hash stays complete, because commands accept no part of its base64.
                Table.Column("MERCHANT", shortening: .beginning), "PUBLICKEYHASH",
                Table.Column("USE", importance: 6), Table.Column("TYPE", importance: 5),
                Table.Column("STATE", shortening: .words), Table.Column("EXPIRES", importance: 8),
                Table.Column("DAYS", importance: 7), Table.Column("TIER", importance: 1),
                Table.Column("LAST USE", importance: 3), Table.Column("USES", importance: 2),
            ]
                + (areOfNodes ? [Table.Column("NODES", importance: 4, shortening: .words)] : []))
        for key in keys {
            let nodes = key.nodes.map { $0.isEmpty ? "-" : $0.joined(separator: ",") } ?? "-"
            let row = [
                key.merchantIdentifier ?? "-", key.publicKeyHash, key.use, key.algorithm, state(key, now, "until"),
                key.end.map { String(RFC3339.string($0).prefix(10)) } ?? "-",
                daysLeft(key, now), key.tier ?? "-", key.lastUse.map(RFC3339.string) ?? "-",
                String(key.uses),
            ]
            table.add(row + (areOfNodes ? [nodes] : []))
        }
        return table
    }

    private static func daysLeft(_ key: KeySummary, _ now: Date) -> String {
        let days = key.daysLeft ?? key.replacementDue.map { KeySummary.daysLeft(until: $0, now: now) }
        return days.map(String.init) ?? "-"
    }

    /// The state, with its end if it has one, and the condition that prevents the key from being used.
    private static func state(_ key: KeySummary, _ now: Date, _ until: String) -> String {
        var text = key.state
        if key.state == "deactivated", let cutOff = key.cutOff, cutOff > now {
            text += ", \(until) \(RFC3339.string(cutOff).prefix(10))"
        }
        return key.condition == "served" ? text : "\(text) (\(key.condition))"
    }
}
