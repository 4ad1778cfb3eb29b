import TestSupport
import Testing
import WorkerProtocol

@Suite struct HostileFrameTests {
    /// Decodes the bytes as requests and as answers. The only possible outcomes are values and FrameError.
    private func readAsBoth(_ bytes: [UInt8]) throws(FrameError) -> Int {
        var decoder = FrameDecoder(maximumLength: FieldBound.requestFrame)
        decoder.append(bytes)
        var understood = 0
        while let frame = try decoder.next() {
            if (try? WorkerRequest(frame)) != nil { understood += 1 }
            if (try? WorkerAnswer(frame)) != nil { understood += 1 }
        }
        return understood
    }

    @Test("refuses a frame length outside the limits before the frame arrives, and every frame after it")
    func length() {
        for prefix: [UInt8] in [[0xFF, 0xFF, 0xFF, 0xFF], [0, 4, 0, 1], [0, 0, 0, 8], [0, 0, 0, 0]] {
            var decoder = FrameDecoder(maximumLength: FieldBound.requestFrame)
            decoder.append(prefix)
            #expect(throws: FrameError.self) { try decoder.next() }
            decoder.append([0, 0, 0, 9, 6, 0, 0, 0, 0, 0, 0, 0, 1])
            #expect(throws: FrameError.self) { try decoder.next() }
            #expect(!decoder.isAtBoundary)
        }
    }

    @Test("refuses a frame whose fields are truncated at any byte")
    func truncations() throws {
        for request in Samples.requests {
            let frame = try #require(try Samples.frame(try request.encoded(identifier: 1)))
            for count in frame.fields.indices {
                var shortened = frame
                shortened.fields = frame.fields[..<count]
                #expect(throws: FrameError.truncated) { try WorkerRequest(shortened) }
            }
        }
        for answer in Samples.answers {
            let frame = try #require(try Samples.frame(try answer.encoded(identifier: 1)))
            for count in frame.fields.indices {
                var shortened = frame
                shortened.fields = frame.fields[..<count]
                #expect(throws: FrameError.truncated) { try WorkerAnswer(shortened) }
            }
        }
    }

    @Test("refuses an octet after the last field", arguments: Samples.requests.indices)
    func trailing(_ index: Int) throws {
        let request = Samples.requests[index]
        var frame = try #require(try Samples.frame(try request.encoded(identifier: 1)))
        frame.fields.append(0)
        #expect(throws: FrameError.trailingBytes) { try WorkerRequest(frame) }
    }

