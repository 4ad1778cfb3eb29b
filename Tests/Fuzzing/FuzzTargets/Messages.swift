import Foundation
import StrictJSON
import TLSHandshake
import WorkerProtocol

extension FuzzTarget {
    /// The JSON of requests. Foundation must accept what this parser accepts, with the same strings and structure, and the
    /// compact form must have the same meaning.
    static let requestJSON = FuzzTarget(name: "request-json", longest: 2048, sources: ["StrictJSON"]) { input in
        guard let value = try? JSONValue(parsing: input) else { return }
        let compact = value.compact
        guard let again = try? JSONValue(parsing: compact) else {
            throw Disagreement("the compact form is refused")
        }
        try expect(again == value, "the compact form has another value")
        try expect(again.compact == compact, "the compact form is not the only one")
        let other: Any
        do {
            other = try JSONSerialization.jsonObject(with: Data(input), options: .fragmentsAllowed)
        } catch {
            // Foundation refuses numbers beyond a double.
            if compact.contains(where: { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }) { return }
            throw Disagreement("Foundation refuses what this parser accepts: \(error)")
        }
        try expect(agrees(value, other), "Foundation reads another value")
    }

    private static func agrees(_ value: JSONValue, _ other: Any) -> Bool {
        switch value {
        case .null: other is NSNull
        case .bool(let value): other as? Bool == value
        case .number: other is NSNumber
        case .string(let value): (other as? String).map { Array($0.utf8) == Array(value.utf8) } == true
        case .array(let values):
            if let others = other as? [Any], others.count == values.count {
                zip(values, others).allSatisfy(agrees)
            } else {
                false
            }
        case .object(let object):
            // Foundation's dictionary has one member for names that are canonically equivalent.
            if let others = other as? [String: Any] {
                Set(object.members.map(\.name)).count < object.members.count
                    || others.count == object.members.count
                        && object.members.allSatisfy { member in
                            others[member.name].map { agrees(member.value, $0) } == true
                        }
            } else {
                false
            }
        }
    }

    /// The frames between daemon and worker, in both directions. A stream has the same frames in pieces of any size, and a
    /// frame that is read is written with the same bytes.
    ///
    /// The first octet is the size of the pieces; its highest bit selects the worker's answers.
    static let workerFrames = FuzzTarget(name: "worker-frames", longest: 4096, sources: ["WorkerProtocol"]) { input in
        guard let first = input.first else { return }
        let isAnswer = first & 0x80 != 0
        let limit = isAnswer ? FieldBound.answerFrame : FieldBound.requestFrame
        let stream = input.dropFirst()
        let whole = frames(of: [stream], limit)
        let size = Int(first & 0x7F) + 1
        let pieces = stride(from: stream.startIndex, to: stream.endIndex, by: size).map { start in
            stream[start..<min(start + size, stream.endIndex)]
        }
        try expect(whole == frames(of: pieces, limit), "the frames depend on the pieces in which the stream arrives")
        var position = stream.startIndex
        for frame in whole.frames {
            let end = position + 4 + 9 + frame.fields.count
            let read =
                isAnswer
                ? try? WorkerAnswer(frame).encoded(identifier: frame.identifier)
                : try? WorkerRequest(frame).encoded(identifier: frame.identifier)
            try expect(read == nil || read == Array(stream[position..<end]), "a frame is written with other bytes")
            position = end
        }
    }

    private struct Frames: Equatable {
        var frames: [Frame] = []
        var error: FrameError?
        var isAtBoundary = false
    }

    private static func frames(of pieces: [ArraySlice<UInt8>], _ limit: Int) -> Frames {
        var decoder = FrameDecoder(maximumLength: limit)
        var result = Frames()
        for piece in pieces {
            decoder.append(piece)
            do throws(FrameError) {
                while let frame = try decoder.next() { result.frames.append(frame) }
            } catch {
                result.error = error
            }
        }
        result.isAtBoundary = decoder.isAtBoundary
        return result
    }

    /// The input that the key of a TLS client's certificate signs. Every byte has a meaning: no accepted input is the
    /// beginning of another.
    static let tlsHandshake = FuzzTarget(name: "tls-handshake", longest: 8192, sources: ["TLSHandshake"]) { input in
        guard let parsed = try? ClientCertificateVerifyInput(parsing: input) else { return }
        for other in [input + [0], input.dropLast()] {
            guard let second = try? ClientCertificateVerifyInput(parsing: Array(other)) else { continue }
            throw Disagreement("\(second) is accepted with a byte more or less")
        }
        switch parsed {
        case .tls13(let hash):
            let content = [UInt8](repeating: 0x20, count: 64) + Array("TLS 1.3, client CertificateVerify\0".utf8)
            try expect(input == content + hash, "the input is not the content of RFC 8446 §4.4.3")
        case .tls12(let transcript):
            try expect(contains(input, Array(transcript.serverName.utf8)), "the server's name is not in the input")
            try expect(contains(input, transcript.clientCertificate), "the client's certificate is not in the input")
            for algorithm in TLSSignatureAlgorithm.allCases where parsed.permits(algorithm) {
                let number = algorithm.codePoint
                try expect(
                    contains(input, [UInt8(number >> 8), UInt8(number & 0xFF)]),
                    "an algorithm is permitted that is not listed")
            }
        }
    }

    private static func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool {
        part.isEmpty || Data(bytes).range(of: Data(part)) != nil
    }
}
