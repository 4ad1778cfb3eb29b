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

    /// The number of keys that HSM tokens describe, and of those with a warning.
    var attributes: JSONValue {
        let warned = builder.hsmTokens.keys.filter { key, statements in
            statements.values.contains { !warnings(of: key, $0.details).allSatisfy(\.isEmpty) }
        }
        return .facts([
            "warned": warned.count.ifAny, "described": builder.hsmTokens.keys.count.ifAny,
        ])
    }

    /// Returns the last statements about a key's private keys, with a warning for each that is insecure or differs from
    /// the record. Nodes that recorded the same of an HSM token's key share a row.
    func attributes(of key: AuditDigest) -> [JSONValue] {
        var rows: [(members: JSONValue, first: AuditTime, records: [RecordPlace])] = []
        for (source, statement) in (builder.hsmTokens.keys[key] ?? [:]).sorted(by: { $0.key < $1.key }) {
            for (object, warnings) in zip(Self.objects(statement.details), warnings(of: key, statement.details)) {
                let members = JSONValue.facts([
                    "token": source.hsmToken, "algorithm": object["algorithm"], "bits": object["bits"],
                    "sensitive": object["sensitive"], "extractable": object["extractable"],
                    "alwaysSensitive": object["alwaysSensitive"], "neverExtractable": object["neverExtractable"],
                    "local": object["local"], "modifiable": object["modifiable"], "uses": object["uses"],
                    "warnings": warnings,
                ])
                if let place = rows.firstIndex(where: { $0.members == members }) {
                    rows[place].records.append(statement.place)
                    rows[place].first = min(rows[place].first, statement.time)
                } else {
                    rows.append((members, statement.time, [statement.place]))
                }
            }
        }
        return rows.map { row in
            let rest = JSONValue.facts(["time": row.first, "records": row.records])
            let members = [row.members, rest].flatMap { $0.objectValue?.members ?? [] }
            return .object(JSONObject(members) ?? JSONObject())
        }
    }

    /// The keys that a statement describes with a warning.
    var warnedKeys: [AuditDigest: WarnedKey] {
        let statements = builder.hsmTokens.distinct.map { key, said in
            (key, said.map { (said: $0, warnings: warnings(of: key, $0.first.details).flatMap(\.self)) })
        }
        return Dictionary(uniqueKeysWithValues: statements).compactMapValues { WarnedKey($0) }
    }

    private static func objects(_ details: JSONObject) -> [JSONObject] {
        details["keys"]?.arrayValue?.compactMap(\.objectValue) ?? []
    }

    /// Returns the warnings about each private key that a statement has.
    private func warnings(of key: AuditDigest, _ details: JSONObject) -> [[JSONValue]] {
        let objects = Self.objects(details)
        return objects.map { warnings($0, copies: objects.count, builder.keys[key]) }
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
