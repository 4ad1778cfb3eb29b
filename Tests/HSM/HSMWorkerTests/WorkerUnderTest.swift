import CLinux
import Foundation
import KeySealing
import KeyTypes
import Locks
import ProductVersion
import SecretMemory
import TestSupport
import TokenForge
import WorkerProtocol

/// A real worker process, connected through a socket pair.
final class WorkerUnderTest: Sendable {
    /// The HSM token; its directory must outlive the worker.
    private let hsmToken: any WorkersToken
    private let socket: Int32
    private let process: RunningWorker
    private let decoder = Mutex(FrameDecoder(maximumLength: FieldBound.answerFrame))
    private let next = Mutex<UInt64>(1)

    struct Unexpected: Error, CustomStringConvertible {
        let description: String
    }

    init(_ hsmToken: any WorkersToken) throws {
        self.hsmToken = hsmToken
        process = try RunningWorker(Program.built("paytokend-hsm"), environment: hsmToken.environment)
        socket = process.socket
        // A receive timeout fails the test if the worker never answers.
        _ = fcntl(socket, F_SETFL, 0)
        var limit = timeval(tv_sec: 120, tv_usec: 0)
        _ = unsafe setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(socket) }

    // MARK: Frames

    func send(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { buffer in
                unsafe Glibc.send(
                    socket, buffer.baseAddress.unsafelyUnwrapped + sent, buffer.count - sent,
                    Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            sent += count
        }
    }

    /// Waits in a separate thread for the next frame. Returns nil at the end of the stream.
    func receive() async throws -> (identifier: UInt64, answer: WorkerAnswer)? {
        try await withCheckedThrowingContinuation { continuation in
            Thread { continuation.resume(with: Result { try self.receiveBlocking() }) }.start()
        }
    }

    private func receiveBlocking() throws -> (identifier: UInt64, answer: WorkerAnswer)? {
        while true {
            if let frame = try decoder.withLock({ decoder throws(FrameError) in try decoder.next() }) {
                return (frame.identifier, try WorkerAnswer(frame))
            }
            var buffer = [UInt8](repeating: 0, count: 65536)
            let count = unsafe recv(socket, &buffer, buffer.count, 0)
            if count == 0 || count < 0 && errno == ECONNRESET { return nil }
            guard count > 0 else { throw Unexpected(description: "no answer: errno \(errno)") }
            decoder.withLock { $0.append(buffer.prefix(count)) }
        }
    }

    /// Sends a request, and returns the answer to it.
    func call(_ request: WorkerRequest) async throws -> WorkerAnswer {
        let identifier = next.withLock { next in
            defer { next += 1 }
            return next
        }
        send(try request.encoded(identifier: identifier))
        guard let received = try await receive() else {
            throw Unexpected(description: "the worker ended, status \(try await end())")
        }
        guard received.identifier == identifier else { throw Unexpected(description: "the answer to another request") }
        return received.answer
    }

    /// Ends the worker's input, and waits for its exit status (128 plus the signal, if a signal ended it).
    func end() async throws -> Int32 {
        shutdown(socket, Int32(SHUT_WR))
        return await process.status()
    }

    var processIdentifier: Int32 { process.identifier }

    // MARK: Requests

    @discardableResult
    func open(
        _ hsmToken: any WorkersToken, sessions: UInt16 = 2, allowExtractableSecret: Bool = true,
        _ change: (inout HSMTokenOpening) -> Void = { _ in }
    ) async throws -> HSMTokenDescription {
        var opening = HSMTokenOpening(
            programVersion: ProductVersion.current, modulePath: hsmToken.libraryPath, tokenURI: hsmToken.uri,
            pinFile: hsmToken.pinFile, sessions: sessions, initializationString: hsmToken.initializationString,
            allowExtractableSecret: allowExtractableSecret)
        change(&opening)
        let answer = try await call(.open(opening))
        if case .failed(let failure) = answer { throw failure }
        guard case .opened(let description) = answer else { throw Unexpected(description: "\(answer)") }
        return description
    }

    func importKey(_ merchant: ForgedMerchant, _ hsmToken: HSMTokenDescription) async throws -> WorkerAnswer {
        // Each merchant has its own label, because NSS's database refuses a second certificate with the same CKA_LABEL
        // and another subject.
        try await importKey(
            pkcs8: merchant.key.pkcs8, certificate: merchant.certificate, hsmToken, label: merchant.merchant.identifier)
    }

    func importKey(
        pkcs8: [UInt8], certificate: [UInt8], _ hsmToken: HSMTokenDescription, label: String = "merchant.test",
        use: KeyUse = .processing
    ) async throws -> WorkerAnswer {
        let sealed = try KeySealing.seal(
            privateKey: SecretBytes(copying: pkcs8), authenticating: certificate, to: hsmToken.importKey)
        return try await call(
            .importPrivateKey(
                PrivateKeyImport(
                    merchantIdentifier: label, use: use, certificate: certificate,
                    encapsulatedKey: sealed.encapsulatedKey, sealedPrivateKey: sealed.sealed)))
    }

    /// Imports a merchant's key and certificate. Throws the worker's answer as `Unexpected` on failure.
    func mustImport(_ merchant: ForgedMerchant, _ hsmToken: HSMTokenDescription) async throws {
        let answer = try await importKey(merchant, hsmToken)
        guard answer == .done else { throw Unexpected(description: "\(answer)") }
    }

    /// Returns the keys of all pages.
    func keys() async throws -> [KeyDescription] {
        var keys: [KeyDescription] = []
        var request = WorkerRequest.listKeys
        while true {
            let answer = try await call(request)
            switch answer {
            case .keys(let last): return keys + last
            case .keyPage(let page, let listing):
                keys += page
                request = .listMoreKeys(listing: listing)
            default: throw Unexpected(description: "\(answer)")
            }
        }
    }
}

extension WorkerUnderTest {
    /// Starts a worker, and opens the HSM token.
    static func serving(_ hsmToken: any WorkersToken) async throws -> WorkerUnderTest {
        let worker = try WorkerUnderTest(hsmToken)
        try await worker.open(hsmToken)
        return worker
    }

