import TestSupport
import Testing
import WorkerProtocol

@Suite struct HostileFrameTests {
    /// Reads bytes in both directions. The only possible outcomes are values and FrameError.
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

    @Test("refuses a length beyond the limit before its bytes arrive, and again afterwards")
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

    @Test("reports a frame shortened anywhere within its fields as truncated or with too long a field")
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

    @Test("does not trust a list's count")
    func listCount() {
        #expect(throws: FrameError.fieldTooLong) {
            try WorkerAnswer(Frame(type: 66, identifier: 1, fields: [0xFF, 0xFF]))
        }
        #expect(throws: FrameError.truncated) {
            try WorkerAnswer(Frame(type: 66, identifier: 1, fields: [0x03, 0xFF]))
        }
    }

    @Test("refuses a list of audit keys or remembered audit checkpoints longer than its bound before it reads it")
    func recordLists() {
        for type: UInt8 in [70, 73] {
            #expect(throws: FrameError.fieldTooLong) {
                try WorkerAnswer(Frame(type: type, identifier: 1, fields: [0x04, 0x01]))
            }
            #expect(throws: FrameError.truncated) {
                try WorkerAnswer(Frame(type: type, identifier: 1, fields: [0x04, 0x00]))
            }
        }
        // A point, a signature and a line that claim one byte more than they may have.
        for (type, fields): (UInt8, [UInt8]) in [
            (71, [0, 0, 0, 0, 0, 0, 0, 66]), (72, [0, 0, 0, 73]), (73, [0, 1, 0, 0, 0x10, 1]),
        ] {
            #expect(throws: FrameError.fieldTooLong) {
                try WorkerAnswer(Frame(type: type, identifier: 1, fields: fields[...]))
            }
        }
    }

    @Test("neither sends nor accepts a list of denied system calls longer than its bound")
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
            // The list's count is the last field.
            changed.fields = frame.fields.dropLast(2) + [0, count]
            #expect(throws: error) { try WorkerRequest(changed) }
        }
    }

    @Test("refuses values outside their sets")
    func values() {
        let empty: [UInt8] = [0, 0, 0, 0]
        // A scheme, a boolean, a tier, a kind of failure.
        #expect(throws: FrameError.invalidValue) {
            try WorkerRequest(Frame(type: 3, identifier: 1, fields: (empty + [3] + empty + empty + empty)[...]))
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

    @Test("neither sends nor accepts more unlocked secrets than a worker can have")
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
            switch answer {
            case .plaintext, .opened: break
            default: continue
            }
            var frame = try #require(try Samples.frame(try answer.encoded(identifier: 1)))
            // The last field of both.
            frame.fields = frame.fields.dropLast(4) + [0x40, 0, 0, 1]
            #expect(throws: FrameError.invalidValue) { try WorkerAnswer(frame) }
            frame.fields = frame.fields.dropLast(4) + [0xFF, 0xFF, 0xFF, 0xFF]
            #expect(throws: FrameError.invalidValue) { try WorkerAnswer(frame) }
        }
    }

    @Test("refuses text that is not UTF-8")
    func utf8() {
        #expect(throws: FrameError.notUTF8) {
            try WorkerAnswer(Frame(type: 69, identifier: 1, fields: [1, 0, 0, 0, 2, 0xC3, 0x28]))
        }
    }

    @Test("decodes any flipped bit to an error, or to a value that encodes to the changed bytes")
    func bitFlips() throws {
        for request in Samples.requests {
            let encoded = try request.encoded(identifier: 1)
            for bit in 32..<encoded.count * 8 {
                var changed = encoded
                changed[bit / 8] ^= 1 << UInt8(bit % 8)
                guard let frame = try Samples.frame(changed), let value = try? WorkerRequest(frame) else { continue }
                // A decoded value is complete: the encoding is canonical.
                #expect(try value.encoded(identifier: frame.identifier) == changed)
            }
        }
    }

    @Test("decodes random bytes to FrameError or to nothing", arguments: 0..<8)
    func randomBytes(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<2000 {
            let count = Int.random(in: 0..<120, using: &random)
            var bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }
            // Half of them with a plausible head, so that the fields are reached.
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
