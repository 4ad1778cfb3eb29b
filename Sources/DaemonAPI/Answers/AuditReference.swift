import StrictJSON

/// Where an answer's record stands: the member `audit` of answers and refusals.
public struct AuditReference: Codable, Sendable, Equatable {
    /// Whose chain it is in.
    public let node: String
    /// From 1, without gaps.
    public let sequence: Int

    public init(node: String, sequence: Int) {
        self.node = node
        self.sequence = sequence
    }
}

extension AuditReference {
    /// Nil for anything else.
    init?(_ json: JSONValue?) {
        guard let object = json?.objectValue, let node = object["node"]?.stringValue,
            let sequence = object["sequence"]?.numberValue.flatMap({ Int($0.text) })
        else { return nil }
        self.init(node: node, sequence: sequence)
    }
}

extension JSONWriter {
    /// Writes the member `audit`, or nothing where nothing was recorded.
    mutating func member(audit reference: AuditReference?) {
        guard let reference else { return }
        member("audit")
        beginObject()
        member("node")
        string(reference.node)
        member("sequence")
        number(reference.sequence)
        endObject()
    }
}
