import AuditChain
import StrictJSON

/// The HSM tokens' recorded statements about themselves, in the part *What the system is*, and about their private keys,
/// in *Inventory of keys*.
struct HSMTokenFacts {
    let builder: ReportBuilder

    /// The HSM tokens of each node. One without `record` is in the node's configuration, but no record describes it.
    var hsmTokens: [JSONValue] {
        let (statements, settings) = (builder.hsmTokens.hsmTokens, builder.system.values)
        let configured = settings.flatMap { node, values in
            values.keys.filter { $0.hasPrefix("tokens.") && $0.hasSuffix(".module") }.map { name in
                HSMTokenRecords.Source(node: node, hsmToken: String(name.dropFirst(7).dropLast(7)))
            }
        }
        return Set(configured).union(statements.keys).sorted().map { source in
            let (statement, name) = (statements[source], "tokens.\(source.hsmToken).validation")
            func text(_ name: String) -> JSONValue? { statement?.details[name] }
            return .facts([
                "node": source.node, "token": source.hsmToken, "manufacturer": text("manufacturer"),
                "model": text("model"), "serial": text("serialNumber"), "hardware": text("hardwareVersion"),
                "firmware": text("firmwareVersion"), "library": text("library"), "tierEC": text("tierECv1"),
                "tierRSA": text("tierRSAv1"), "shortcomings": text("shortcomings"),
                "validation": settings[source.node]?[name].flatMap { $0.isEmpty ? nil : $0 }, "time": statement?.time,
                "record": statement?.place,
            ])
        }
    }

    /// The private keys' attributes, with a warning for each that is insecure or differs from the record. Rows with
    /// warnings come first. Nodes that recorded the same of an HSM token's key share a row.
    var attributes: JSONValue {
        var rows: [(members: JSONValue, first: AuditTime, records: [RecordPlace], isWarned: Bool)] = []
        var places: [[UInt8]: Int] = [:]
        for (key, statements) in builder.hsmTokens.keys.sorted(by: { $0.key.base64 < $1.key.base64 })
        where builder.keys[key]?.state != "destroyed" {
            for (source, statement) in statements.sorted(by: { $0.key < $1.key }) {
                let objects = statement.details["keys"]?.arrayValue?.compactMap(\.objectValue) ?? []
                for object in objects {
                    let warnings = warnings(object, copies: objects.count, builder.keys[key])
                    let members = JSONValue.facts([
                        "key": key, "token": source.hsmToken, "algorithm": object["algorithm"], "bits": object["bits"],
                        "sensitive": object["sensitive"], "extractable": object["extractable"],
                        "alwaysSensitive": object["alwaysSensitive"], "neverExtractable": object["neverExtractable"],
                        "local": object["local"], "uses": object["uses"], "came": builder.keys[key]?.came,
                        "warnings": warnings,
                    ])
                    if let place = places[members.compact] {
                        rows[place].records.append(statement.place)
                        rows[place].first = min(rows[place].first, statement.time)
                    } else {
                        places[members.compact] = rows.count
                        rows.append((members, statement.time, [statement.place], !warnings.isEmpty))
                    }
                }
            }
        }
        let facts = rows.map { row -> (isWarned: Bool, JSONValue) in
            let rest = JSONValue.facts(["time": row.first, "records": row.records])
            let members = [row.members, rest].flatMap { $0.objectValue?.members ?? [] }
            return (row.isWarned, .object(JSONObject(members) ?? JSONObject()))
        }
        let unread = builder.sortedKeys.filter { $0.state != "destroyed" && builder.hsmTokens.keys[$0.key] == nil }
        return .facts([
            "warned": facts.count(where: \.isWarned).ifAny, "described": facts.count,
            "rows": (facts.filter(\.isWarned) + facts.filter { !$0.isWarned }).map(\.1), "unread": unread.map(\.key),
            "omitted": builder.hsmTokens.omitted.ifAny,
        ])
    }

    /// The attributes that a private key must have, by their names in records and in PKCS#11. For an imported key, an
    /// HSM token correctly reports false for the last two (PKCS#11 v2.40 base §4.9).
    private static let wanted: [(name: String, attribute: String, value: Bool)] = [
        ("sensitive", "CKA_SENSITIVE", true), ("extractable", "CKA_EXTRACTABLE", false),
        ("private", "CKA_PRIVATE", true),
        ("stored", "CKA_TOKEN", true), ("alwaysSensitive", "CKA_ALWAYS_SENSITIVE", true),
        ("neverExtractable", "CKA_NEVER_EXTRACTABLE", true),
    ]

    /// Returns the shortcomings of a key's attributes, and their differences from the record.
    private func warnings(_ object: JSONObject, copies: Int, _ key: KeyHistory?) -> [JSONValue] {
        func warning(_ kind: String, _ attribute: String? = nil) -> JSONValue {
            .facts(["kind": kind, "attribute": attribute])
        }
        let (isLocal, came) = (object["local"]?.boolValue, key?.came)
        var warnings: [JSONValue] = []
        for (place, (name, attribute, value)) in Self.wanted.enumerated() {
            let isHistory = place >= 4
            guard object[name]?.boolValue != value, !isHistory || isLocal == true || came == "key_generate" else {
                continue
            }
            warnings.append(object[name] == nil ? warning("not_reported", attribute) : warning(name))
        }
        if came == "key_generate", isLocal != true { warnings.append(warning("not_made_here")) }
        if came == "key_import", isLocal == true { warnings.append(warning("made_here")) }
        let strength = "\(object["algorithm"]?.stringValue ?? "") \(object["bits"]?.numberValue?.int ?? 0)"
        let known = key?.facts.map { ["\($0.algorithm) \($0.bits ?? 0)"] } ?? ["EC 256", "RSA 2048"]
        if object["bits"] != nil, !known.contains(strength) {
            warnings.append(warning("strength", known.joined(separator: " or ")))
        }
        if copies > 1 { warnings.append(.facts(["kind": "copies", "count": copies])) }
        return warnings
    }
}
