import Testing
import WorkerProtocol

@Suite struct FrameTests {
    @Test("decodes every request to the value that was encoded", arguments: Samples.requests.indices)
    func requestRoundTrip(_ index: Int) throws {
        let request = Samples.requests[index]
        let frame = try #require(try Samples.frame(try request.encoded(identifier: 0x0102_0304_0506_0708)))
        #expect(frame.identifier == 0x0102_0304_0506_0708)
        #expect(try WorkerRequest(frame) == request)
    }

    @Test("decodes every answer to the value that was encoded", arguments: Samples.answers.indices)
    func answerRoundTrip(_ index: Int) throws {
        let answer = Samples.answers[index]
        let frame = try #require(try Samples.frame(try answer.encoded(identifier: .max)))
        #expect(frame.identifier == .max)
        #expect(try WorkerAnswer(frame) == answer)
    }

    @Test("decodes every kind of failure to the value that was encoded", arguments: WorkerFailure.Kind.allCases)
    func failureRoundTrip(_ kind: WorkerFailure.Kind) throws {
        let answer = WorkerAnswer.failed(WorkerFailure(kind, "a sentence"))
        let frame = try #require(try Samples.frame(try answer.encoded(identifier: 0)))
        #expect(try WorkerAnswer(frame) == answer)
    }