    /// Starts a worker, opens the HSM token, and imports both merchants' keys.
    static func withMerchantKeys(
        _ hsmToken: any WorkersToken, sessions: UInt16 = 2, _ change: (inout HSMTokenOpening) -> Void = { _ in }
    ) async throws -> WorkerUnderTest {
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: sessions, change)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        try await worker.mustImport(SharedForge.rsaMerchant, description)
        return worker
    }
}

extension WorkerAnswer {
    /// The failure's kind, or nil if the answer is not a failure.
    var failureKind: WorkerFailure.Kind? {
        if case .failed(let failure) = self { failure.kind } else { nil }
    }

    /// The failure's message, or an empty string if the answer is not a failure.
    var failureMessage: String {
        if case .failed(let failure) = self { failure.message } else { "" }
    }
}

extension EncryptedPayment {
    /// A payment to the EC merchant.
    static func ec() throws -> EncryptedPayment {
        try EncryptedPayment(ec: SharedForge.ecMerchant.key.subjectPublicKeyInfo)
    }

    /// A payment to the RSA merchant.
    static func rsa() throws -> EncryptedPayment {
        try EncryptedPayment(rsa: SharedForge.rsaMerchant.key.subjectPublicKeyInfo)
    }

    var request: WorkerRequest {
        .decrypt(
            Decryption(
                publicKeyHash: publicKeyHash, scheme: otherInfo.isEmpty ? .rsaV1 : .ecV1, keyMaterial: keyMaterial,
                otherInfo: otherInfo, ciphertext: ciphertext))
    }
}

/// A worker's process, started as the daemon starts it. Foundation's Process is unsuitable: it detects the end of a
/// child by an inherited descriptor, which the worker closes.
final class RunningWorker: Sendable {
    private enum State {
        case running([CheckedContinuation<Int32, Never>])
        case ended(Int32)
    }

    let identifier: Int32
    /// The daemon's end of the socket pair. The caller closes it.
    let socket: Int32
    private let state = Mutex(State.running([]))

    struct NotStarted: Error {
        let code: Int32
    }

    init(_ path: String, environment: [String: String]) throws {
        let executable = unsafe paytokend_open_executable(path)
        defer { close(executable) }
        var arguments: [UnsafeMutablePointer<CChar>?] = unsafe [strdup("paytokend-hsm"), nil]
        var variables = unsafe environment.map { unsafe strdup("\($0.key)=\($0.value)") }
        unsafe variables.append(nil)
        defer {
            let copies = unsafe arguments + variables
            for index in unsafe copies.indices { unsafe free(copies[index]) }
        }
        var (identifier, socket): (pid_t, Int32) = (0, -1)
        let code = unsafe paytokend_spawn(executable, &arguments, &variables, &identifier, &socket, nil)
        guard code == 0 else { throw NotStarted(code: code) }
        self.identifier = identifier
        self.socket = socket
        Thread { [self] in awaitEnd() }.start()
    }

    private func awaitEnd() {
        var status: Int32 = 0
        _ = unsafe paytokend_reap(identifier, &status)
        let signal = status & 0x7F
        let code = signal == 0 ? (status >> 8) & 0xFF : 128 + signal
        let waiting: [CheckedContinuation<Int32, Never>] = state.withLock { state in
            guard case .running(let waiting) = state else { return [] }
            state = .ended(code)
            return waiting
        }
        for continuation in waiting { continuation.resume(returning: code) }
    }

    /// The exit status, or 128 plus the signal that ended the process.
    func status() async -> Int32 {
        await withCheckedContinuation { continuation in
            let known: Int32? = state.withLock { state in
                switch state {
                case .ended(let status): return status
                case .running(let waiting):
                    state = .running(waiting + [continuation])
                    return nil
                }
            }
            if let known { continuation.resume(returning: known) }
        }
    }
}
