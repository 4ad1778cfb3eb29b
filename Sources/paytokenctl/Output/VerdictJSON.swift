import AuditChain
import StrictJSON

/// What a verification found, for programs.
///
///     {"verdict":"filtered","lines":…,"records":…}
///     {"verdict":"intact","lines":…,"records":…,"nodes":[{"node":…,"first":…,"last":…,"sealed":…,"sealedAt":…}]}
///     {"verdict":"broken","lines":…,"records":…,"fault":{"line":…,"node":…,"kind":"record","sequence":…,"message":…}}
enum VerdictJSON {
    static func bytes(_ verdict: ChainVerdict, lines: Int, records: Int) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("verdict")
        writer.string(word(verdict))
        writer.member("lines")
        writer.number(lines)
        writer.member("records")
        writer.number(records)
        switch verdict {
        case .intact(let ranges), .unsealed(let ranges): write(ranges, into: &writer)
        case .filtered: break
        case .broken(let fault): write(fault, into: &writer)
        }
        writer.endObject()
        return writer.bytes
    }

    private static func word(_ verdict: ChainVerdict) -> String {
        switch verdict {
        case .intact: "intact"
        case .unsealed: "unsealed"
        case .filtered: "filtered"
        case .broken: "broken"
        }
    }

    private static func write(_ ranges: [ChainRange], into writer: inout JSONWriter) {
        writer.member("nodes")
        writer.beginArray()
        for range in ranges {
            writer.beginObject()
            writer.member("node")
            writer.string(range.node.name)
            writer.member("first")
            writer.number(range.start + 1)
            writer.member("last")
            writer.number(range.last)
            writer.member("sealed")
            writer.number(range.sealed)
            writer.member("sealedAt")
            if let time = range.sealedAt { writer.string(time.text) } else { writer.null() }
            writer.endObject()
        }
        writer.endArray()
    }

    private static func write(_ fault: ChainBreak, into writer: inout JSONWriter) {
        writer.member("fault")
        writer.beginObject()
        if let line = fault.line {
            writer.member("line")
            writer.number(line)
        }
        if let position = fault.position {
            writer.member("node")
            writer.string(position.node.name)
            writer.member("kind")
            writer.string(position.kind.rawValue)
            writer.member("sequence")
            writer.number(position.sequence)
        }
        writer.member("message")
        writer.string(fault.description)
        writer.endObject()
    }
}