    @Test("encodes a frame with the documented layout")
    func layout() throws {
        let decryption = Decryption(
            publicKeyHash: [0xAA], scheme: .rsaV1, keyMaterial: [0xBB, 0xCC], otherInfo: [], ciphertext: [0xDD])
        #expect(
            try WorkerRequest.decrypt(decryption).encoded(identifier: 5)
                == [0, 0, 0, 30] + [3] + [0, 0, 0, 0, 0, 0, 0, 5]
                + [0, 0, 0, 1, 0xAA] + [2] + [0, 0, 0, 2, 0xBB, 0xCC] + [0, 0, 0, 0] + [0, 0, 0, 1, 0xDD])
    }

    @Test("encodes every frame to the captured bytes of this protocol version")
    func captured() throws {
        // These tests link only the protocol, so they define their own hexadecimal function.
        func hex(_ bytes: [UInt8]) -> String {
            bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        let requests = try Samples.requests.map { hex(try $0.encoded(identifier: 0x0102_0304_0506_0708)) }
        #expect(requests == CapturedFrames.requests)
        let answers = try Samples.answers.map { hex(try $0.encoded(identifier: 0x0807_0605_0403_0201)) }
        #expect(answers == CapturedFrames.answers)
    }

    @Test("lists each operation with its name, time limit and repeatability")
    func operations() throws {
        let table = Samples.requests.map(\.operation)
        let least = { (operation: WorkerOperation) in operation.limit(callTimeout: .zero).components.seconds }
        #expect(
            Set(table.filter { !$0.isRepeatable }.map(\.name)) == [
                "open", "import_private_key", "import_certificate", "generate_key", "remove_test_keys",
            ])
        #expect(
            Set(table.filter { least($0) == 0 }.map(\.name)) == [
                "decrypt", "probe", "sign_checkpoint", "sign_jwt", "sign_tls",
            ])
        #expect(Set(table.filter { least($0) == 60 }.map(\.name)) == ["open", "generate_key"])
        #expect(table.allSatisfy { [0, 30, 60].contains(least($0)) })
        #expect(table.allSatisfy { $0.limit(callTimeout: .seconds(90)) == .seconds(90) })
        #expect(Set(table.map(\.name)).count == 19)
    }

    @Test("decodes the same frames from a stream in pieces of any size", arguments: [1, 2, 3, 5, 7, 13, 64, 1021])
    func arbitraryPieces(_ size: Int) throws {
        var stream: [UInt8] = []
        for (index, request) in Samples.requests.enumerated() {
            stream += try request.encoded(identifier: UInt64(index))
        }
        var decoder = FrameDecoder(maximumLength: FieldBound.requestFrame)
        var received: [WorkerRequest] = []
        var start = 0
        while start < stream.count {
            let end = min(start + size, stream.count)
            decoder.append(stream[start..<end])
            start = end
            while let frame = try decoder.next() {
                #expect(frame.identifier == UInt64(received.count))
                received.append(try WorkerRequest(frame))
            }
        }
        #expect(received == Samples.requests)
        #expect(decoder.isAtBoundary)
    }

    @Test("detects a stream that ends inside a frame")
    func unfinished() throws {
        var decoder = FrameDecoder(maximumLength: FieldBound.requestFrame)
        decoder.append(try WorkerRequest.probe.encoded(identifier: 1).dropLast())
        #expect(try decoder.next() == nil)
        #expect(!decoder.isAtBoundary)
    }

    @Test("refuses to encode a field beyond its bound")
    func tooLongToSend() {
        let decryption = Decryption(
            publicKeyHash: [], scheme: .ecV1, keyMaterial: [], otherInfo: [],
            ciphertext: Array(repeating: 0, count: 128 * 1024 + 1))
        #expect(throws: FrameError.fieldTooLong) {
            try WorkerRequest.decrypt(decryption).encoded(identifier: 1)
        }
    }

    @Test("encodes the audit record's requests and answers up to their bounds, and refuses one byte more")
    func recordBounds() throws {
        func octets(_ count: Int) -> [UInt8] { Array(repeating: 0x20, count: count) }
        func request(_ identifier: Int, _ node: Int, _ line: Int) -> [WorkerRequest] {
            [
                .createAuditKey(identifier: octets(identifier)),
                .signCheckpoint(
                    CheckpointSigning(identifier: octets(identifier), message: octets(line), algorithm: .ecdsaP256)),
                .rememberHead(
                    HeadToRemember(node: String(repeating: "n", count: node), line: octets(line))),
            ]
        }
        for fitting in request(16, 64, 4096) { _ = try fitting.encoded(identifier: 1) }
        for tooLong in [request(17, 64, 4096)[0], request(17, 64, 1)[1], request(16, 64, 4097)[1]]
            + [request(16, 65, 1)[2], request(16, 64, 4097)[2]]
        {
            #expect(throws: FrameError.fieldTooLong) { try tooLong.encoded(identifier: 1) }
        }
        let key = AuditKeyDescription(identifier: octets(16), publicKey: octets(294), algorithm: .ecdsaP256)
        func answers(_ keys: Int, _ signature: Int, _ heads: Int, _ line: Int) -> [WorkerAnswer] {
            [
                .auditKeys(Array(repeating: key, count: keys)), .signature(octets(signature)),
                .heads(Array(repeating: octets(line), count: heads)),
            ]
        }
        for fitting in answers(1024, 256, 1024, 4096) { _ = try fitting.encoded(identifier: 1) }
        for tooLong in answers(1025, 257, 1025, 1) + [answers(1, 1, 1, 4097)[2]] {
            #expect(throws: FrameError.fieldTooLong) { try tooLong.encoded(identifier: 1) }
        }
    }

    @Test("encodes certificate requests, signatures and merchant names up to their bounds, and refuses one byte more")
    func certificateRequestBounds() throws {
        func octets(_ count: Int) -> [UInt8] { Array(repeating: 0x20, count: count) }
        func requests(_ name: Int, _ information: Int) -> [WorkerRequest] {
            let merchant = String(repeating: "m", count: name)
            return [
                .generateKey(KeyGeneration(merchantIdentifier: merchant, algorithm: .ec)),
                .signRequest(RequestSigning(publicKeyHash: octets(32), information: octets(information))),
            ]
        }
        for fitting in requests(512, 8192) { _ = try fitting.encoded(identifier: 1) }
        for tooLong in requests(513, 8193) {
            #expect(throws: FrameError.fieldTooLong) { try tooLong.encoded(identifier: 1) }
        }
        _ = try WorkerAnswer.requestSignature(octets(256)).encoded(identifier: 1)
        #expect(throws: FrameError.fieldTooLong) {
            try WorkerAnswer.requestSignature(octets(257)).encoded(identifier: 1)
        }
    }

    @Test("rejects requests as answers and answers as requests")
    func directions() throws {
        let request = try #require(try Samples.frame(try WorkerRequest.probe.encoded(identifier: 1)))
        #expect(throws: FrameError.unknownType(6)) { try WorkerAnswer(request) }
        let answer = try #require(try Samples.frame(try WorkerAnswer.done.encoded(identifier: 1)))
        #expect(throws: FrameError.unknownType(68)) { try WorkerRequest(answer) }
    }
}