    @Test("refuses a list whose count exceeds its bound or its bytes")
    func listCount() {
        #expect(throws: FrameError.fieldTooLong) {
            try WorkerAnswer(Frame(type: 66, identifier: 1, fields: [0xFF, 0xFF]))
        }
        #expect(throws: FrameError.truncated) {
            try WorkerAnswer(Frame(type: 66, identifier: 1, fields: [0x03, 0xFF]))
        }
    }

    @Test("refuses an oversized list of audit keys or audit checkpoints before it reads the elements")
    func recordLists() {
        for type: UInt8 in [70, 73] {
            #expect(throws: FrameError.fieldTooLong) {
                try WorkerAnswer(Frame(type: type, identifier: 1, fields: [0x04, 0x01]))
            }
            #expect(throws: FrameError.truncated) {
                try WorkerAnswer(Frame(type: type, identifier: 1, fields: [0x04, 0x00]))
            }
        }
        // The lengths of a public key, a signature and a line exceed their bounds by one byte.
        for (type, fields): (UInt8, [UInt8]) in [
            (71, [0, 0, 0, 0, 0, 0, 1, 39]), (72, [0, 0, 1, 1]), (73, [0, 1, 0, 0, 0x10, 1]),
        ] {
            #expect(throws: FrameError.fieldTooLong) {
                try WorkerAnswer(Frame(type: type, identifier: 1, fields: fields[...]))
            }
        }
    }

    @Test("refuses to encode or decode an oversized list of denied system calls")
    func deniedSystemCalls() throws {
        var opening = HSMTokenOpening(
            programVersion: "1", modulePath: "/m", tokenURI: "pkcs11:token=t", pinFile: "/p", sessions: 1,
            initializationString: "", allowExtractableSecret: true)
        opening.deniedSystemCalls = Array(repeating: "execve", count: 65)
        #expect(throws: FrameError.fieldTooLong) { try WorkerRequest.open(opening).encoded(identifier: 1) }
        opening.deniedSystemCalls = []
        let frame = try #require(try Samples.frame(try WorkerRequest.open(opening).encoded(identifier: 1)))
        for (count, error): (UInt8, FrameError) in [(65, .fieldTooLong), (64, .truncated)] {
            var changed = frame
            // The list's count precedes two empty texts, each with a length of four bytes.
            changed.fields = frame.fields.dropLast(10) + [0, count]
            #expect(throws: error) { try WorkerRequest(changed) }
        }
    }

    @Test("refuses an undefined scheme, boolean, tier or kind of failure")
    func values() {
        let empty: [UInt8] = [0, 0, 0, 0]
        #expect(throws: FrameError.invalidValue) {
            try WorkerRequest(Frame(type: 3, identifier: 1, fields: (empty + [4] + empty + empty + empty)[...]))
        }
        #expect(throws: FrameError.invalidValue) {
            let fields: [UInt8] = [0, 1] + empty + empty + empty + empty + [0, 1] + empty + [2]
            return try WorkerRequest(Frame(type: 1, identifier: 1, fields: fields[...]))
        }
        #expect(throws: FrameError.invalidValue) {
            try WorkerAnswer(Frame(type: 67, identifier: 1, fields: (empty + [4] + empty)[...]))
        }
        #expect(throws: FrameError.invalidValue) {
            try WorkerAnswer(Frame(type: 69, identifier: 1, fields: ([0] + empty)[...]))
        }
    }

    @Test("refuses to encode or decode more unlocked secrets than a worker can have")
    func unlockedSecrets() throws {
        let tooMany = FieldBound.unlockedSecrets + 1
        let plaintext = WorkerAnswer.plaintext([1], tier: .c, unlockedSecrets: tooMany)
        #expect(throws: FrameError.invalidValue) { try plaintext.encoded(identifier: 1) }
        let opened = WorkerAnswer.opened(
            HSMTokenDescription(
                label: "", serialNumber: "", manufacturer: "", model: "", library: "", sessions: 1, tierECv1: nil,
                tierRSAv1: nil, shortcomings: [], importKey: [], unlockedSecrets: tooMany))
        #expect(throws: FrameError.invalidValue) { try opened.encoded(identifier: 1) }
        for answer in Samples.answers {
            let following: Int
            switch answer {
            case .plaintext: following = 0
            // The names of the test keys, their number, the number of those made, the tier for ECv2 and its lack.
            case .opened(let description):
                following =
                    description.testKeys.reduce(3) { $0 + 4 + $1.utf8.count } + (description.tierECv2 == nil ? 1 : 2)
                    + 4 + description.shortcomingECv2.utf8.count
            default: continue
            }
            var frame = try #require(try Samples.frame(try answer.encoded(identifier: 1)))
            let (start, rest) = (frame.fields.dropLast(following + 4), frame.fields.suffix(following))
            for number: [UInt8] in [[0x40, 0, 0, 1], [0xFF, 0xFF, 0xFF, 0xFF]] {
                frame.fields = start + number + rest
                #expect(throws: FrameError.invalidValue) { try WorkerAnswer(frame) }
            }
        }
    }

    @Test("refuses text that is not UTF-8")
    func utf8() {
        #expect(throws: FrameError.notUTF8) {
            try WorkerAnswer(Frame(type: 69, identifier: 1, fields: [1, 0, 0, 0, 2, 0xC3, 0x28]))
        }
    }

    @Test("decodes a frame with any bit flipped to an error, or to a value that encodes to the same bytes")
    func bitFlips() throws {
        for request in Samples.requests {
            let encoded = try request.encoded(identifier: 1)
            for bit in 32..<encoded.count * 8 {
                var changed = encoded
                changed[bit / 8] ^= 1 << UInt8(bit % 8)
                guard let frame = try Samples.frame(changed), let value = try? WorkerRequest(frame) else { continue }
                // The encoding is canonical, so a decoded value reproduces all bytes.
                #expect(try value.encoded(identifier: frame.identifier) == changed)
            }
        }
    }

    @Test("decodes random bytes to values or FrameError, without a crash", arguments: 0..<8)
    func randomBytes(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<2000 {
            let count = Int.random(in: 0..<120, using: &random)
            var bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }
            // Half of the inputs begin with a valid header, so that the decoder reads their fields.
            if count > 13, Bool.random(using: &random) {
                bytes.replaceSubrange(
                    0..<5,
                    with: [
                        0, 0, 0, UInt8(count - 4),
                        [1, 3, 4, 5, 8, 9, 11, 12, 13, 65, 66, 67, 69, 70, 71, 72, 73, 74, 75].randomElement(
                            using: &random) ?? 1,
                    ])
            }
            let understood = Result { () throws(FrameError) in try readAsBoth(bytes) }
            if case .success(let count) = understood { #expect(count < 2) }
        }
    }
}
