import CLinux
import Glibc
public import WorkerProtocol

/// A worker process at the other end of a socket pair, started as the daemon starts it. One thread uses it.
public final class WorkerProcess {
    public let identifier: Int32
    private let socket: Int32
    private var decoder = FrameDecoder(maximumLength: FieldBound.answerFrame)
    private var input = [UInt8](repeating: 0, count: 64 * 1024)

    public struct Failure: Error, CustomStringConvertible {
        public let description: String

        public init(_ description: String) { self.description = description }
    }

    /// Starts a worker.
    ///
    /// - Parameter program: the path of `paytokend-hsm`, which inherits SOFTHSM2_CONF and SCRIPTED_PKCS11 from this process.
    public init(program: String) throws {
        let executable = unsafe paytokend_open_executable(program)
        guard executable >= 0 else { throw Failure("\(program) cannot be opened") }
        defer { close(executable) }
        var variables: [UnsafeMutablePointer<CChar>?] = unsafe []
        for name in ["SOFTHSM2_CONF", "SCRIPTED_PKCS11"] {
            guard let value = unsafe getenv(name) else { continue }
            unsafe variables.append(strdup("\(name)=" + String(cString: value)))
        }
        unsafe variables.append(nil)
        var arguments: [UnsafeMutablePointer<CChar>?] = unsafe [strdup("paytokend-hsm"), nil]
        var (process, socket): (pid_t, Int32) = (0, -1)
        guard unsafe paytokend_spawn(executable, &arguments, &variables, &process, &socket, nil) == 0 else {
            throw Failure("\(program) cannot be started")
        }
        (identifier, self.socket) = (process, socket)
        _ = fcntl(socket, F_SETFL, 0)
    }

    /// Opens the HSM token.
    public func open(_ opening: HSMTokenOpening) throws -> HSMTokenDescription {
        let opened = try call(.open(opening))
        guard case .opened(let description) = opened else { throw Failure("the token was not opened: \(opened)") }
        return description
    }

    /// Generates a merchant's key in the HSM token.
    ///
    /// - Returns: the key's SubjectPublicKeyInfo in DER.
    public func generateKey(_ generation: KeyGeneration) throws -> [UInt8] {
        let made = try call(.generateKey(generation))
        guard case .generatedKey(let key) = made else { throw Failure("no key was made: \(made)") }
        return key.subjectPublicKeyInfo
    }

    private func call(_ request: WorkerRequest) throws -> WorkerAnswer {
        try write(request.encoded(identifier: 1))
        return try WorkerAnswer(frame())
    }

    /// Waits for a frame from the worker.
    public func frame() throws -> Frame {
        while true {
            if let frame = try decoder.next() { return frame }
            try read()
        }
    }

    /// Returns a frame that was already read; nil if there is none.
    public func readFrame() throws -> Frame? { try decoder.next() }

    /// Waits for bytes from the worker, and reads them.
    public func read() throws {
        let count = unsafe Glibc.read(socket, &input, input.count)
        guard count > 0 else { throw Failure("the worker ended") }
        decoder.append(input.prefix(count))
    }

    public func write(_ bytes: [UInt8]) throws {
        var written = 0
        while written < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { buffer in
                unsafe Glibc.write(socket, buffer.baseAddress.unsafelyUnwrapped + written, buffer.count - written)
            }
            guard count > 0 else { throw Failure("the worker takes no more") }
            written += count
        }
    }
}
